"""The stream as a process: start-up checks, the query, waiting out what is away, and a clean end.

Every start begins at the journal table's marks with a fresh checkpoint, so a checkpoint that is lost or damaged costs
nothing. A service that is away is waited for with back-off, and said so once; an error that would change the
history stops the stream with what to do.
"""

from __future__ import annotations

import logging
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..cycles import rarely_sought
from ..lake.columns import TIMESTAMP
from ..lake.storage.faults import writing
from ..lake.storage.kept_epochs import KeptEpochs
from ..lake.storage.locks import only_one
from ..lake.storage.requests import DomainRequests
from ..lake.tables import Lake
from ..producers.compacted import read_all
from ..producers.recorded.served import require_packages
from ..producers.topics import Epochs, ensure_topics, wanted_of_domains
from ..schemas.errors import DamagedTableError, LakeWriteError, MetajournalError, StreamError, UnavailableError
from ..schemas.positions import Cut, offset_of
from ..schemas.setting_keys import hidden_texts
from ..schemas.settings import Settings
from .between.adding import answer_request
from .between.joining import is_between, join_ours, told
from .between.mending import wait_for_mend
from .crash import CrashPoints
from .derived.server import Beside
from .derived.tending import DerivedTables
from .engine import Engine, PartitionKey
from .plan import brought_by
from .publish import Publisher, watermarks
from .report import Report
from .sizes import EVENT_BYTES, Sizes, size_of
from .spark import options
from .spark.failures import (
    SPARK_GONE,
    BatchTooLargeError,
    close,
    ended,
    failed_in_domain,
    is_active,
    meaning,
    not_started,
    spark_gone,
    worth_waiting,
)
from .spark.session import open_session, planned_ends, spark_log, start_query
from .spark.wide import SparkTasks, warm_up
from .staging import Staging
from .status import StatusFile

_log = logging.getLogger("metajournal.stream")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
_LEAST_EVENTS, _REDUCED_S = 16, 60.0
_QUIET_S = 1.0
_TIDIED = 0.1  # of a batch's own time
_TIDY_AGAIN_S = 30.0


