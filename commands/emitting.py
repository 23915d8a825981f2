"""`metajournal emit`: one event from options, or many from JSON lines or URNs, singly or as one unit; each with its
position and outcome.

Left to whom: `parsing.py` makes events of text, the `Journal` sends them, `views.py` words the results.
Invariant: results come in the order of the input, one for each line, also for the lines that were refused before
sending; at most WINDOW receipts are held, so a pipe may go on for ever, and results do not wait for further lines.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import TextIOBase, UnsupportedOperation
from select import select
from typing import TYPE_CHECKING, Any, Final, TextIO

from ..schemas.arguments import check_number
from ..schemas.errors import (
    Fault,
    InputError,
    InvalidEventError,
    InvalidUnitError,
    MetajournalError,
    OutcomeUnknownError,
    PositionExpired,
    UnavailableError,
)
from ..schemas.limits import MAX_UNIT_EVENTS
from ..schemas.urn import Urn
from ..terminal.parsing import Typed, typed_event, typed_options
from ..values import MAX_LINE, bounded, error_json, outcome_json
from .meant import advice

if TYPE_CHECKING:
    from ..client import Journal
    from ..producers.receipts import Receipt

WINDOW: Final = 1000
"""Receipts held before the oldest is waited for."""
_SPACE_S: Final = 60.0
"""Seconds to wait for space in the client's queue: lines may come faster than they go."""

IDLE_S: Final = 0.05
"""Seconds without a new line after which the results so far are told."""

READ_BYTES: Final = 65_536

_OF_EVENT: Final = re.compile(r"events\[(\d+)\]\.")


class Sending:
    """A journal and what to wait for.

    Args:
        journal: where to emit.
        outcome: wait for the verdict of the rules too, not only until Kafka has the event.
        timeout_s: seconds to wait for a verdict; the client's setting where None.
    Raises:
        InputError: `timeout_s` is not a number of seconds; reported here, before anything is sent.
    """

    def __init__(self, journal: Journal, *, outcome: bool, timeout_s: float | None = None) -> None:
        check_number("timeout_s", timeout_s)
        self._journal = journal
        self._outcome = outcome
        self._timeout_s = timeout_s
        self._gave_up = False

    def event(self, typed: Typed) -> dict[str, Any]:
        """Emit an event and wait.

        Raises:
            MetajournalError: it was refused before sending, a service is away, or the outcome is unknown. Where the
                event is in the journal the error names it and its position.
        """
        receipt = self._emit(typed)
        try:
            return self._result(typed, receipt)
        except (UnavailableError, PositionExpired) as error:
            if receipt.acknowledged:
                error.data |= {"event_id": receipt.event_id, "position": str(receipt.position)}
                ask = f"metajournal why {receipt.event_id}"
                error.hint = f"The event is in the journal: do not send it again. Its outcome: `{ask}`."
            raise

    def lines(
        self, lines: TextIO | Iterable[str], typed_of: Callable[[str], Typed] = typed_event
    ) -> Iterator[dict[str, Any]]:
        """Emit the event of each line and give its result, in their order; empty lines count and are passed over.

        A line without an answer in time does not end the others: they are in the journal and have their positions.

        Args:
            typed_of: makes a line's event; raises InputError.
        """
        waiting: deque[tuple[int, Typed, Receipt]] = deque()
        number = 0
        for line in _arriving(lines):
            if line is None:
                yield from self._drained(waiting, 0)
                self._gave_up = False
                continue
            number += 1
            if not line.strip():
                continue
            try:
                typed = typed_of(line)
                waiting.append((number, typed, self._emit(typed)))
            except InputError as error:
                yield from self._drained(waiting, 0)
                yield {"line": number, **error_json(error.code, error.message, advice(error), error.data)}
            except MetajournalError:  # it ends here; what was sent is told before
                yield from self._drained(waiting, 0)
                raise
            yield from self._drained(waiting, WINDOW)
        yield from self._drained(waiting, 0)

    def unit(
        self,
        lines: TextIO | Iterable[str],
        unit_id: str | None = None,
        typed_of: Callable[[str], Typed] = typed_event,
    ) -> dict[str, Any]:
        """Emit the events of all lines as one unit and wait: all of them are in the journal afterwards, or none.

        Args:
            unit_id: id of a unit that is sent again; each of its lines has its `event_id`.
            typed_of: makes a line's event; raises InputError.
        Raises:
            InvalidUnitError: something is wrong with a line; lists every fault of every line. Nothing was sent.
            MetajournalError: as `Unit.commit`.
        """
        typed, numbers = _whole(lines, typed_of)
        try:
            unit = self._journal.emit_unit(typed, unit_id=unit_id, repeat=unit_id is not None)
        except InvalidUnitError as error:
            raise InvalidUnitError([_of_line(fault, numbers) for fault in error.faults]) from error
        results = [
            self._result_of_line(*line_result) for line_result in zip(numbers, typed, unit.receipts, strict=True)
        ]
        return {"ok": all(result["ok"] for result in results), "unit": unit.id, "events": results}

    def _emit(self, typed: Typed) -> Receipt:
        return self._journal.emit(typed.event, block_s=_SPACE_S, **typed.about)

    def _drained(self, waiting: deque[tuple[int, Typed, Receipt]], keep: int) -> Iterator[dict[str, Any]]:
        while len(waiting) > keep:
            yield self._result_of_line(*waiting.popleft())

    def _result_of_line(self, number: int, typed: Typed, receipt: Receipt) -> dict[str, Any]:
        """The result of a line, or why there is none yet."""
        result = {"line": number, **_named(typed, receipt)}
        try:
            return result | self._result(typed, receipt)
        except (UnavailableError, OutcomeUnknownError, PositionExpired) as error:
            self._gave_up = True  # waited for long enough: what came with it is asked without waiting again
            where = {"position": str(receipt.position)} if receipt.acknowledged else {}
            return result | where | error_json(error.code, error.message, error.hint, error.data)

    def _result(self, typed: Typed, receipt: Receipt) -> dict[str, Any]:
        result = {"ok": True, **_named(typed, receipt)}
        result |= {"position": str(receipt.position), "system_time": receipt.system_time}
        if self._outcome:
            result |= outcome_json(receipt.outcome(0.0 if self._gave_up else self._timeout_s))
            result["ok"] = result.get("original", result)["outcome"] not in ("rejected", "shelved")
        return result


