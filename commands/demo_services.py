"""The demo's own services in a temporary folder, and what each stage of an event's flow has reached.

Left to whom: how a server starts and dies is `stack`'s, what the demo does with them is `demo.py`'s.
Invariant: nothing here outlives its block or its process, and no setting of the user's is read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ..config import FILE_VARIABLE, HOME_VARIABLE
from ..indexer.connection import make_client
from ..indexer.errors import IndexMissingError
from ..indexer.shown import read_shown
from ..lake.tables import Lake, quoted
from ..schemas.errors import StreamError
from ..schemas.positions import Position, shows
from ..schemas.settings import Settings
from ..stack.home import SETTINGS_FILE, settings_text, settled, write_private
from ..stack.jars import ensure_all
from ..stack.java import find_java
from ..stack.process import Kept, keep, log_tail
from ..stack.progress import shown
from ..stack.services import Stack
from ..stack.supervisor import COMMANDS, GRACE_S, hand_over
from .telling import Advance, Teller

if TYPE_CHECKING:
    from ..producers.receipts import Receipt

_ENDING_S: Final = 10.0
"""Seconds within which what a killed service still writes has come to an end."""
_REMOVE_AGAIN_S: Final = 0.1

ACKNOWLEDGED, IN_LAKE, SEARCHABLE = STAGES = ("acknowledged by Kafka", "in the lake", "searchable")
DEADLINE_S: Final = 300.0  # seconds that what was emitted may take to become searchable
POLL_S: Final = 0.005  # between two looks where few events are followed, whose milliseconds are measured
BULK_POLL_S: Final = 0.2  # where many are: looking takes the processor from those who work
_FEW: Final = 100


@dataclass(slots=True)
class Running:
    """The demo's own services and their folder; who finds something wrong sets `keep`, and the folder stays."""

    folder: Path
    settings: Settings
    stack: Stack
    processes: tuple[Kept, ...]
    keep: bool = False

    def check(self) -> None:
        """Raises: StreamError: the stream or the indexer has ended; it carries the end of the log."""
        for process in self.processes:
            if process.exit_code is not None:
                raise StreamError(
                    f"The {process.name} ended with exit code {process.exit_code}. "
                    f"The end of {process.log}:\n{log_tail(process.log)}",
                    code=f"{process.name}-ended",
                    hint="`metajournal doctor` checks what is needed; the demo's folder is kept.",
                )


@contextmanager
def services(teller: Teller, *, keep: bool = False) -> Iterator[Running]:
    """Kafka, Elasticsearch, stream and indexer; all are gone when the block ends, the folder too if all went well.

    Args:
        keep: if the block ends well, they run on, as if `metajournal up` had started them.

    Raises:
        MetajournalError: a service did not start or ended; the folder with its logs stays.
    """
    find_java()  # first of all: what is missing here leaves no folder behind
    with shown() as report:
        ensure_all(report=report)
    folder = Path(tempfile.mkdtemp(prefix="metajournal-demo-"))
    teller.line(f"Everything of this demo is in {folder} and {'stays there' if keep else 'is removed with it'}.")
    kept = True
    try:
        with ExitStack() as ending:
            running = _start(folder, ending, teller, lasting=keep)
            yield running
            if keep and not running.keep:
                hand_over(folder, running.settings, running.stack.servers, running.processes)
                ending.pop_all()
                running.keep = True
            else:
                with teller.step("stop everything"):
                    ending.close()
        kept = running.keep
    except (KeyboardInterrupt, SystemExit, GeneratorExit):  # ended by its user: there is nothing to find out
        # GeneratorExit: a signal came when this had yielded and the caller's block had not begun yet.
        kept = False
        raise
    finally:
        if not kept:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove the folder; what is ending at this moment may still write into it."""
    until = time.monotonic() + _ENDING_S
    shutil.rmtree(folder, ignore_errors=True)
    while folder.exists() and time.monotonic() < until:
        time.sleep(_REMOVE_AGAIN_S)
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, ending: ExitStack, teller: Teller, *, lasting: bool) -> Running:
    with teller.step("start Kafka and Elasticsearch"):
        stack = ending.enter_context(Stack(folder, lasting=lasting))
    for server in (stack.kafka, stack.elasticsearch):
        teller.line(f"  {server.name} at {server.endpoint}, ready after {server.ready_s:.1f} s")
    settings = settled(  # nobody's own settings: a demo is the same everywhere
        Settings(), folder, bootstrap_servers=stack.bootstrap_servers, elasticsearch_url=stack.elasticsearch_url
    )
    write_private(folder / SETTINGS_FILE, settings_text(settings, folder))
    processes: list[Kept] = []
    # No generator stands for them: one that is forgotten when everything is kept would still end its process.
    ending.callback(_stop_all, processes)
    with ThreadPoolExecutor(1) as pool:  # a signal interrupts this thread alone: what has begun is always known
        for name in COMMANDS:
            pool.submit(_begin, folder, name, processes).result()
    return Running(folder, settings, stack, tuple(processes))


def _stop_all(processes: Sequence[Kept]) -> None:
    """Stop all, the last one first."""
    for process in reversed(processes):
        process.stop()


def _begin(folder: Path, name: str, processes: list[Kept]) -> None:
    """Add the stream or the indexer with the settings of a folder; whoever begins it stops or releases it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("METAJOURNAL__")}
    environment = {**environment, HOME_VARIABLE: str(folder), FILE_VARIABLE: str(folder / SETTINGS_FILE)}
    processes.append(keep(name, COMMANDS[name], folder=folder, env=environment, grace_s=GRACE_S[name]))


