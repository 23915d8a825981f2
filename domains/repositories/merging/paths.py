"""The merge of one path, of what it is at the base and on both sides.

Source: docs/concepts.md.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..events import SOURCE_WINS

DESTINATION: Final = "destination"
SOURCE: Final = "source"


class Conflicting:
    """What a path is at a virtual base where its own merge was in conflict: it equals neither side, nor itself."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False


CONFLICT: Final = Conflicting()


class Decision(NamedTuple):
    """What becomes of a path.

    Attributes:
        side: whose value it is.
        conflict: whether both sides changed it, and differently.
    """

    side: str
    conflict: bool


def decided(base: Any, destination: Any, source: Any, strategy: str) -> Decision:
    """The merge of one path.

    Args:
        base, destination, source: the path's content there; None where it is not there; CONFLICT at a virtual base.
        strategy: none (of a conflict the destination's value stays, and the commit is marked), source-wins, dest-wins.
    """
    if destination == source:
        return Decision(DESTINATION, False)
    if destination == base:
        return Decision(SOURCE, False)
    if source == base:
        return Decision(DESTINATION, False)
    return Decision(SOURCE if strategy == SOURCE_WINS else DESTINATION, True)