def about_each(name: str, options: Mapping[str, Any]) -> Callable[[str], Typed]:
    """What makes of a line with a URN the event of these options about it.

    Args:
        name: the event's type.
        options: those of `typed_options`.
    Raises:
        InputError: the options make no event, whatever it is about.
    """
    typed_options(name, "dataset:default/any", **options)

    def typed_of(line: str) -> Typed:
        return typed_options(name, Urn.parse(line.strip()), **options)

    return typed_of


def _whole(lines: Iterable[str], typed_of: Callable[[str], Typed]) -> tuple[list[Typed], list[int]]:
    """The events of all lines, with their numbers; empty lines count and are passed over.

    Raises:
        InvalidUnitError: a line is no event, or there are too many; lists every fault.
    """
    typed: list[Typed] = []
    numbers: list[int] = []
    faults: list[Fault] = []
    for number, line in enumerate(bounded(lines), 1):
        if len(numbers) > MAX_UNIT_EVENTS:
            break  # the unit refuses them all; the rest need not be held
        if not line.strip():
            continue
        numbers.append(number)
        try:
            typed.append(typed_of(line))
        except InvalidEventError as error:
            faults += [Fault(f"line {number}: {fault.field}", fault.message) for fault in error.faults]
        except InputError as error:
            faults.append(Fault(f"line {number}", error.message))
    if faults:
        raise InvalidUnitError(faults)
    return typed, numbers


def _of_line(fault: Fault, numbers: list[int]) -> Fault:
    """A unit's fault with the number of its line instead of the event's."""
    match = _OF_EVENT.match(fault.field)
    return (
        fault if match is None else Fault(f"line {numbers[int(match[1])]}: {fault.field[match.end() :]}", fault.message)
    )


def _arriving(lines: TextIO | Iterable[str]) -> Iterator[str | None]:
    """Each line, and None whenever a pipe or terminal has none for a moment.

    Its descriptor is read here, past the file's own buffer, of which nobody can ask whether it holds a line.
    """
    source = _descriptor(lines)
    if source is None or not isinstance(lines, TextIOBase):
        yield from bounded(lines)
        return
    decoder = codecs.getincrementaldecoder(lines.encoding or "utf-8")(lines.errors or "strict")
    data, begun = b".", ""
    while data:
        if not select([source], [], [], IDLE_S)[0]:
            yield None
            select([source], [], [])
        data = os.read(source, READ_BYTES)
        *whole, begun = (begun + decoder.decode(data, final=not data)).split("\n")
        yield from whole
        begun = begun[: MAX_LINE + 1]  # of a line that is too long no more is held
    if begun:
        yield begun


def _descriptor(lines: object) -> int | None:
    """The file descriptor behind the lines; None where they come from memory."""
    try:
        return lines.fileno() if isinstance(lines, TextIOBase) else None
    except UnsupportedOperation:
        return None


def _named(typed: Typed, receipt: Receipt) -> dict[str, Any]:
    entities = typed.event.entities
    entity = entities[0] if len(entities) == 1 else typed.event.aggregate  # of many, what they have in common
    return {"event_id": receipt.event_id, "type": typed.event.TYPE, "entity": str(entity)}
