"""Brings what a source finds into the journal: read, compare, emit.

    1. note the journal's end, and read the source completely; if that fails, nothing else happens
    2. wait until the lake contains everything in the journal, and read it in bulk
    3. `plan` compares; a dry run ends here
    4. for views first a note of the runs to start and stop, then the lineage, each acknowledged before what follows
       from it; then entity by entity
    5. wait for the lake, so that the next reader finds it

After a kill anywhere the same run completes the work: the plan contains what is still missing. Two runs of one source
may overlap: neither deletes what changed after it began to read, or since it compared. A run that emits anything, or
fails, is recorded as a run of the source's program; one that finds no change records nothing.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..domains.catalog.events import SYSTEM, EntityRegistered, PropertiesSet
from ..domains.catalog.urns import dataset
from ..domains.lineage.events import READ, WRITE, Access, AccessesRecorded, RunStarted, RunStopped
from ..lake_client import ConnectedJournal
from ..producers.ids import EventIds
from ..schemas.errors import InputError, MetajournalError
from ..schemas.ids import id_text
from ..schemas.limits import MAX_ENTRIES
from ..schemas.urn import Urn
from .found import Found, Past, Problem, Progress
from .plan import Change, Held, Plan, Step, every, plan
from .present import covers, journal_end, opened, recorded_covers
from .source import MARK, Identity, Source
from .told import Told

if TYPE_CHECKING:
    from ..producers.receipts import Receipt
    from ..schemas.arguments import Inside

CATALOG: Final = dataset("metajournal", "catalog")
"""What the runs of all sources write, as named in lineage: the journal's metadata, not the data."""
COVERS: Final = "covers"
"""SYSTEM property of a source's program: URN prefixes of the entities that it brought in and has not removed."""
COMPLETED: Final = "COMPLETED"
FAILED: Final = "FAILED"
_STALE: Final = "stale-entity"
_UNKNOWN: Final = "unknown-entity"
"""Reasons of rejections: an entity is not as a deletion expects it to be; it does not exist."""
_BLOCK_S: Final = 60.0
_TELL_EVERY: Final = 500

Tell = Callable[[Progress], None]


class WaitingJournal(ConnectedJournal, Protocol):
    """A connected journal that knows how far its lake is."""

    def wait(self, at_least: Inside, *, timeout_s: float = ...) -> None:
        """`LakeClient.wait`."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a run is going to emit.

    Attributes:
        plan: what is to be told of each entity.
        problems: what could not be read; where there is any, nothing is deleted.
        entities: number of entities that were found.
        program: what is to be told of the source's program.
        past: lineage of the system's own runs that was not told yet.
        after: what is to be told of the program when that is acknowledged.
        others: how many of the entities other sources of this kind have brought in, by their ids.
    """

    plan: Plan
    problems: tuple[Problem, ...]
    entities: int
    began_ms: int
    program: tuple[Any, ...] = ()
    past: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """Number of the system's own runs that are told."""
        return len({fact.run for fact in self.past})

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not self.plan.steps and not self.past


@dataclass(slots=True)
class Brought:
    """What a run has emitted.

    Attributes:
        events: number of events, facts included.
        refused: what was not accepted, with the reason.
        run: its own run; None: there was nothing to tell.
    """

    events: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    run: Urn | None = None


