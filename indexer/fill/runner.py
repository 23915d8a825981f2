"""The indexer: from the state and outcomes topics to a searchable index that says what it shows.

One loop, one thread: take what has arrived, index the newest state of each entity, refresh when that is due, move the
position vector over every outcome whose documents are now shown, store vector and offsets. Refreshing is the indexer's
own (at once after a quiet time, at most every `indexer.refresh_interval_ms` under load, never without a change), so
it knows what each refresh shows.

Invariants: the stored vector never claims what a search cannot see and never goes back; a crash at any point repeats
work and changes nothing, since documents carry their external version and offsets are stored with the vector.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from elasticsearch import ApiError, NotFoundError

from ...producers.passed_over import PassedOver
from ...schemas.errors import MetajournalError
from ...schemas.settings import Settings
from ..connection import make_client
from ..errors import IndexMissingError
from ..mapping import concrete_of, ensure_index, mapping_digest, own_alias
from ..shown import Shown, read_shown, write_shown
from .bulk import BulkWriter
from .counting import IndexerMetrics
from .flights import Flights
from .intake import Intake, Taken
from .patience import Patience, StartOver, Stopped
from .progress import Progress
from .serving import domains_of, waits
from .status import StatusFile

_log = logging.getLogger("metajournal.indexer")
_IDLE_S: Final = 0.25
_BREATH_S: Final = 0.05
_STORE_OFFSETS_S: Final = 5.0
_LOOK_S: Final = 1.0
_ASK_S: Final = 5.0
"""How often the journal is asked for further domains, while one of our own has yet to join."""
HANDOVER_S: Final = 30.0
"""How long an indexer stands back for a rebuild that is about to swap the alias."""
_BACKLOG_S: Final = 10.0
"""How long documents of a backlog wait for a refresh at most: what it brings is late anyway, and each refresh costs
the server time, also later, when it looks every id up in what is shown already."""
_FULL: Final = 0.5
"""How much of a request must come at once, without the outcome that ends a batch, to be a piece of a backlog; and how
much is enough for a server that has nothing else to do."""
_GATHER_S: Final = 0.1
"""How long a backlog's records are gathered, so that requests are full."""
_T = TypeVar("_T")


