"""Lineage over HTTP: the source's endpoints in its shapes, and the client's questions by URN.

What somebody may not read is neither entered nor named: an answer that lacks something for that says so, without how
much. Data are unchecked references, in questions as in facts, so unknown data have no relations and are no error.
Source: the source text's sections "REST APIs" and "Existing REST API changes".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ...schemas.endpoints import (
    LINEAGE,
    READ,
    Answer,
    Endpoint,
    Need,
    Parameter,
    Request,
    chosen_word,
    number,
    whole_number,
)
from ...schemas.errors import Fault, InputError, InvalidEventError
from ...schemas.shapes import RECORDED
from ...schemas.times import time_shown
from ...schemas.urn import Urn
from ...values import moment, point, points_of
from ..catalog.http import DATASET, NAMESPACE, STREAM, STREAM_READ, TYPES
from ..catalog.urns import dataset, run, stream
from .client import WithLineage
from .events import ACCESSES, UNKNOWN, AccessesRecorded, ExternalWrite, RunStarted, RunStopped, access_type
from .questions import LEVELS, MOST_NODES, MOST_PAGE, NODES, PAGE
from .receiving import RECEIVING
from .values import (
    ACCESS,
    ACCESSES_PAGE,
    LINEAGE_ANSWER,
    RUNS,
    TOUCHED,
    accesses_json,
    of_dotted,
    runs_json,
    touched_json,
)
from .walk import DIRECTIONS, everything

_MOST_LEVELS: Final = 1_000
_RELATIVE: Final = re.compile(r"now((?:[+-][0-9]{1,9}[smhd])*)")
_STEP: Final = re.compile(r"([+-][0-9]{1,9})([smhd])")
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DATA: Final[Mapping[str, Callable[[str, str], Urn]]] = {"dataset": dataset, "stream": stream}
_WITHHELD: Final = "Metajournal-Withheld"
"""Says of an answer whose shape cannot that it lacks what may not be read."""
_WITHHELD_TOO: Final = {"withheld?": bool}
"""What the shape of a page has besides, since something of it may not be read."""


# --- bodies, as the source spells them


@dataclass(frozen=True)
class NextBody:
    """Where lineage goes on: from data, by their ids in an earlier answer."""

    after: list[str]
    start: int | str | None = None
    end: int | str | None = None
    maxLevels: int | str = LEVELS  # noqa: N815


@dataclass(frozen=True)
class ProgramRunBody:
    """A run of a program."""

    namespace: str
    app: str
    programType: str  # noqa: N815
    name: str
    runId: str  # noqa: N815

    @property
    def urn(self) -> Urn:
        """Its URN. Raises: InvalidEventError, InvalidUrnError."""
        kind = TYPES.get(self.programType.lower())
        if kind is None:
            raise InvalidEventError([Fault("programRun.programType", f"must be one of {', '.join(sorted(TYPES))}")])
        return run(self.namespace, self.app, kind, self.name, self.runId)


@dataclass(frozen=True)
class DataBody:
    """A dataset or a stream."""

    namespace: str
    type: str
    name: str

    @property
    def urn(self) -> Urn:
        """Its URN. Raises: InvalidEventError, InvalidUrnError."""
        make = _DATA.get(self.type.lower())
        if make is None:
            raise InvalidEventError([Fault("data.type", f"must be DATASET or STREAM, not {self.type!r:.40}")])
        return make(self.namespace, self.name)


@dataclass(frozen=True)
class RecordedBody:
    """Properties of both scopes, as they were at the access."""

    user: dict[str, str] | None = None
    system: dict[str, str] | None = None


@dataclass(frozen=True)
class HistoryBody:
    """A run's access to data, now."""

    programRun: ProgramRunBody  # noqa: N815
    data: DataBody
    accessType: str | None = None  # noqa: N815
    metadata: RecordedBody | None = None

    @property
    def access(self) -> str:
        """What kind of access it was; unknown where that is not said. Raises: InvalidEventError."""
        access: str = UNKNOWN if self.accessType is None else access_type(self.accessType)
        if access not in ACCESSES:
            raise InvalidEventError(
                [Fault("accessType", f"must be READ, WRITE or UNKNOWN (IN, OUT), not {access!r:.40}")]
            )
        return access


# --- questions


def lineage_of(journal: WithLineage, request: Request) -> Answer:
    """The lineage of the data of a path, as the client has it."""
    query = request.query
    return Answer(
        journal.lineage.of(
            request.entity, *_window(request), levels=request.whole("levels", LEVELS, _MOST_LEVELS),
            direction=query.get("direction", DIRECTIONS[0]), limit=request.whole("limit", NODES, MOST_NODES),
            **_asked(request),
        )
    )  # fmt: skip


