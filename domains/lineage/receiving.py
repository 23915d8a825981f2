"""OpenLineage over HTTP: each event becomes the facts that the import makes of it, and its facets are kept.

A run's facts need WriteLineage on the run, facets of data and program WriteEntity on these; those without it are left
out, as data are references that nobody checks. Everything is safe to repeat, so what is not acknowledged in time is
asked for again with 503. Source: OpenLineage specification 2-0-2 and its HTTP API.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...schemas.endpoints import LINEAGE, WRITE, Answer, Endpoint, Need, Request, Sends
from ...schemas.errors import (
    ForbiddenError,
    InputError,
    InvalidUrnError,
    MetajournalError,
    OperatorError,
    OutcomeUnknownError,
    QueueFullError,
    UnavailableError,
)
from ...schemas.urn import Urn
from .facets import Described, Side, described, described_run, text_of, undescribed
from .keeping import Keeper
from .kept import MOST_FACETS, Facet, Omitted, bounded, facets_of, together
from .openlineage import (
    NoRunEventError,
    data_count,
    event_time_ms,
    facts_of_any,
    job_of,
    run_of,
    without_unusable,
)

_log = logging.getLogger("metajournal.gateway")
MOST_EVENTS: Final = 10_000
"""Most events of a batch."""
_AT_ONCE: Final = 64
"""Events of a batch that are worked on at the same time."""
_MOST_WAITING: Final = 1_000
"""Requests that are answered at the same time."""
_SPARE_S: Final = 0.2
"""Seconds before the deadline at which a batch stops, so that it is answered."""
_NO_RIGHT: Final = "no-right"
_NOT_A_NAME: Final = "not-a-name"
_NO_DATASET: Final = "no-dataset"
"""Reason of facets of data of another kind, as our own export names them."""
_FEW: Final = 300
_SMALL: Final = 5_000
"""Data of an event, and members of its objects and lists with its text by the hundred characters, that are read on the
loop; more would keep it from everything else."""
_CHARACTERS: Final = 100
_OWN_KINDS: Final = ("run", "program")
"""Kinds of what an event is about, run and job; all others are its data."""
_RETRIABLE: Final = (UnavailableError, OutcomeUnknownError, QueueFullError)


class Received(NamedTuple):
    """What one event says.

    Attributes:
        at_ms: when it happened, milliseconds UTC.
        facts: of lineage.
        facets: by entity: what is kept of it.
        omitted: by entity, or by namespace and name of data that make no URN: facets that are not kept; of such data
            one without a name.
    """

    at_ms: int
    facts: Sequence[Any]
    facets: Mapping[Urn, list[Facet]]
    omitted: Mapping[str, list[Omitted]]


class _Failure(NamedTuple):
    """Why an event of a batch is not in the journal: never its error, which would keep all that it passed through."""

    reason: str
    retriable: bool

    @classmethod
    def of(cls, error: MetajournalError) -> _Failure:
        """What an error says."""
        return cls(f"{error.code}: {error.message}", isinstance(error, _RETRIABLE))


class _Receiver:
    """What outlives requests in a process."""

    def __init__(self) -> None:
        self.keeper = Keeper()
        self.waiting = 0


def read(event: Any, request: Request) -> Received:
    """What an event says, of that what whoever sends it may say.

    Raises:
        InputError: it is not an OpenLineage event.
        ForbiddenError: nothing of it may be said.
    """
    try:
        return _read(event, request)
    except NoRunEventError as error:
        raise InputError(error.message, code=error.code, hint=_HINT) from error
    except InvalidUrnError as error:
        raise InputError(error.message, code=NoRunEventError.CODE, hint=_HINT) from error


_HINT: Final = "Send a RunEvent, DatasetEvent or JobEvent of OpenLineage; eventTime and the names are required."


def _read(event: Any, request: Request) -> Received:
    _require_early(event, request)
    event, unusable = without_unusable(event)
    facts, at_ms = facts_of_any(event), event_time_ms(event)
    is_run = "run" in event
    runs = {Urn.parse(fact.entity) for fact in facts}
    for run in runs:
        _require(request, LINEAGE, run)
    about: list[Described] = []
    for one in described(event):
        if one.side in (Side.DATASET, Side.JOB) and not (runs or is_run):
            _require(request, WRITE, one.entity)
        about.append(one)
    facets, omitted = _facets([*about, *([described_run(event)] if is_run else [])], at_ms, request)
    for entity, names in undescribed(event):
        omitted.setdefault(entity, []).extend(Omitted(name, _NO_DATASET) for name in names)
    omitted.update((shown, [Omitted("", _NOT_A_NAME)]) for shown in unusable)
    return Received(at_ms, facts, facets, omitted)


def _require_early(event: Any, request: Request) -> None:
    """Ask for the rights that an event's own names tell, before its data are read: these may be thousands.

    Raises:
        NoRunEventError, InvalidUrnError: a name of the run or job is missing, or makes no URN.
        ForbiddenError: the right is missing.
    """
    if not isinstance(event, Mapping):
        return
    if "run" in event:
        _require(request, LINEAGE, run_of(event))
    elif "dataset" not in event and data_count(event) and not request.rights.anywhere(LINEAGE):
        job = event.get("job")  # the number of its run follows from all of its data
        raise request.refusal(LINEAGE, job_of(text_of(job, "namespace"), text_of(job, "name")))


def _facets(
    about: Sequence[Described], at_ms: int, request: Request
) -> tuple[dict[Urn, list[Facet]], dict[str, list[Omitted]]]:
    """By entity the facets that are kept, and those that are not."""
    said: dict[Urn, list[tuple[Side, list[Facet]]]] = {}
    omitted: dict[str, list[Omitted]] = {}
    for one in about:
        kept, left_out = facets_of(one, at_ms)
        if one.side is not Side.RUN and kept and not request.may(WRITE, one.entity):
            kept, left_out = [], [*left_out, *(Omitted(facet.name, _NO_RIGHT) for facet in kept)]
        if kept:
            said.setdefault(one.entity, []).append((one.side, kept))
        if left_out:
            omitted.setdefault(one.entity, []).extend(left_out)
    facets = {entity: together(of_entity) for entity, of_entity in said.items()}
    for entity, of_entity in facets.items():
        if len(of_entity) > MOST_FACETS:  # an event may name its data several times
            facets[entity], left_out = bounded(of_entity)
            omitted.setdefault(entity, []).extend(left_out)
    return facets, omitted


def _require(request: Request, action: str, urn: Urn) -> None:
    if not request.may(action, urn):
        raise request.refusal(action, urn)


async def _kept(sends: Sends, request: Request, received: Received, keeper: Keeper) -> dict[str, list[Omitted]]:
    """Have all of an event in the journal; gives the facets that are not kept.

    1. The facts: they make the run an entity, and change it.
    2. The facets of run and job.
    3. Those of the data, which may be thousands, so that some may not be written in time.
    """
    omitted = {entity: list(left_out) for entity, left_out in received.omitted.items()}

    async def keep(entity: Urn) -> None:
        left_out = await keeper.keep(sends, request, entity, received.facets[entity])
        if left_out:
            omitted.setdefault(entity, []).extend(left_out)

    new = [entity for entity, facets in received.facets.items() if keeper.has_news(request, entity, facets)]
    own = [entity for entity in new if entity.kind in _OWN_KINDS]
    for aggregate in dict.fromkeys(entity.aggregate for entity in own):
        await sends.follow(aggregate)
    await sends.send_all(received.facts, event_time=received.at_ms)
    async with asyncio.TaskGroup() as tasks:
        for entity in sorted(own, key=lambda one: _OWN_KINDS.index(one.kind)):
            tasks.create_task(keep(entity))
        for entity in new:
            if entity.kind not in _OWN_KINDS:
                await sends.follow(entity.aggregate)
                tasks.create_task(keep(entity))
    return omitted


async def _receive(sends: Sends, request: Request) -> Answer:
    """One event."""
    receiver = _taken(sends)
    try:
        omitted = await _received(sends, request, request.body, receiver)
    finally:
        receiver.waiting -= 1
    return Answer({"ok": True, "omitted": _omitted(omitted)}, headers=_where(sends))


async def _received(sends: Sends, request: Request, event: Any, receiver: _Receiver) -> dict[str, list[Omitted]]:
    """Raises: MetajournalError: not all of it is in the journal."""
    is_large = _is_large(event, request.size)
    received = await asyncio.to_thread(read, event, request) if is_large else read(event, request)
    try:
        return await _kept(sends, request, received, receiver.keeper)
    except ExceptionGroup as group:
        first = group.exceptions[0]
        raise first from group


def _is_large(event: Any, size: int | None) -> bool:
    """Whether an event takes long to read, for its data or for what is said of them; to tell that does not.

    Args:
        size: characters of all that it came with, where that is known.
    """
    if data_count(event) > _FEW:
        return True
    if size is not None and size <= _SMALL:
        return False
    left, rest = _SMALL, [event]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            left -= len(value) // _CHARACTERS
        elif isinstance(value, dict | list):
            left -= len(value)
            if left >= 0:
                rest += value.values() if isinstance(value, dict) else value
        if left < 0:
            return True
    return False


def _taken(sends: Sends) -> _Receiver:
    """Raises: UnavailableError: too many requests wait."""
    receiver = sends.kept(_Receiver)
    if receiver.waiting >= _MOST_WAITING:
        raise UnavailableError("Too many events wait.", code="too-busy", hint="Send it again.", retry_after_s=2)
    receiver.waiting += 1
    return receiver


def _omitted(omitted: Mapping[str, Sequence[Omitted]]) -> list[dict[str, str]]:
    return [
        {"entity": str(entity), "facet": one.name, "reason": one.reason}
        for entity, left_out in omitted.items()
        for one in left_out
    ]


async def _receive_batch(sends: Sends, request: Request) -> Answer:
    """Several events, each by itself."""
    events: Sequence[Any] = request.body
    if len(events) > MOST_EVENTS:
        raise InputError(f"A batch has at most {MOST_EVENTS:,} events, this one {len(events):,}.", code="too-many")
    receiver = _taken(sends)
    try:
        failures, again = await _each(sends, request, events, receiver)
    finally:
        receiver.waiting -= 1
    failed = [{"index": index, **failure._asdict()} for index, failure in failures]
    retriable = sum(failure.retriable for _, failure in failures)
    if again is not None and len(failures) == len(events):  # nothing is in the journal: as for a single event
        raise again
    summary = {
        "received": len(events), "successful": len(events) - len(failed), "failed": len(failed),
        "retriable": retriable, "non_retriable": len(failed) - retriable,
    }  # fmt: skip
    status = "success" if not failed else "failure" if len(failed) == len(events) else "partial_success"
    return Answer({"status": status, "summary": summary, "failed_events": failed}, headers=_where(sends))


async def _each(
    sends: Sends, request: Request, events: Sequence[Any], receiver: _Receiver
) -> tuple[list[tuple[int, _Failure]], MetajournalError | None]:
    """The failures of a batch, by index, and one after which it may be sent again; what is not in the journal in time
    is one too."""
    failures: dict[int, _Failure] = {}
    again: MetajournalError | None = None
    left = iter(enumerate(events))
    done: set[int] = set()

    async def work() -> None:
        nonlocal again
        for index, event in left:
            await asyncio.sleep(0)  # one that says nothing new waits for nothing else, and the loop has others
            try:
                await _received(sends, request, event, receiver)
            except MetajournalError as error:
                if isinstance(error, ForbiddenError):
                    sends.refused(error)
                failures[index] = _Failure.of(error)
                if again is None and failures[index].retriable:
                    again = error
            except Exception:  # a fault of ours is that of one event, not of all that came with it
                _log.exception("An event of a batch failed.")
                failures[index] = _Failure.of(OperatorError("The server failed at this event.", hint="See its log."))
            done.add(index)

    workers = [asyncio.ensure_future(work()) for _ in range(min(_AT_ONCE, len(events)))]
    try:
        if workers:
            await asyncio.wait(workers, timeout=max(0.0, sends.left_s - _SPARE_S))
    finally:
        for worker in workers:
            worker.cancel()
        ends = await asyncio.gather(*workers, return_exceptions=True)
    broken = [end for end in ends if isinstance(end, Exception)]
    if broken:
        raise broken[0]
    late = UnavailableError("It was not acknowledged in time.", code="not-acknowledged", retry_after_s=2)
    missing = {index: _Failure.of(late) for index in range(len(events)) if index not in done}
    return sorted({**failures, **missing}.items()), again or (late if missing else None)


def _where(sends: Sends) -> dict[str, str]:
    """The header with which questions ask for answers that include what was sent."""
    positions = ",".join(map(str, sends.positions))
    return {"Metajournal-Position": positions} if positions else {}


def _checked_inside(request: Request) -> Sequence[Need]:
    """None: what an event needs follows from its body, and is asked for before any of it is sent."""
    return ()


_KEPT: Final = {"ok": bool, "omitted": [{"entity": str, "facet": str, "reason": str}]}
_BATCH: Final = {
    "status": str,
    "summary": {"received": int, "successful": int, "failed": int, "retriable": int, "non_retriable": int},
    "failed_events": [{"index": int, "reason": str, "retriable": bool}],
}
RECEIVING: Final = (
    Endpoint(
        "POST", "/api/v1/lineage",
        "Take in an OpenLineage event of a run, a dataset or a job. Data and jobs without facets become no entities.",
        LINEAGE, sends=_receive, needs=_checked_inside, body=dict[str, Any], answer=_KEPT,
    ),
    Endpoint(
        "POST", "/api/v1/lineage/batch", "Take in several OpenLineage events, each by itself.", LINEAGE,
        sends=_receive_batch, needs=_checked_inside, body=list[Any], answer=_BATCH,
    ),
)  # fmt: skip
"""The rows of OpenLineage."""
