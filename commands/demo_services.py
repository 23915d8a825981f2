"""The demo's own services in a temporary folder, and what each stage of the way of an event has reached.

Left to whom: how a server starts and dies is `stack`'s, what the demo does with them is `demo.py`'s.
Invariant: nothing here outlives its block or its process, and no setting of the user's is read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
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
from ..stack.jars import ensure_parts
from ..stack.java import find_java
from ..stack.process import Kept, keep, log_tail
from ..stack.progress import shown
from ..stack.services import Stack
from ..stack.supervisor import COMMANDS, GRACE_S
from .telling import Advance, Teller

if TYPE_CHECKING:
    from ..producers.receipts import Receipt

ACKNOWLEDGED, IN_LAKE, SEARCHABLE = STAGES = ("acknowledged by Kafka", "in the lake", "searchable")
DEADLINE_S: Final = 180.0  # seconds that what was emitted may take to become searchable
POLL_S: Final = 0.005


@dataclass(slots=True)
class Running:
    """The demo's own services and their folder; who finds something wrong sets `keep`, and the folder stays."""

    folder: Path
    settings: Settings
    processes: tuple[Kept, ...]
    keep: bool = False

    def check(self) -> None:
        """Raises: StreamError: the stream or the indexer has ended; it carries the end of the log."""
        for one in self.processes:
            if one.exit_code is not None:
                raise StreamError(
                    f"The {one.name} ended with exit code {one.exit_code}. The end of {one.log}:\n{log_tail(one.log)}",
                    code=f"{one.name}-ended",
                    hint="`metajournal doctor` checks what is needed; the demo's folder is kept.",
                )


@contextmanager
def services(told: Teller) -> Iterator[Running]:
    """Kafka, Elasticsearch, stream and indexer; all are gone when the block ends, the folder too if all went well.

    Raises:
        MetajournalError: a service did not start or ended; the folder with its logs stays.
    """
    find_java()  # first of all: what is missing here leaves no folder behind
    with shown() as report:
        ensure_parts(report=report)
    folder = Path(tempfile.mkdtemp(prefix="metajournal-demo-"))
    told.line(f"Everything of this demo is in {folder} and ends with it.")
    kept = True
    try:
        with ExitStack() as ending:
            running = _start(folder, ending, told)
            yield running
            with told.step("stop everything"):
                ending.close()
        kept = running.keep
    except (KeyboardInterrupt, SystemExit):  # ended by its user: there is nothing to find out
        kept = False
        raise
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, ending: ExitStack, told: Teller) -> Running:
    with told.step("start Kafka and Elasticsearch"):
        stack = ending.enter_context(Stack(folder))
    for server in (stack.kafka, stack.elasticsearch):
        told.line(f"  {server.name} at {server.endpoint}, ready after {server.ready_s:.1f} s")
    endpoints = {"bootstrap_servers": stack.bootstrap_servers, "elasticsearch_url": stack.elasticsearch_url}
    settings = settled(Settings(), folder, **endpoints)  # nobody's own settings: a demo is the same everywhere
    write_private(folder / SETTINGS_FILE, settings_text(settings))
    return Running(folder, settings, tuple(ending.enter_context(own_process(folder, name)) for name in COMMANDS))


@contextmanager
def own_process(folder: Path, name: str) -> Iterator[Kept]:
    """The stream or the indexer with the settings of a folder; it ends with the block, or with this process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("METAJOURNAL__")}
    environment = {**environment, HOME_VARIABLE: str(folder), FILE_VARIABLE: str(folder / SETTINGS_FILE)}
    kept = keep(name, COMMANDS[name], folder=folder, env=environment, grace_s=GRACE_S[name])
    try:
        yield kept
    finally:
        kept.stop()


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
    ) -> dict[str, float]:
        """Wait until every event has passed every stage.

        Args:
            began: when the first was emitted, on the monotonic clock, seconds.
            advance: told how many have passed a stage.
        Returns:
            For each stage the milliseconds from `began` until the last event passed it.
        Raises:
            OutcomeUnknownError: an event was not acknowledged.
            StreamError: the stream or the indexer ended, or it took longer than DEADLINE_S.
        """
        for number, receipt in enumerate(receipts, 1):
            _position(receipt)  # waits for it: to ask now and then would measure the asking
            advance(ACKNOWLEDGED, number)
        reached = {ACKNOWLEDGED: _milliseconds(began)}
        for stage, passed in ((IN_LAKE, self._in_lake), (SEARCHABLE, self._searchable)):
            while (count := passed(receipts)) < len(receipts):
                advance(stage, count)
                self._watch(began)
            advance(stage, count)
            reached[stage] = _milliseconds(began)
        return reached

    def entities(self, namespace: str) -> int:
        """How many live entities of a namespace the lake holds."""
        newest = "row_number() over (partition by urn order by logical_timestamp desc, seq desc)"
        rows = f"select urn, deleted, {newest} as place from entities where namespace = {quoted(namespace)}"
        table = self._lake.tables["entities"]
        table.refresh()
        found = table.sql(f"select count(*) as live from ({rows}) where place = 1 and not deleted")
        return int(found["live"][0].as_py())

    def _in_lake(self, receipts: Sequence[Receipt]) -> int:
        journal = self._lake.journal
        if not journal.exists():
            return 0
        journal.refresh()
        return sum(journal.mark((at.topic, at.partition)) > at.value for at in map(_position, receipts))

    def _searchable(self, receipts: Sequence[Receipt]) -> int:
        try:
            vector = read_shown(self._search, self._running.settings.elasticsearch.index).vector
        except IndexMissingError:
            return 0
        return sum(shows(vector, _position(receipt)) for receipt in receipts)

    def _watch(self, began: float) -> None:
        time.sleep(POLL_S)
        self._running.check()
        if time.monotonic() - began > DEADLINE_S:
            raise StreamError(
                f"What was emitted did not pass every stage within {DEADLINE_S:.0f} s.",
                code="demo-too-slow",
                hint=f"Read stream.log and indexer.log in {self._running.folder}.",
            )


def _milliseconds(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 1)


def _position(receipt: Receipt) -> Position:
    return receipt.position
