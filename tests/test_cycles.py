"""How the interpreter seeks cycles in a process that serves."""

from __future__ import annotations

import gc
import weakref

from metajournal.cycles import rarely_sought


class Node:
    """Something that can be in a cycle."""

    def __init__(self) -> None:
        self.other: Node | None = None


def cycle() -> weakref.ref[Node]:
    one, other = Node(), Node()
    one.other, other.other = other, one
    return weakref.ref(one)


def test_cycles_are_found_all_the_same_and_what_was_there_before_is_passed_over() -> None:
    usual, kept = gc.get_threshold(), [Node()]
    with rarely_sought(young=100):
        assert gc.get_freeze_count() > 0
        assert not any(one is kept for one in gc.get_objects())
        found = cycle()
        many: list[object] = []
        while found() is not None:
            many.append([many])
            assert len(many) < 1_000, "cycles are no longer sought"
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, usual)