def _of_source(journal: WithLineage, request: Request) -> Answer:
    """The lineage of a dataset or stream, by the source's names."""
    levels = request.whole("maxLevels", LEVELS, _MOST_LEVELS)
    return Answer(journal.lineage.of(request.entity, *_window(request), levels=levels, **_asked(request)))


def _next(journal: WithLineage, request: Request) -> Answer:
    """The lineage of data that an earlier answer ended at."""
    body: NextBody = request.body
    window = [_time(text, request.at_ms) for text in (body.start, body.end)]
    levels = whole_number("maxLevels", str(body.maxLevels), _MOST_LEVELS)
    return Answer(journal.lineage.of(_after(request), *window, levels=levels, **_asked(request)))


def runs_of(journal: WithLineage, request: Request) -> Answer:
    page = journal.lineage.runs(request.entity, *_window(request), **_page(request))
    return Answer(runs_json(page), next=_following(page.cursor, request))


def run_with_accesses(journal: WithLineage, request: Request) -> Answer:
    """A run, and a page of what it touched."""
    page = journal.lineage.accesses(request.entity, **_page(request))
    shown = touched_json(journal.lineage.run(request.entity, **_asked(request)), page)
    return Answer(shown, next=_following(page.cursor, request))


def _accesses(journal: WithLineage, request: Request) -> Answer:
    page = journal.lineage.accesses(request.entity, **_page(request))
    return Answer(accesses_json(page), next=_following(page.cursor, request))


def _accesses_of_source(journal: WithLineage, request: Request) -> Answer:
    """The same as a list, which has no place for what it lacks: a header says it."""
    page = journal.lineage.accesses(request.entity, **_page(request))
    headers = {_WITHHELD: "true"} if page.withheld else {}
    return Answer(page.items, headers=headers, next=_following(page.cursor, request))


def _asked(request: Request) -> dict[str, Any]:
    """Points, tenant and what may be seen, as the client's questions take them."""
    visible = everything if request.rights.everywhere(READ) else lambda urn: request.may(READ, Urn.parse(urn))
    return {**points_of(request.query), "tenant": request.tenant, "visible": visible}


def _page(request: Request) -> dict[str, Any]:
    page = {"limit": request.whole("limit", PAGE, MOST_PAGE), "cursor": request.query.get("cursor")}
    return {**_asked(request), **page}


def _following(cursor: str | None, request: Request) -> dict[str, str] | None:
    """The query of the next page: its window is the first one's, whatever `now` is then."""
    if cursor is None:
        return None
    window = zip(("start", "end"), _window(request), strict=True)
    relative = {name: time_shown(at) for name, at in window if at is not None and _is_relative(request.query[name])}
    return {**relative, "cursor": cursor}


def _window(request: Request) -> tuple[int | None, int | None]:
    start, end = (_time(request.query.get(name), request.at_ms) for name in ("start", "end"))
    return start, end


def _is_relative(text: str) -> bool:
    return _RELATIVE.fullmatch(text) is not None


def _time(value: int | str | None, now_ms: int) -> int | None:
    """A time in milliseconds; None where none is given.

    Args:
        value: text or a number as of `values.moment`, or `now`, `now-1h`, `now-1d+2h` (s, m, h, d).
    Raises:
        InputError: it is none of these.
    """
    if value is None:
        return None
    text = str(value)
    found = _RELATIVE.fullmatch(text)
    if found is None:
        return moment(text)
    return now_ms + sum(int(count) * _UNITS_MS[unit] for count, unit in _STEP.findall(found[1]))


def _after(request: Request) -> list[Urn]:
    """The data that lineage goes on from. Raises: InputError: also where there are too many; InvalidUrnError."""
    if len(request.body.after) > NODES:
        raise InputError(f"Lineage starts at 1 to {NODES:,} data, not at {len(request.body.after):,}.")
    return [of_dotted(text) for text in request.body.after]


def _may_go_on(request: Request) -> Sequence[Need]:
    return tuple(Need(READ, urn) for urn in (request.entity, *_after(request)))


# --- facts


def _record(request: Request) -> AccessesRecorded:
    body: HistoryBody = request.body
    metadata = None
    if body.metadata is not None:
        scopes = {"user": body.metadata.user, "system": body.metadata.system}
        metadata = {scope: {"properties": properties or {}} for scope, properties in scopes.items()}
    return AccessesRecorded(body.programRun.urn, [(body.data.urn, body.access, request.at_ms, None, metadata)])


def _may_record(request: Request) -> Sequence[Need]:
    return (Need(LINEAGE, request.body.programRun.urn),)


def _write(request: Request) -> ExternalWrite:
    """A write to a stream from outside: that there was one is kept, and not what was written."""
    source = request.query.get("source")
    if not source:
        raise InputError("The query names no source.", code="no-source", hint="Say who writes: ?source=sensor-7.")
    return ExternalWrite(request.entity, source, request.at_ms)