class Bringing:
    """The runs of one source.

    Args:
        journal: where to; its user closes it.
        source: what is read.
        tell: takes the progress.
        timeout_s: seconds to wait for the lake, and for a verdict.
        prune: remove what the source's options no longer select, too.
    """

    def __init__(
        self, journal: WaitingJournal, source: Source, tell: Tell = lambda _: None, *, timeout_s: float = 120.0,
        prune: bool = False,
    ) -> None:  # fmt: skip
        self._journal = journal
        self._source = source
        self._tell = tell
        self._timeout_s = timeout_s
        self._prune = prune
        self._tenant = journal.settings.journal.tenant
        self._ids = EventIds()

    def compare(self, *, dry: bool = False) -> Comparison:
        """Read the source and compare it with the journal; nothing is told, but that a reading failed.

        Args:
            dry: nor is that.
        Raises:
            SourceError, SourceUnavailableError: the source cannot be read.
            NotYetVisibleError: the lake is behind the journal: the stream does not run, or has much to do.
            UnavailableError: Kafka or the lake cannot be reached.
        """
        began_ms = time.time_ns() // 1_000_000
        since = journal_end(self._journal)
        try:
            found, pasts, problems = self._read()
        except MetajournalError:
            if not dry:
                self._tell_failure(began_ms)
            raise
        program = self._source.identity.program
        self._tell(Progress("wait for the lake"))
        self._journal.wait(journal_end(self._journal), timeout_s=self._timeout_s)
        own = self._held({f"{program}"}).get(program)
        before = recorded_covers(own.properties.get(COVERS)) if own is not None and own.live else set()
        now = covers(one.entity for one in found)
        self._tell(Progress("read the journal's contents"))
        held = self._held(before | now)
        self._tell(Progress("compare"))
        whole = not problems and self._source.lists_all
        identity = self._source.identity
        selects = every if self._prune else self._source.selects
        compared = plan(identity, found, held, whole=whole, at_ms=began_ms, selects=selects, since=since)
        known = own.properties if own is not None and own.live else {}
        told, ids = Told.read(known), [past.id for past in pasts]
        unknown = told.new(ids)
        new = [past for past in pasts if past.id in unknown]
        about = self._about_program(known, before | now) if compared.steps or new else ()
        facts = tuple(fact for past in new for fact in past.facts)
        after = (PropertiesSet(program, told.noted(ids), SYSTEM),) if new else ()
        others = _other_sources(identity, found, held) if own is None else {}
        return Comparison(compared, tuple(problems), len(found), began_ms, about, facts, after, others)

    def bring(self, comparison: Comparison) -> Brought:
        """Tell what is to be told, and wait until the lake holds it.

        Raises:
            MetajournalError: as `Journal.emit`, `Journal.flush` and `Journal.wait`.
        """
        brought = Brought()
        if comparison.is_empty:
            return brought
        run = brought.run = self._run(comparison.began_ms)
        receipts = _Receipts(self._journal, self._source.identity.actor, brought)
        receipts.emit(RunStarted(run, comparison.began_ms))
        try:
            for event in comparison.program:
                receipts.emit(event)
            for told in (_notes(comparison.plan), (*_facts(comparison.plan), *comparison.past), comparison.after):
                for event in told:
                    receipts.emit(event)
                self._journal.flush()
            for done, step in enumerate(comparison.plan.steps):
                if done % _TELL_EVERY == 0:
                    self._tell(Progress("bring in", done, len(comparison.plan.steps)))
                receipts.emit_step(step)
            self._journal.flush()
            if comparison.plan.steps:
                self._tell(Progress("bring in", len(comparison.plan.steps), len(comparison.plan.steps)))
        except BaseException:
            with suppress(MetajournalError):  # what ended the run is the error to tell
                receipts.emit(RunStopped(run, time.time_ns() // 1_000_000, FAILED))
            raise
        receipts.emit(self._touched(run, comparison))
        receipts.emit(RunStopped(run, time.time_ns() // 1_000_000, COMPLETED))
        self._journal.flush()
        self._tell(Progress("wait until it is visible"))
        receipts.check(self._timeout_s)
        self._journal.wait([receipt.position for receipt in receipts.kept], timeout_s=self._timeout_s)
        return brought

    def _read(self) -> tuple[list[Found], list[Past], list[Problem]]:
        found: list[Found] = []
        pasts: list[Past] = []
        problems: list[Problem] = []
        for one in self._source.read(self._tell):
            if isinstance(one, Found):
                found.append(one)
            elif isinstance(one, Past):
                pasts.append(one)
            else:
                problems.append(one)
        return found, pasts, problems

    def _held(self, begins: set[str]) -> dict[str, Held]:
        return self._journal.opened("sources", opened).within(self._tenant, begins)

    def _about_program(self, known: Mapping[str, str], begins: set[str]) -> tuple[Any, ...]:
        """What is to be told of the source's program, so that a later run knows where to look."""
        identity = self._source.identity
        text = json.dumps(sorted(begins))
        if known.get(COVERS) == text:
            return ()
        said = f"Ingests {identity.kind} into the catalog."
        return EntityRegistered(identity.program, said), PropertiesSet(identity.program, {COVERS: text}, SYSTEM)

    def _run(self, began_ms: int) -> Urn:
        return Urn.parse(f"run:{self._source.identity.program.path}/{id_text(self._ids(began_ms))}")

    def _touched(self, run: Urn, comparison: Comparison) -> AccessesRecorded:
        counts = {str(change): str(len(comparison.plan.of(change))) for change in Change}
        metadata = {"user": {}, "system": {"properties": {**counts, "found": str(comparison.entities)}}}
        reads = [Access(system, READ, comparison.began_ms) for system in self._source.systems[: MAX_ENTRIES - 1]]
        return AccessesRecorded(run, [*reads, Access(CATALOG, WRITE, comparison.began_ms, metadata=metadata)])

    def _tell_failure(self, began_ms: int) -> None:
        """A run that failed is news too."""
        run, actor = self._run(began_ms), self._source.identity.actor
        for fact in (RunStarted(run, began_ms), RunStopped(run, time.time_ns() // 1_000_000, FAILED)):
            self._journal.emit(fact, actor=actor)
        self._journal.flush()


class _Receipts:
    """Emits events, and keeps the receipts whose verdicts are asked at the end."""

    def __init__(self, journal: WaitingJournal, actor: str, brought: Brought) -> None:
        self._journal = journal
        self._actor = actor
        self._brought = brought
        self._of: list[str] = []
        self._newest: dict[str, Receipt] = {}
        self._deleted: set[str] = set()
        self.kept: list[Receipt] = []

    def emit_step(self, step: Step) -> None:
        """Emit an entity's events; a deletion on the condition that nothing changed it since it was compared, or noted.

        Its notes must be acknowledged.
        """
        expected: Any = step.expected
        if step.change == Change.DELETE:
            self._deleted.add(str(step.entity))
        if expected is not None and step.notes and (note := self._newest.get(str(step.entity))) is not None:
            expected = note.position
        for event in step.events:
            self.emit(event, expected)

    def emit(self, event: Any, expected: Any = None) -> None:
        """Emit an event; one that is not valid is told as refused, and the others go on."""
        try:
            receipt = self._journal.emit(event, actor=self._actor, block_s=_BLOCK_S, expected=expected)
        except InputError as error:
            self._brought.refused.append((str(event.entity), error.message))
            return
        self._brought.events += 1
        self._of.append(str(event.entity))
        self._newest[str(event.entity)] = receipt
        self.kept.append(receipt)

    def check(self, timeout_s: float) -> None:
        """Wait for every verdict. Raises: as `Receipt.outcome`."""
        for entity, receipt in zip(self._of, self.kept, strict=True):
            outcome = receipt.outcome(timeout_s)
            if (refusal := _refusal(outcome, is_to_go=entity in self._deleted)) is not None:
                self._brought.refused.append((entity, refusal))


def _other_sources(identity: Identity, found: Iterable[Found], held: Mapping[str, Held]) -> dict[str, int]:
    """How many of the entities other sources of the same kind have brought in, by their ids."""
    prefix = f"{MARK}{identity.kind}."
    marks = (
        key.removeprefix(prefix)
        for entity in {each.entity for each in found}
        if (row := held.get(entity)) is not None and row.live
        for key in row.properties
        if key.startswith(prefix)
    )
    return dict(sorted(Counter(marks).items()))


def _refusal(outcome: Any, *, is_to_go: bool) -> str | None:
    """Why an event was not accepted, for people; None: it was, or another run has already deleted what is to go."""
    if outcome.word not in ("rejected", "shelved"):
        return None
    reason = getattr(outcome, "reason", "")
    is_gone = reason == _UNKNOWN or (reason == _STALE and not outcome.detail.get("found"))
    if is_to_go and is_gone:
        return None
    if reason == _STALE:
        return "it changed after this run had compared it, so it was not deleted; run this again"
    return f"{outcome.word}: {reason}"


def _notes(made: Plan) -> Iterator[Any]:
    for step in made.steps:
        yield from step.notes


def _facts(made: Plan) -> Iterator[Any]:
    for step in made.steps:
        yield from step.facts