def _untold(_stage: str, _count: int) -> None:
    return


class Stages:
    """How far the lake and the index are, asked directly and not through the client that is being shown."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._lake = Lake(running.settings.lake.path)
        self._search = make_client(running.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._search.close()

    def follow(
        self,
        receipts: Sequence[Receipt],
        began: float,
        advance: Advance = _untold,
        stages: Sequence[str] = STAGES,
    ) -> dict[str, float]:
        """Wait until every event has passed every stage.

        Args:
            began: when the first was emitted, on the monotonic clock, seconds.
            advance: told how many have passed a stage.
            stages: those that are waited for; facts of lineage are never searchable.
        Returns:
            For each stage the milliseconds from `began` until the last event passed it.
        Raises:
            OutcomeUnknownError: an event was not acknowledged.
            StreamError: the stream or the indexer ended, or it took longer than DEADLINE_S.
        """
        positions = []
        for number, receipt in enumerate(receipts, 1):
            positions.append(receipt.position)  # waits for it: to ask now and then would measure the asking
            if ACKNOWLEDGED in stages:
                advance(ACKNOWLEDGED, number)
        reached = {ACKNOWLEDGED: _milliseconds(began)}
        for stage, passed in ((IN_LAKE, self._in_lake), (SEARCHABLE, self._searchable)):
            if stage not in stages:
                continue
            while (count := passed(positions)) < len(positions):
                advance(stage, count)
                self._watch(began, POLL_S if len(positions) <= _FEW else BULK_POLL_S)
            advance(stage, count)
            reached[stage] = _milliseconds(began)
        return reached

    @property
    def settings(self) -> Settings:
        """The settings of the demo's own services."""
        return self._running.settings

    def entities(self, namespace: str | None = None) -> int:
        """How many live entities the lake holds; or datasets, of a namespace alone."""
        newest = "row_number() over (partition by urn order by logical_timestamp desc, seq desc)"
        which = "true" if namespace is None else f"namespace = {quoted(namespace)} and kind = 'dataset'"
        rows = f"select urn, deleted, {newest} as place from entities where {which}"
        table = self._lake.tables["entities"]
        table.refresh()
        count_table = table.sql(f"select count(*) as live from ({rows}) where place = 1 and not deleted")
        return int(count_table["live"][0].as_py())

    def events(self) -> int:
        """How many events the journal table holds; what marks the time of an idle partition is none."""
        journal = self._lake.journal
        journal.refresh()
        count_table = journal.sql("select count(event_id) as events from journal")
        return int(count_table["events"][0].as_py())

    def _in_lake(self, positions: Sequence[Position]) -> int:
        journal = self._lake.journal
        if not journal.exists():
            return 0
        journal.refresh()
        marks = {key: journal.mark(key) for key in {(position.topic, position.partition) for position in positions}}
        return sum(marks[(position.topic, position.partition)] > position.value for position in positions)

    def _searchable(self, positions: Sequence[Position]) -> int:
        try:
            vector = read_shown(self._search, self._running.settings.elasticsearch.index).vector
        except IndexMissingError:
            return 0
        return sum(shows(vector, position) for position in positions)

    def _watch(self, began: float, poll_s: float) -> None:
        time.sleep(poll_s)
        self._running.check()
        if time.monotonic() - began > DEADLINE_S:
            raise StreamError(
                f"What was emitted did not pass every stage within {DEADLINE_S:.0f} s.",
                code="demo-too-slow",
                hint=f"Read stream.log and indexer.log in {self._running.folder}.",
            )


def _milliseconds(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 1)
