"""Questions about verdicts, and what was read of a journal partition to answer them.

Values only: reading the outcomes topics is `outcomes`' job, which also says when a question's time is over.
"""

from __future__ import annotations

import time
from typing import Any, Final

from ...schemas.errors import InputError, NotYetVisibleError, PositionExpired
from ...schemas.positions import Position, epoch_of
from ..verdicts import Outcome, OutcomeRecord, outcome_of
from .futures import AwaitableFuture

_KEPT_VERDICTS: Final = 200_000
"""Most verdicts kept for one journal partition; beyond it the older half is forgotten (and read again if asked)."""


class KnownVerdicts:
    """What was read of one journal partition: the verdicts of [start, end), and how far the stream is."""

    __slots__ = ("end", "mark", "start", "system_time", "verdicts")

    def __init__(self) -> None:
        self.start = self.end = 0
        self.verdicts: dict[int, list[Any]] = {}
        self.mark = 0
        self.system_time = 0

    def add(self, record: OutcomeRecord) -> None:
        """Take a record in: it extends the range, or replaces one that it does not touch."""
        self.mark = max(self.mark, record.end)
        self.system_time = max(self.system_time, record.system_time)
        if record.start > self.end or record.end < self.start:
            if record.start == record.end:
                return  # a repeated mark of an idle partition: nothing to hold
            self.start, self.end, self.verdicts = record.start, record.end, {}
        self.start, self.end = min(self.start, record.start), max(self.end, record.end)
        self.verdicts.update(record.verdicts)
        if len(self.verdicts) > _KEPT_VERDICTS:
            self._forget()

    def _forget(self) -> None:
        kept = sorted(self.verdicts)[len(self.verdicts) // 2 :]
        self.start = kept[0]
        self.verdicts = {position: self.verdicts[position] for position in kept}

    def find(self, position: Position) -> Outcome | None:
        """The verdict of a position, or None where its range was not read."""
        if not self.start <= position.value < self.end:
            return None
        return outcome_of(position, self.verdicts.get(position.value))


class Question:
    """One position that somebody waits for.

    Args:
        since: append time of the event, ms.
        limit_s: seconds to wait.
    Attributes:
        answer: its verdict, or why there is none.
    """

    __slots__ = ("answer", "asked_s", "limit_s", "position", "since")

    def __init__(self, position: Position, since: int, limit_s: float) -> None:
        self.position = position
        self.since = since
        self.limit_s = limit_s
        self.asked_s = time.monotonic()
        self.answer: AwaitableFuture[Outcome] = AwaitableFuture()

    @property
    def key(self) -> tuple[str, int]:
        return self.position.topic, self.position.partition


def not_yet(question: Question, known: KnownVerdicts | None) -> NotYetVisibleError:
    """Why a question was not answered in time.

    Args:
        known: what was read of its partition.
    """
    position = question.position
    waited = f"The stream has not evaluated {position} within {question.limit_s:g} s"
    if known is None or not known.mark:
        return _in_the_journal(None, f"{waited}; no verdict of its partition was seen. Is the stream running?")
    behind = position.value + 1 - known.mark
    if behind <= 0 or epoch_of(known.mark) != epoch_of(position.value):
        return _in_the_journal(None, f"{waited}; it has passed the position; the verdict is being read.")
    text = f"{waited}; it is {behind:,} positions behind"
    if known.system_time > 0:
        text += f" and has reached what was written {time.time() - known.system_time / 1000:.1f} s ago"
    return _in_the_journal(behind, f"{text}.")


def _in_the_journal(behind: int | None, text: str) -> NotYetVisibleError:
    """No verdict yet: that is no reason to send the event again."""
    error = NotYetVisibleError(behind, text)
    error.hint = "The event is in the journal: do not send it again. Ask for its outcome later; `metajournal status`."
    return error


def answer(question: Question, known: KnownVerdicts, record: OutcomeRecord) -> Outcome | PositionExpired | None:
    """What a record brings to a question: its verdict, that this is gone, or nothing yet.

    Args:
        known: what was read of its partition, the record included.
    """
    outcome = known.find(question.position)
    # Reading began before the event was written: a range that begins above it means that its own one is gone.
    if outcome is None and record.start > question.position.value:
        return PositionExpired(f"The verdict on {question.position} is no longer in its topic.", earliest=None)
    return outcome


def closed(position: Position) -> InputError:
    """Why a question is not answered any more."""
    return InputError(
        "The journal is closed: verdicts are no longer read.",
        code="closed",
        hint=f"Ask before closing it; `metajournal why` shows what became of the event at {position}.",
    )