class Stream:
    """One stream over all served journal topics.

    Args:
        settings: everything.
        jars: paths of the Spark connector's jars.
        spark: Spark options that override the project's own.
    """

    def __init__(self, settings: Settings, jars: Sequence[str], spark: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._jars = jars
        self._spark = spark
        self._stop = threading.Event()
        self._batch = threading.Lock()
        self._failure: BaseException | None = None
        self._lost: StreamError | None = None
        """That another stream has the lake: whenever it is set, no further batch is folded."""
        self._engine: Engine | None = None
        self._derived: DerivedTables | None = None
        self._requests = DomainRequests(settings.lake.path, settings.lake.storage_options)
        self._epochs = Epochs({})
        self._again = False
        """Whether what this journal serves has changed, or is to be, so that the query begins anew."""
        self._waits_to_join = False
        self._said_idle: dict[PartitionKey, float] = {}
        metrics, hidden = settings.stream.metrics_file, hidden_texts(settings)
        port = settings.stream.metrics_port
        self._status = StatusFile(settings.stack.home, "stream", metrics, hidden=hidden, port=port)
        self._spark_log = spark_log(settings.stack.home)
        self._checkpoint = ""
        self._folded_at = 0.0
        self._tidy_at = 0.0
        self._most_events = settings.stream.max_events_per_batch
        self._sizes = Sizes(settings)

    def stop(self) -> None:
        """End after the batch that is being folded."""
        self._stop.set()

    def run(self) -> None:
        """Fold until stopped.

        Raises:
            MetajournalError: something that only an operator can mend; what to do is in its hint.
        """
        with ExitStack() as alone:
            if self._takes_lake(alone):
                self._run()

    def _takes_lake(self, alone: ExitStack) -> bool:
        """Make sure that no other stream writes the lake, as long as the stack is open; false where stopped before.

        A store that does not answer yet is waited for, as it is later.
        """
        lake, pause_s = self._settings.lake, _FIRST_PAUSE_S
        hint = "Only one stream per lake can run: stop the other one first."
        while not self._stop.is_set():
            try:
                alone.enter_context(
                    only_one(
                        lake.path, "stream", hint=hint, storage_options=lake.storage_options, on_lost=self._lose_lake
                    )
                )
                return True
            except UnavailableError as error:
                _log.warning("%s Retrying in %.1f s.", error, pause_s)
                self._status.say("waiting", f"{error.code}: {error}")
                self._stop.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        return False

    def _lose_lake(self) -> None:
        """End: another stream took the lake over, since this one could not show in time that it lives."""
        self._lost = StreamError(
            f"Another stream took over the lake {self._settings.lake.path}.",
            code="stream-runs",
            hint="Nothing is lost. This stream could not reach the lake's store for a while; leave one of them "
            "running.",
        )
        self._stop.set()

    def _run(self) -> None:
        self._status.say("starting", "opening Spark")
        asked = self._settings.stream
        spark = {"spark.master": asked.master, **asked.spark, **(self._spark or {})}
        try:
            session = open_session(self._jars, spark, log=self._settings.stack.home)
        except SPARK_GONE as error:
            if self._lost is not None or not self._stop.is_set():
                failure = self._lost or not_started(error, self._spark_log)
                self._tell_failed(failure)
                raise failure from error
            self._status.say("stopped", "stopped on request, while Spark was starting")  # a signal to the whole group
            return
        try:
            self._until_stopped(session)
            self._status.say("stopped", "stopped on request")
        except Exception as error:
            if not self._stop.is_set() or not isinstance(error, SPARK_GONE):
                self._tell_failed(error)
                raise
            self._status.say("stopped", "stopped on request")
        finally:
            self._status.close()
            close(session)

    def _tell_failed(self, error: Exception) -> None:
        if isinstance(error, MetajournalError):
            self._status.say("failed", f"{error.code}: {error}", mend=error.hint)
        else:
            self._status.say("failed", f"{type(error).__name__}: {error}".splitlines()[0])

    def _until_stopped(self, session: SparkSession) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                self._attempt(session)
                self._most_events = self._settings.stream.max_events_per_batch
            except BatchTooLargeError as error:
                if self._most_events == _LEAST_EVENTS:
                    raise StreamError(
                        f"Even a batch of {_LEAST_EVENTS} records could not be folded: {error}.", code="batch-failed",
                        hint="Give the stream more memory, and start it again; it resumes at its marks.",
                    ) from error  # fmt: skip
                self._most_events = max(_LEAST_EVENTS, self._most_events // 8)
                _log.warning("The records are large: batches are limited to %d for a while.", self._most_events)
            except UnavailableError as error:
                pause_s = _FIRST_PAUSE_S if time.monotonic() - started > _LONGEST_PAUSE_S * 2 else pause_s
                _log.warning("%s Retrying in %.1f s.", error, pause_s)
                self._status.say("waiting", f"{error.code}: {error}")
                self._stop.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            except DamagedTableError as error:
                pause_s = _FIRST_PAUSE_S if time.monotonic() - started > _LONGEST_PAUSE_S * 2 else pause_s
                wait_for_mend(error, self._settings, self._status, self._stop, pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        if self._lost is not None:
            raise self._lost

    def _attempt(self, session: SparkSession) -> None:
        """Fold from the marks; what fails before the query runs means what it would mean inside of it."""
        try:
            self._fold_from_marks(session)
        except Exception as error:
            if self._lost is not None:
                raise self._lost from error
            gone = None if self._stop.is_set() else spark_gone(session, self._spark_log)
            if gone is not None and not self._stop.is_set():
                raise gone from error
            if isinstance(error, MetajournalError | BatchTooLargeError):
                raise
            known = worth_waiting(error, self._settings.lake.path, self._checkpoint) or failed_in_domain(error)
            if known is None:
                raise
            raise known from error

    def _fold_from_marks(self, session: SparkSession) -> None:
        """One run of the query, from the marks until it is stopped or fails."""
        epochs = ensure_topics(self._settings)
        self._again = False
        asked = self._settings.lake
        lake = Lake(asked.path, asked.storage_options, vacuum_retention_h=asked.vacuum_retention_h)
        epochs = self._epochs = self._joined(epochs, lake)
        require_packages(epochs.outside)
        outside = [served.name for served in epochs.outside]
        lake.include(outside)
        lake.create()
        Staging(asked.path, asked.storage_options).clear_all()
        publisher = self._publisher(epochs)
        self._engine = engine = Engine(self._settings, epochs, lake, publisher)
        self._derived = self._tended(lake, engine)
        ends = self._check(engine, epochs)
        lake.list_tables()
        engine.enter_epochs()
        self._keep_epochs()
        self._checkpoint = self._fresh_checkpoint()
        self._failure = None
        engine.repeat_outcomes(engine.places)
        self._said_idle = dict.fromkeys(engine.places, time.monotonic())
        partitions = {topic: epoch.partitions for topic, epoch in epochs.items()}
        source = options.kafka_source(
            self._settings.kafka,
            partitions,
            engine.starting_offsets(),
            self._most_events,
        )
        warming = self._warming_up(session, engine, ends)
        try:
            interval_ms = self._settings.stream.min_trigger_interval_ms
            self._status.begins(engine.marks, ends)
            query = start_query(session, source, self._checkpoint, interval_ms, self._on_batch)
            self._status.say("running", "")
            _log.info("Folding %s from %s.", ", ".join(partitions), self._settings.lake.path)
            self._watch(query)
        finally:
            if self._derived is not None:
                self._derived.close()
            publisher.close()
            warming.join()
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _warming_up(self, session: SparkSession, engine: Engine, ends: Cut) -> threading.Thread:
        """A thread that has Spark's workers ready for a first batch that tasks will fold, while the query starts."""
        backlog = engine.counts({key: offset_of(end) for key, end in ends.items()})
        size = self._sizes.of(backlog, engine.starting_offsets())
        is_wide = size.weight >= self._settings.stream.wide_events and not engine.in_restored
        thread = threading.Thread(target=warm_up if is_wide else None, args=(session,), name="warm-up")
        thread.start()
        return thread

    def _keep_epochs(self) -> None:
        """Have the lake know what the epochs topic records: all else that a lost cluster held is in its tables."""
        where = self._settings.lake
        try:
            records = read_all(self._settings, self._settings.journal.topics.epochs)
            with writing(where.path):
                KeptEpochs(where.path, where.storage_options).keep(records)
        except (LakeWriteError, StreamError) as error:
            _log.warning("The lake's copy of the epochs topic is not up to date: %s %s", error, error.hint)

    def _joined(self, epochs: Epochs, lake: Lake) -> Epochs:
        """Have our own domains join that have not; where a batch was begun and is not done, that is judged before."""
        for error in epochs.refusals.values():
            _log.warning("%s %s", error, error.hint)
        self._waits_to_join = bool(epochs.waiting) and not is_between(lake, epochs)
        if self._waits_to_join:
            self._status.unserved(told(epochs.refusals))
            return epochs
        epochs, refusals = join_ours(self._settings, epochs, lake)
        self._status.unserved(told({**epochs.refusals, **refusals}))
        return epochs

    def _tended(self, lake: Lake, engine: Engine) -> DerivedTables | None:
        if not self._settings.stream.derived:
            return None
        crash_at = self._settings.stream.crash_at
        hook = CrashPoints(crash_at).pass_point
        brought = brought_by(self._epochs.outside)
        return DerivedTables(lake, list(engine.places), Beside(), hook, crash_at=crash_at, outside=brought)

    def _publisher(self, epochs: Epochs) -> Publisher:
        wanted = wanted_of_domains(
            self._settings,
            {self._settings.journal.topics.domain_of(topic): epoch.partitions for topic, epoch in epochs.items()},
            [served.name for served in epochs.outside],
        )
        published = [topic for domain in epochs.domains for topic in wanted[domain]]
        targets = {topic.topic: topic.partitions for topic in published if topic.topic not in epochs}
        ends = {place: high for place, (_, high) in watermarks(self._settings, _places(targets)).items()}
        return Publisher(self._settings, targets, ends, self._stop.is_set, self._say)

    def _say(self, message: str) -> None:
        _log.warning("%s.", message)
        self._status.say("waiting" if "not" in message else "running", message)

    def _check(self, engine: Engine, epochs: Epochs) -> Cut:
        """Refuse to start where going on would lose events or give another history; gives the journal's ends."""
        journals = {topic: epoch.partitions for topic, epoch in epochs.items()}
        ends = {}
        for key, (low, high) in watermarks(self._settings, _places(journals)).items():
            offset = offset_of(engine.marks[key])
            ends[key] = epochs[key[0]].position(key[1], high)
            if not low <= offset <= high:
                raise StreamError(
                    f"The lake contains {key[0]}/{key[1]} up to offset {offset}, but the topic has {low} to {high}.",
                    code="topic-and-lake-differ",
                    hint="This is the lake of another journal, or the topic lost records: correct lake.path or the "
                    "prefix. If the topic itself was lost, stop every process and run `metajournal restore topics`.",
                )
        engine.check_rules()
        return ends

    def _fresh_checkpoint(self) -> str:
        base = self._settings.stream.checkpoint
        if base is None:
            memory = Path("/dev/shm")  # disposable, so it need not reach a disk
            base = str(memory) if memory.is_dir() else None
        else:
            Path(base).mkdir(parents=True, exist_ok=True)
        return tempfile.mkdtemp(prefix="metajournal-checkpoint-", dir=base)

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._batch:
            if self._stop.is_set() or self._again or self._failure is not None or self._engine is None:
                return
            try:
                started = time.monotonic()
                self._status.folding()
                ends = planned_ends(self._checkpoint, batch_id)
                report, received_s = self._folded(self._engine, frame, ends, started)
                self._sizes.learn(report)
                self._done(self._engine, ends, report, received_s)
            except BaseException as error:
                self._failure = error
                raise

    def _folded(
        self, engine: Engine, frame: DataFrame, ends: Mapping[PartitionKey, int], started: float
    ) -> tuple[Report, float]:
        """Fold a batch, here or by tasks; gives also the seconds until its records were here.

        Args:
            started: when the batch began, monotonic seconds.
        """
        wide_events, received_s = self._settings.stream.wide_events, 0.0
        size = self._sizes.of(engine.counts(ends), engine.starting_offsets())
        if engine.in_restored or size.weight < wide_events:
            table = frame.toArrow()
            received_s = time.monotonic() - started
            self._status.folding(_oldest_ms(table))
            if engine.in_restored or table.nbytes < wide_events * EVENT_BYTES:
                return engine.run(table, ends), received_s
            size = size_of(table)
            del table
        return engine.run_wide(SparkTasks(frame, self._settings, read_themselves=size.is_of_large), ends), received_s

    def _done(self, engine: Engine, ends: Mapping[PartitionKey, int], report: Report, received_s: float) -> None:
        now = time.monotonic()
        self._folded_at = now
        self._said_idle.update(dict.fromkeys(ends, now))
        self._status.batch(engine.marks, report, received_s)
        self._tidy(engine, _TIDIED * report.took_s)
        self._between(engine)
        _log.debug("batch: %s events, %s rows, %s", report.events, report.rows, dict(report.seconds))

    def _watch(self, query: StreamingQuery) -> None:
        """Wait for the query's end, keep the status file fresh, repeat idle partitions' outcomes.

        A query with small batches ends by itself after a while, so that the next one has batches of the usual size.
        """
        reduced = self._most_events < self._settings.stream.max_events_per_batch
        until = time.monotonic() + (_REDUCED_S if reduced else float("inf"))
        try:
            while is_active(query) and not self._ends() and time.monotonic() < until:
                self._stop.wait(0.2)
                self._repeat_idle()
                self._tidy_idle()
                self._status.beat()
        except Exception as failed_beside:
            self._failure = failed_beside  # the query is ended before another one begins: two would fold side by side
        with self._batch:  # let the batch in hand finish; later ones see the stop
            pass
        error = ended(query)
        if isinstance(self._failure, MetajournalError):
            raise self._failure
        failed = self._failure or error
        if failed is not None and not self._stop.is_set():
            raise meaning(failed, self._settings.lake.path, self._checkpoint) from failed

    def _ends(self) -> bool:
        return self._stop.is_set() or self._again or self._failure is not None

    def _tidy_idle(self) -> None:
        """Compact also while nothing comes, in the same short pieces."""
        quiet = time.monotonic() - self._folded_at > _QUIET_S
        if quiet and self._engine is not None and not self._ends() and self._batch.acquire(blocking=False):
            try:
                self._tidy(self._engine)
                self._between(self._engine)
            finally:
                self._batch.release()

    def _tidy(self, engine: Engine, for_s: float = 0.0) -> None:
        """Do some upkeep, more after a large batch.

        Where the lake has no room for it or a file of it is damaged, folding goes on and it is tried again later.
        """
        if time.monotonic() < self._tidy_at:
            return
        try:
            engine.tidy(for_s)
        except (LakeWriteError, DamagedTableError) as error:
            self._tidy_at = time.monotonic() + _TIDY_AGAIN_S
            _log.warning("Compaction waits %d s: %s %s", _TIDY_AGAIN_S, error, error.hint)

    def _between(self, engine: Engine) -> None:
        """Do what others ask for, between two batches; nothing where another stream does it."""
        if self._lost is not None:
            return
        number = engine.take_over() if self._derived is None else engine.take_over(self._derived.fill_first)
        if number is not None:
            _log.info("Generation %d of the lake is now the live one.", number)
        if self._waits_to_join:
            self._again = is_between(engine.lake, self._epochs)
        elif answer_request(self._settings, self._requests, engine.lake, self._epochs, engine.marks):
            _log.info("Another domain is served now.")
            self._again = True
        if self._derived is not None and self._derived.tend():
            self._status.derived(self._derived.status())

    def _repeat_idle(self) -> None:
        interval_s = self._settings.stream.idle_outcome_interval_s
        now = time.monotonic()
        idle = [key for key, said_s in self._said_idle.items() if now - said_s >= interval_s]
        if idle and self._engine is not None and not self._ends() and self._batch.acquire(blocking=False):
            try:
                self._engine.repeat_outcomes(idle)
                self._said_idle.update(dict.fromkeys(idle, now))
            finally:
                self._batch.release()


def _places(partitions: Mapping[str, int]) -> list[PartitionKey]:
    return [(topic, partition) for topic, count in partitions.items() for partition in range(count)]


def _oldest_ms(records: pa.Table) -> float | None:
    """Append time of the oldest of a batch's records, milliseconds UTC."""
    oldest = pc.min(records["timestamp"].cast(TIMESTAMP))
    return oldest.value / 1000 if oldest.is_valid else None


def run_stream(settings: Settings, jars: Sequence[str], spark: Mapping[str, str] | None = None) -> None:
    """Run the stream in this process until SIGTERM or SIGINT.

    Args:
        settings: everything.
        jars: paths of the Spark connector's jars (`stack.jars` finds them).
        spark: Spark options that override the project's own.
    """
    stream = Stream(settings, jars, spark)

    def stopped(_signal: int, _frame: FrameType | None) -> None:
        stream.stop()

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, stopped)
    with rarely_sought(100_000, 20, 100):  # the cache of rows is large and has no cycles
        stream.run()
