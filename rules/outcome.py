"""What the rules can say of an event: accepted with its rows, unchanged, or rejected with a reason.

An outcome is a value, never an exception: a rejected event is an ordinary result that stands in the log for ever.
Shelved and duplicate are verdicts of the stream, which never shows such records to the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .entity import EntityRow

Detail = Mapping[str, Any] | Sequence[Mapping[str, str]]
"""What a reader needs to act on a rejection, as JSON values: see `Rejected`."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The event changed its aggregate.

    Attributes:
        rows: the new rows of `entities`, one for each changed entity, `seq` counting from 0.
        facts: the new rows of other history tables (see `tables`), `seq` counting from 0 in each.
    """

    rows: tuple[EntityRow, ...]
    facts: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The event was in order and left everything as it was: no row, no change record."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The event was refused and changed nothing.

    Attributes:
        reason: one of `admission.REASONS`, or of those that the event's domain declares.
        detail: what the reason speaks of. Of `invalid` a list of {"field", "message"}.
    """

    reason: str
    detail: Detail


Outcome = Accepted | Unchanged | Rejected

UNCHANGED: Final = Unchanged()
