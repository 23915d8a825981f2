"""An import ends when what it has brought in can be read, and says so where that comes no nearer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from metajournal.domains.repositories.client import Repository
from metajournal.domains.repositories.git_commands import _Lines, _readable
from metajournal.schemas.errors import NotYetVisibleError

KEY = ("metajournal.journal.repositories", 3)
HEADS = ["a" * 64, "b" * 64]


class Lagging:
    """A repository of whose commits so many events are still to be worked out when it is asked: one after another."""

    def __init__(self, lacking: Iterator[int]) -> None:
        self._lacking = lacking
        self.asked: list[str] = []

    def tree(self, ref: str, *, timeout_s: float) -> Any:
        self.asked.append(ref)
        lacking = next(self._lacking)
        if lacking:
            raise NotYetVisibleError({KEY: lacking})


def waited(lacking: list[int], timeout_s: float) -> tuple[bool, list[str]]:
    repo = Lagging(iter(lacking))
    return _readable(cast(Repository, repo), HEADS, timeout_s, _Lines("shop", silent=False)), repo.asked


def test_each_branch_is_waited_for_and_how_much_is_to_go_is_said_as_it_shrinks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert waited([7_488, 7_488, 12, 0, 0], 60) == (True, [HEADS[0]] * 4 + [HEADS[1]])
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.split(": ")[-1] for line in said.err.splitlines()] == ["7,488 events to go", "12 events to go"]


def test_as_long_as_it_comes_nearer_it_is_waited_for_and_no_longer() -> None:
    assert waited([3, 2, 1, 1, 0], 0) == (False, [HEADS[0]])
    assert waited([3, 2, 1, 0, 0], 60)[0]
