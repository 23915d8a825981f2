"""Events in a body: one as JSON, or one a line, each read as `metajournal emit -` reads it and held against rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from typing import Any, Final, NamedTuple

from ..schemas.endpoints import Need
from ..schemas.errors import Fault, ForbiddenError, InputError, InvalidEventError, InvalidUnitError, MetajournalError
from ..schemas.limits import MAX_UNIT_EVENTS
from ..terminal.parsing import Typed, typed_event
from .bodies import Body, aside
from .problems import HttpError
from .writing import line_error

MOST_LINES: Final = 20_000
_PAUSED_AFTER: Final = 100
"""Lines that are read before others have their turn on the loop."""
IDENTITY: Final = ("tenant", "actor")
"""What the key says, so that no line does."""
Check = Callable[[Sequence[Need] | None], object]
"""Refuses rights that are not there, and what nobody may send (None)."""
NeedsOf = Callable[[Any], Sequence[Need] | None]


class Lines(NamedTuple):
    """The events of a body.

    Args:
        alone: the one event of a body that is JSON.
        typed: number of the line, and the event with what is said about it.
        refused: the answers of lines that are no event, or may not be sent.
    """

    alone: Typed | None
    typed: list[tuple[int, Typed]]
    refused: list[dict[str, Any]]


async def read_lines(body: Body | None, *, needs_of: NeedsOf, check: Check) -> Lines:
    """The events of a body; others have their turns meanwhile.

    Args:
        needs_of: the rights that an event needs; None: nobody may send it.
        check: refuses rights that are not there.
    Raises:
        InputError, ForbiddenError: of an event alone.
    """
    if body is None:
        raise InputError("The request has no body.", code="no-body", hint="Send an event as JSON, or one a line.")
    if not body.is_lines:
        return Lines(await _read(body.text, needs_of, check), [], [])
    typed: list[tuple[int, Typed]] = []
    refused: list[dict[str, Any]] = []
    async for number, line in _paced(_numbered(body.text)):
        try:
            typed.append((number, await _read(line, needs_of, check)))
        except MetajournalError as error:
            refused.append({"line": number, **line_error(error)})
    return Lines(None, typed, refused)


async def read_unit(body: Body | None, *, needs_of: NeedsOf, check: Check) -> list[Typed]:
    """The events of a unit, one a line.

    Raises:
        ForbiddenError: one of them may not be sent.
        InvalidUnitError: something is wrong with a line; lists every fault of every line.
    """
    if body is None:
        raise InputError("The request has no body.", code="no-body", hint="Send one event a line.")
    typed: list[Typed] = []
    faults: list[Fault] = []
    async for number, line in _paced(_numbered(body.text) if body.is_lines else [(1, body.text)]):
        try:
            typed.append(await _read(line, needs_of, check))
        except ForbiddenError:
            raise
        except InvalidEventError as error:
            faults += [Fault(f"line {number}: {fault.field}", fault.message) for fault in error.faults]
        except InputError as error:
            faults.append(Fault(f"line {number}", error.message))
        if len(typed) > MAX_UNIT_EVENTS:
            break  # the unit refuses them all
    if faults:
        raise InvalidUnitError(faults)
    return typed


async def _paced(lines: Iterable[tuple[int, str]]) -> AsyncIterator[tuple[int, str]]:
    """Lines as they are, with pauses."""
    for read, line in enumerate(lines, 1):
        yield line
        if read % _PAUSED_AFTER == 0:
            await asyncio.sleep(0)


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers. Raises: HttpError: 413: there are too many."""
    count = 0
    for number, line in enumerate(StringIO(text), 1):
        if line.strip():
            count += 1
            if count > MOST_LINES:
                raise HttpError(413, f"The body has more than {MOST_LINES:,} lines.", code="too-many-lines")
            yield number, line


async def _read(line: str, needs_of: NeedsOf, check: Check) -> Typed:
    typed = await aside(partial(_typed, line), len(line))
    check(needs_of(typed.event))
    return typed


def _typed(line: str) -> Typed:
    typed = typed_event(line)
    _refuse_identity(typed.about)
    if faults := typed.event.validate():
        raise InvalidEventError(faults)
    return typed


def not_over_http() -> ForbiddenError:
    """The error of an event that nobody may send."""
    return ForbiddenError(
        "Events of rights and keys cannot be sent here.", code="not-over-http",
        hint="Rights and keys have addresses of their own, below /api/v1/access.",
    )  # fmt: skip


def _refuse_identity(about: Mapping[str, Any]) -> None:
    named = [name for name in IDENTITY if name in about]
    if named:
        raise InvalidEventError([Fault(name, "is what the key says: omit it") for name in named])
