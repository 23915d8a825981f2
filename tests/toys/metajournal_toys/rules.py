"""The rules of toys: a toy is there from ToyMade to ToyLost, and only one that is there can be played with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from metajournal.rules import Reading, Rule
from metajournal.rules.admission import refusal, stale
from metajournal.rules.entity import At, Reads, RowReader
from metajournal.rules.outcome import UNCHANGED, Accepted, Outcome, Rejected
from metajournal.rules.plain import ended_row, entity_row, live, origin
from metajournal.schemas.header import Header

from .events import ToyLost, ToyMade, ToyPlayed
from .rows import PlayKey, PlayRow


def made(header: Header, event: ToyMade, at: At, rows: RowReader) -> Outcome:
    """A new toy, or one that is made otherwise; the same again changes nothing."""
    refused = refusal(header, event)
    if refused is not None:
        return refused
    before = live(rows.entity(event.toy))
    refused = stale(header, event.toy, before)
    if refused is not None:
        return refused
    record = {"material": event.material, "pieces": event.pieces}
    if before is not None and before.record == record:
        return UNCHANGED
    return Accepted((entity_row(header, at, event.toy, before, record=record),))


def played(header: Header, event: ToyPlayed, at: At, rows: RowReader) -> Outcome:
    """Minutes add up for each toy and player."""
    refused = refusal(header, event)
    if refused is not None:
        return refused
    before = live(rows.entity(event.toy))
    refused = stale(header, event.toy, before)
    if refused is not None:
        return refused
    if before is None:
        return Rejected("unknown-toy", {"toy": str(event.toy)})
    key = PlayKey(event.toy, event.player)
    until_now = rows.fact(key)
    minutes = event.minutes + (0 if until_now is None else until_now.minutes)
    last = max(header.event_time, header.event_time if until_now is None else until_now.last_played)
    return Accepted((), (PlayRow._make((header.tenant, *key, *origin(header, at), minutes, last)),))


def lost(header: Header, event: ToyLost, at: At, rows: RowReader) -> Outcome:
    """The end of a toy."""
    refused = refusal(header, event)
    if refused is not None:
        return refused
    before = live(rows.entity(event.toy))
    refused = stale(header, event.toy, before)
    if refused is not None:
        return refused
    return UNCHANGED if before is None else Accepted((ended_row(header, at, before),))


def reads_of_played(_: Header, event: ToyPlayed) -> Reads:
    """The row of the toy and its player, besides the toy itself."""
    return Reads((PlayKey(event.toy, event.player),))


RULES: Final[Mapping[str, Rule]] = {ToyMade.TYPE: made, ToyPlayed.TYPE: played, ToyLost.TYPE: lost}
READS: Final[Mapping[str, Reading]] = {ToyPlayed.TYPE: reads_of_played}