class Indexer:
    """Keeps one index up to date; `run` until told to stop.

    Args:
        settings: where Kafka and Elasticsearch are, and how often to refresh.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._alias = settings.elasticsearch.index
        self._name = self._target = self._alias
        self._client = make_client(settings)
        self._file = StatusFile(settings)
        self._metrics: IndexerMetrics | None = None
        self._mend = ""
        self._message = ""
        self._state = "starting"
        self._refreshes = 0
        self._refresh_took_s = 0.0
        self._refreshed_s = 0.0
        self._unshown_s = 0.0
        self._stored_s = 0.0
        self._looked_s = 0.0
        self._asked_s = 0.0
        self._domains: tuple[str, ...] = ()
        self._documents = 0
        self._counted_s = 0.0
        self._recount = True
        self._progress: Progress | None = None
        self._intake: Intake | None = None
        self._passed_over = PassedOver(_log)
        self._flights: Flights | None = None
        self._backlog = False
        self._refreshing: Future[Any] | None = None

    def run(self, stop: threading.Event) -> None:
        """Index until `stop` is set; servers that are away are waited for.

        Raises:
            MetajournalError: only an operator can mend it (mapping of another version, refused document, rights).
        """
        patience = Patience(stop, self._say)
        wanted = self._settings.indexer
        writer = BulkWriter(self._client, self._alias, patience, wanted.bulk_documents, wanted.bulk_bytes)
        self._flights = Flights(writer)
        self._metrics = IndexerMetrics(wanted.metrics_port, self.status)
        try:
            while not stop.is_set():
                try:
                    self._session(stop, patience, self._flights)
                except StartOver as why:
                    patience.wait(f"Starting over from what the index says: {why}")
        except Stopped:
            pass
        except MetajournalError as error:
            self.failed(error)
            raise
        except Exception as error:
            self.tell("failed", f"{type(error).__name__}: {error}")
            raise
        finally:
            self._flights.close()
            self._client.close()
            self._metrics.close()
        self.tell("stopped")

    # --- one session: from what the index says until told to stop

    def _session(self, stop: threading.Event, patience: Patience, flights: Flights) -> None:
        self._name = self._calling(patience, "make its index", lambda: ensure_index(self._client, self._alias))
        self._target = flights.writer.alias = own_alias(self._name)
        shown = self._calling(patience, "read its positions", lambda: read_shown(self._client, self._target))
        shown = self._handed_over(stop, patience, shown)
        most = self._settings.indexer.bulk_documents
        domains = self._domains = domains_of(self._settings, patience)
        intake = self._intake = Intake(self._settings, patience, most, self._passed_over, domains)
        try:
            progress = self._progress = Progress(shown.vector, shown.offsets, intake.state_topics)
            if shown.mapping != mapping_digest():
                shown = self._store(patience, progress, shown)
            intake.start(shown.offsets)
            self.tell("running")
            while not stop.is_set():
                shown = self._step(intake, patience, progress, shown, flights)
            flights.land()
            self._refresh(patience, progress)
            progress.settle()
            self._store(patience, progress, shown)
        finally:
            self._refreshing = None
            flights.forget()
            intake.close()

    def _step(self, intake: Intake, patience: Patience, progress: Progress, shown: Shown, flights: Flights) -> Shown:
        gather_s = max(0.0, self._refresh_due_s(self._interval_s))
        if self._backlog:
            gather_s = max(gather_s, _GATHER_S)
        full = self._settings.indexer.bulk_documents
        enough = max(1, int(_FULL * full)) if flights.idle else full
        taken = intake.take(gather_s if progress.unshown or self._backlog else _IDLE_S, gather_s, enough)
        self._take(taken, progress, flights)
        self._refresh_when_due(patience, progress, flights)
        moved = progress.settle()
        if moved or self._offsets_due(progress, shown):
            shown = self._store(patience, progress, shown)
        if time.monotonic() - self._looked_s >= _LOOK_S:
            self._still_there(patience, shown)
            self._look_for_joined(patience)
        problem = intake.problem()
        if problem != self._message:
            self._say(problem)
        self.tell(self._state)
        return shown

    def _take(self, taken: Taken, progress: Progress, flights: Flights) -> None:
        """Index what has arrived. In a backlog the next take is read and built while Elasticsearch indexes this one."""
        flights.send(taken.states.values())
        flights.then(lambda: self._indexed(taken, progress))
        # A busy stream's batch, which an outcome ends, is no backlog, and must not wait for a backlog's refresh.
        half = _FULL * self._settings.indexer.bulk_documents
        self._backlog = taken.full or (not taken.outcomes and len(taken.states) >= half)
        flights.land_answered() if self._backlog else flights.land()

    def _indexed(self, taken: Taken, progress: Progress) -> None:
        if taken.states:
            if not progress.unshown:
                self._unshown_s = time.monotonic()
            progress.changed()  # also where all were superseded: the answer to an earlier try may have been lost
            self._recount = True
        for outcome in taken.outcomes:
            progress.heard(outcome)
        for partition, offset in taken.reached.items():
            progress.reached(partition, offset)

    @property
    def _interval_s(self) -> float:
        """Seconds between two refreshes; a server on which refreshing is slow is given room."""
        return max(self._settings.indexer.refresh_interval_ms / 1000, self._refresh_took_s + _BREATH_S)

    def _refresh_due_s(self, interval_s: float) -> float:
        """Seconds until the next refresh may begin."""
        return self._refreshed_s + interval_s - time.monotonic()

    def _is_due(self) -> bool:
        if self._backlog:
            return time.monotonic() - max(self._refreshed_s, self._unshown_s) >= _BACKLOG_S
        return self._refresh_due_s(self._interval_s) <= 0

    def _refresh_when_due(self, patience: Patience, progress: Progress, flights: Flights) -> None:
        """In a backlog refresh while documents go on being indexed, else at once."""
        if self._refreshing is not None and (self._refreshing.done() or not self._backlog):
            self._refreshed_beside(self._refreshing, progress)
        if not progress.unshown or not self._is_due():
            return
        if not self._backlog:
            self._refresh(patience, progress)
        elif self._refreshing is None:
            progress.refreshing()
            self._refreshed_s = time.monotonic()
            target = self._target
            self._refreshing = flights.beside(lambda: self._client.indices.refresh(index=target))

    def _refreshed_beside(self, refresh: Future[Any], progress: Progress) -> None:
        self._refreshing = None
        try:
            refresh.result()
        except Exception as error:
            _log.debug("A refresh failed; waiting for the next one: %r", error)
        else:
            self._refreshes += 1
            progress.refreshed()

    def _refresh(self, patience: Patience, progress: Progress) -> None:
        if not progress.unshown:
            return
        begun = time.monotonic()
        progress.refreshing()
        self._calling(patience, "refresh", lambda: self._client.indices.refresh(index=self._target))
        self._refreshed_s = begun
        self._refresh_took_s = time.monotonic() - begun
        self._refreshes += 1
        progress.refreshed()

    def _offsets_due(self, progress: Progress, shown: Shown) -> bool:
        late = time.monotonic() - self._stored_s >= _STORE_OFFSETS_S
        return late and progress.offsets() != shown.offsets

    def _store(self, patience: Patience, progress: Progress, shown: Shown) -> Shown:
        vector, offsets = dict(progress.vector), progress.offsets()
        self._stored_s = time.monotonic()
        return self._calling(
            patience,
            "store its positions",
            lambda: write_shown(self._client, self._target, vector, offsets, shown),
        )

    def _still_there(self, patience: Patience, shown: Shown) -> None:
        """Ask now and then whether searches still use the index that is filled here, and nobody else fills it."""
        self._looked_s = time.monotonic()
        name, current = self._calling(
            patience,
            "look at its index",
            lambda: (concrete_of(self._client, self._alias), read_shown(self._client, self._target)),
        )
        if name != self._name:
            raise StartOver(f"searches use {name} now")
        if current.token != shown.token:
            raise StartOver("its index was recreated, or written by another process")

    def _look_for_joined(self, patience: Patience) -> None:
        """Begin anew once a domain of our own has joined the journal; asked only while one has not."""
        if waits(self._domains) and time.monotonic() - self._asked_s >= _ASK_S:
            self._asked_s = time.monotonic()
            if domains_of(self._settings, patience) != self._domains:
                raise StartOver("another domain has joined the journal")

    def _handed_over(self, stop: threading.Event, patience: Patience, shown: Shown) -> Shown:
        """Wait while a rebuilt index is taking this one's place; one that never does has been killed."""
        until_s = time.monotonic() + HANDOVER_S
        while shown.handover and time.monotonic() < until_s and not stop.wait(_IDLE_S):
            before = shown.token
            self._still_there(patience, shown := self._calling(patience, "look at its index", self._read_target))
            if shown.token != before:
                until_s = time.monotonic() + HANDOVER_S
        return shown

    def _read_target(self) -> Shown:
        return read_shown(self._client, self._target)

    @staticmethod
    def _calling(patience: Patience, what: str, call: Callable[[], _T]) -> _T:
        try:
            return patience.call(what, call)
        except (NotFoundError, IndexMissingError) as error:
            raise StartOver("the index is gone") from error
        except ApiError as error:
            if error.status_code == 409:  # another indexer, a swap of the alias, or our own write before a lost answer
                raise StartOver("its positions were written by another process") from error
            raise

    # --- what is told

    def _say(self, message: str) -> None:
        if bool(message) != (self._state == "waiting"):  # once at the beginning of an outage and once at its end
            _log.warning("%s; waiting for it." if message else "It answers again; continuing.%s", message)
        self._message = message
        self.tell("waiting" if message else "running")

    def failed(self, error: MetajournalError) -> None:
        """Say in the status file what an operator has to mend."""
        self._mend = error.hint
        self.tell("failed", f"{error.code}: {error.message}")

    def tell(self, state: str, message: str | None = None) -> None:
        """Say in the status file how it goes."""
        if message is not None:
            self._message = message
        self._state = state
        if self._metrics is not None:
            self._metrics.state(state, self._message)
        if self._file.due(state):
            self._file.write(self.status())

    def status(self) -> dict[str, Any]:
        """What the status file says, but the time of writing."""
        vector = {} if self._progress is None else self._progress.vector
        counts = None if self._flights is None else self._flights.writer.counts
        return {
            "state": self._state,
            "message": self._message or self._passed_over_text(),
            "mend": self._mend,
            "index": self._alias,
            "shows": {f"{topic}/{partition}": to for (topic, partition), to in sorted(vector.items())},
            "freshness_s": self.freshness_s() if self._knows() else None,
            "documents": self._count(),
            "indexed": 0 if counts is None else counts.indexed,
            "superseded": 0 if counts is None else counts.superseded,
            "reduced": 0 if counts is None else counts.reduced,
            "unreadable": self._passed_over.unreadable,
            "forged": self._passed_over.forged,
            "refused": 0 if counts is None else counts.refused,
            "refreshes": self._refreshes,
        }

    def _passed_over_text(self) -> str:
        """How many records were passed over, "" where none was."""
        refused = 0 if self._flights is None else self._flights.writer.counts.refused
        kinds = {
            "unreadable": self._passed_over.unreadable,
            "beyond the end of the journal": self._passed_over.forged,
            "refused by Elasticsearch": refused,
        }
        listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        return f"records skipped since its start: {listed}; its log names them" if listed else ""

    def _knows(self) -> bool:
        """Whether the outcomes are read that were there at the start; before, nobody knows how far behind it is."""
        progress, intake = self._progress, self._intake
        return progress is not None and intake is not None and progress.has_read(intake.ends_at_start)

    def freshness_s(self) -> float:
        """Seconds since the oldest decision that is known and not shown; 0 when all is shown."""
        oldest = None if self._progress is None else self._progress.oldest_waiting_ms()
        return 0.0 if oldest is None else round(max(0.0, time.time() - oldest / 1000), 3)

    def _count(self) -> int:
        """Entities that searches show; counted again only after a change, and while Elasticsearch answers."""
        if self._recount and self._state == "running":
            try:
                query = {"bool": {"filter": [{"term": {"deleted": False}}]}}
                self._documents = self._client.count(index=self._alias, query=query).body["count"]
                self._recount = self._progress is not None and self._progress.unshown
            except Exception as error:
                _log.debug("Counting failed: %r", error)
        return self._documents
