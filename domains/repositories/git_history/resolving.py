"""In which paths a merge that git has differs from what our rules make of its two parents: pure.

Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..events import NO_STRATEGY
from ..merging.bases import Base, content_at
from ..merging.paths import SOURCE, decided
from ..merging.ranges import commits_of
from .objects import Leaf, PathChange

Differing: TypeAlias = "Mapping[str, PathChange]"
"""By path, in what a commit (`new`) differs from the destination (`old`)."""


def resolved(
    source: Differing, result: Differing, base: Base | None, at_base: Callable[[int], Differing]
) -> dict[str, Leaf | None]:
    """What is laid over a merge of strategy `none`, so that it gives what git has.

    Args:
        source, result: in what the merge's second parent, and the merge that git has, differ from the first parent.
        base: what the two are merged against, as of `bases.base_of`.
        at_base: gives in what a commit, by its number, differs from the first parent.
    Returns:
        By path, sorted: what it becomes; None where it goes.
    """
    bases = {number: at_base(number) for number in commits_of(base)} if source else {}
    laid: dict[str, Leaf | None] = {}
    for path in sorted(source.keys() | result.keys()):
        ours = _merged(path, source, base, bases)
        held = (source.get(path) or result[path]).old
        wanted = result[path].new if path in result else held
        if (held if ours is None else ours.new) != wanted:
            laid[path] = wanted
    return laid


def _merged(path: str, source: Differing, base: Base | None, bases: Mapping[int, Differing]) -> PathChange | None:
    """The source's change of a path, where the merge takes it."""
    given = source.get(path)
    if given is None:
        return None
    contents = {number: change.new if (change := of.get(path)) else given.old for number, of in bases.items()}
    side, _ = decided(content_at(base, contents), given.old, given.new, NO_STRATEGY)
    return given if side == SOURCE else None