_TIMES: Final = "Milliseconds (up to 1e11: seconds), ISO 8601, or relative: now-1h."
_START: Final = Parameter("start", f"Only runs that had not stopped before. {_TIMES}", read=partial(_time, now_ms=0))
_END: Final = Parameter("end", f"Only runs that started before. {_TIMES}", read=partial(_time, now_ms=0))
_CURSOR: Final = Parameter("cursor", "Of the page before.")
_LIMIT: Final = number("limit", "Most entries of a page.", MOST_PAGE)
_AS_AT: Final = Parameter(
    "as_at", "What the journal had recorded by a position, several of them, or a time.", read=point
)
_AS_OF: Final = Parameter("as_of", "Only facts about this time or an earlier one.", read=moment)
_DIRECTION: Final = Parameter(
    "direction", f"One of {', '.join(DIRECTIONS)}.", read=partial(chosen_word, "direction", words=DIRECTIONS)
)
_SOURCE: Final = Parameter("source", "Who writes.", required=True)
_POINTS: Final = (_AS_AT, _AS_OF)
_OF_SOURCE: Final = (_START, _END, number("maxLevels", "How often to go from data to programs to data.", _MOST_LEVELS))
_RUN_PATH: Final = f"{NAMESPACE}/apps/{{a}}/{{type}}/{{p}}/runs/{{r}}"


def _run_of(parts: Mapping[str, str]) -> Urn:
    return run(parts["ns"], parts["a"], parts["type"], parts["p"], parts["r"])


ENDPOINTS: Final = (
    *RECEIVING,
    *(
        Endpoint(
            "GET", f"{form.path}/lineage", f"Programs and data in the lineage of {form.what}.", read=_of_source,
            urn=form.urn, answer=LINEAGE_ANSWER, query=(*_OF_SOURCE, *_POINTS),
        )
        for form in (DATASET, STREAM, STREAM_READ)
    ),
    *(
        Endpoint(
            "POST", f"{form.path}/lineage/next", "The same of data that an earlier answer ended at.", read=_next,
            urn=form.urn, needs=_may_go_on, body=NextBody, answer=LINEAGE_ANSWER, query=_POINTS,
        )
        for form in (DATASET, STREAM)
    ),
    Endpoint(
        "GET", f"{_RUN_PATH}/metadata/accesses", "What a run accessed.", read=_accesses_of_source, urn=_run_of,
        words={"type": TYPES}, answer=[ACCESS], query=(_LIMIT, _CURSOR, *_POINTS),
    ),
    Endpoint(
        "POST", "/v3/metadata/history", "Record that a run accessed data, now.", LINEAGE, event=_record,
        needs=_may_record, body=HistoryBody, answer=RECORDED,
    ),
    *(
        Endpoint(
            "POST", f"{STREAM.path}{path}", f"Record a write to a stream from outside{about}.", LINEAGE, event=_write,
            urn=STREAM.urn, answer=RECORDED, query=(_SOURCE,), waits=path != "/async",
        )
        for path, about in (("", ""), ("/async", ", without waiting for the verdict"), ("/batch", ", as a batch"))
    ),
    Endpoint(
        "GET", "/api/v1/lineage/{urn}", "Programs and data in the lineage of data.", read=lineage_of,
        answer=LINEAGE_ANSWER,
        query=(
            _START, _END, number("levels", "How often to go from data to programs to data.", _MOST_LEVELS),
            _DIRECTION, number("limit", "Most nodes.", MOST_NODES),
            *_POINTS,
        ),
    ),
    Endpoint(
        "GET", "/api/v1/runs/{urn}", "Runs of a program, the newest first.", read=runs_of,
        answer={**RUNS, **_WITHHELD_TOO}, query=(_START, _END, _LIMIT, _CURSOR, *_POINTS),
    ),
    Endpoint(
        "GET", "/api/v1/run/{urn}", "A run: its times, what was recorded with it, what it accessed.",
        read=run_with_accesses, answer={**TOUCHED, **_WITHHELD_TOO}, query=(_LIMIT, _CURSOR, *_POINTS),
    ),
    Endpoint(
        "GET", "/api/v1/accesses/{urn}", "What a run accessed.", read=_accesses,
        answer={**ACCESSES_PAGE, **_WITHHELD_TOO}, query=(_LIMIT, _CURSOR, *_POINTS),
    ),
)  # fmt: skip
"""Lineage's rows."""


def _run_need(event: Any) -> Sequence[Need]:
    return (Need(LINEAGE, event.run),)


def _stream_need(event: Any) -> Sequence[Need]:
    return (Need(LINEAGE, event.stream),)


NEEDS: Final[Mapping[str, Callable[[Any], Sequence[Need]]]] = {
    AccessesRecorded.TYPE: _run_need,
    RunStarted.TYPE: _run_need,
    RunStopped.TYPE: _run_need,
    ExternalWrite.TYPE: _stream_need,
}
"""The rights that lineage's events need."""
