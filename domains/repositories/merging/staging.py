"""What stands in a staging area: the newest row of each path that no later reset covers.

Paths are compared by their bytes. The work is that of sorting, whatever prefixes were reset how often.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Reset(NamedTuple):
    """A partial reset.

    Attributes:
        path: a path, or a prefix of paths: UTF-8.
        is_prefix: which of the two.
        position: of its event.
    """

    path: bytes
    is_prefix: bool
    position: int


def standing(paths: Sequence[bytes], positions: Sequence[int], resets: Collection[Reset]) -> list[int]:
    """The rows that a commit of the area takes: its net changes.

    Args:
        paths: of each row of the area, in any order.
        positions: of each row's event; a path is in an event once.
        resets: partial ones that fell into the area.
    Returns:
        Numbers of rows, in the order of their paths, each path once.
    """
    newest: dict[bytes, int] = {}
    for row, path in enumerate(paths):
        held = newest.setdefault(path, row)
        if positions[held] < positions[row]:
            newest[path] = row
    ordered = sorted(newest)
    covered = covered_up_to(ordered, resets)
    rows = ((newest[path], up_to) for path, up_to in zip(ordered, covered, strict=True))
    return [row for row, up_to in rows if positions[row] > up_to]


def covered_up_to(paths: Sequence[bytes], resets: Iterable[Reset]) -> list[int]:
    """Up to where each path is reset.

    Args:
        paths: sorted, each once.
    Returns:
        For each path the greatest position of a reset that covers it: rows at lower ones are dropped; -1 for none.
    """
    exactly: dict[bytes, int] = {}
    prefixes: dict[bytes, int] = {}
    for path, is_prefix, position in resets:
        held = prefixes if is_prefix else exactly
        held[path] = max(position, held.get(path, -1))
    covering = _covering(paths, prefixes)
    return [max(up_to, exactly.get(path, -1)) for path, up_to in zip(paths, covering, strict=True)]


def _covering(paths: Sequence[bytes], prefixes: Mapping[bytes, int]) -> Iterator[int]:
    """The greatest position of the prefixes of each path: those of the present one lie on a stack, the longest last."""
    waiting = sorted(prefixes, reverse=True)
    stack: list[tuple[bytes, int]] = []
    for path in paths:
        while waiting and waiting[-1] <= path:
            prefix = waiting.pop()
            _leave(stack, prefix)
            stack.append((prefix, max(prefixes[prefix], stack[-1][1] if stack else -1)))
        _leave(stack, path)
        yield stack[-1][1] if stack else -1


def _leave(stack: list[tuple[bytes, int]], path: bytes) -> None:
    while stack and not path.startswith(stack[-1][0]):
        stack.pop()


def is_layer(rows: int, net: int, resets: int) -> bool:
    """Whether a staging area is itself the layer of its commit; else its net rows are written anew.

    Args:
        rows: in the area.
        net: paths that stand.
        resets: partial ones that fell into it.
    """
    return not resets and 2 * (rows - net) < rows
