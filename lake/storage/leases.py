"""Who may do what only one process at a time may do in a lake in an object store, which knows no locks.

A lease is a small Delta table, `_locks/<name>`: its newest commit says who has it, or that nobody has. Commits go the
way of all others, so of two processes that want it one gets it, on every store that can hold a lake. The holder puts an
object beside it every few seconds; one that has not changed for a while, by the watcher's own clock, belongs to a
process that died. A holder that was held up for so long finds out, and what it commits meanwhile is refused by the
tables' own logs: a lease keeps two from starting, the logs keep two from writing.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError

from .faults import store_fault, writing
from .store import delete_object, read_object, replace_object, store_files

_log = logging.getLogger(__name__)
FOLDER: Final = "_locks"
_HOLDER: Final = "metajournal.holder"
_APP: Final = "metajournal.lease"
_SCHEMA: Final = pa.schema([pa.field("nothing", pa.string())])
_CONFIGURATION: Final = {"delta.checkpointInterval": "20", "delta.logRetentionDuration": "interval 10 minutes"}


@dataclass(frozen=True)
class Pace:
    """How often a holder shows that it lives, and how long somebody else waits for that.

    Attributes:
        beat_s: seconds between two beats.
        watch_s: seconds without one after which the holder counts as dead.
    """

    beat_s: float = 3.0
    watch_s: float = 12.0


USUAL: Final = Pace()
_POLL_S: Final = 0.25


class Lease:
    """A lease of one name in one lake.

    Args:
        path: URL of the lake.
        name: what it is for: "stream", "rebuild".
        storage_options: options of the store.
        pace: how often it is renewed.
        on_lost: called when somebody else took it, since this process did not get a beat through for too long.
    """

    def __init__(
        self,
        path: str,
        name: str,
        storage_options: Mapping[str, str],
        *,
        pace: Pace = USUAL,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._uri = f"{path.rstrip('/')}/{FOLDER}/{name}"
        self._options = dict(storage_options)
        self._pace = pace
        self._on_lost = on_lost
        self._me = uuid.uuid4().hex
        self._ends = threading.Event()
        self._beating: threading.Thread | None = None

    def take(self) -> bool:
        """Take it, waiting for as long as it takes to see whether its holder lives; tells whether it was had.

        Raises:
            LakeWriteError: the store does not answer.
        """
        with writing(self._uri):
            while True:
                table = self._table()
                holder = _holder(table)
                if holder is not None and self._lives(holder):
                    return False
                self._beat()
                if self._commit(table, self._me):
                    break
                self._forget_beat(self._me)
            if holder is not None:
                self._forget_beat(holder)
        self._beating = threading.Thread(target=self._keep, name=f"lease {self._uri}", daemon=True)
        self._beating.start()
        return True

    def release(self) -> None:
        """Give it back; where the store does not answer, it ends by itself a little later."""
        self._ends.set()
        if self._beating is not None:
            self._beating.join(self._pace.watch_s)  # one that hangs in a store that is away ends with the process
        try:
            table = self._table()
            if _holder(table) == self._me:
                self._commit(table, "")
            self._forget_beat(self._me)
        except (OSError, DeltaError) as error:
            _log.warning("The lease %s was not given back, and ends by itself: %s", self._uri, error)

    def _table(self) -> DeltaTable:
        try:
            return DeltaTable(self._uri, storage_options=self._options)
        except TableNotFoundError:
            self._create()
            return DeltaTable(self._uri, storage_options=self._options)

    def _create(self) -> None:
        """Make the table; one that somebody else made meanwhile is as good."""
        try:
            DeltaTable.create(
                self._uri, schema=_SCHEMA, mode="ignore", configuration=_CONFIGURATION, storage_options=self._options
            )
        except DeltaError as error:
            if store_fault(error):
                raise

    def _commit(self, table: DeltaTable, holder: str) -> bool:
        """Say who has it, unless somebody else said something meanwhile."""
        properties = CommitProperties(
            custom_metadata={_HOLDER: holder},
            app_transactions=[Transaction(_APP, table.version() + 1, int(time.time() * 1000))],
            max_commit_retries=0,
        )
        try:
            table.create_write_transaction([], mode="append", schema=table.schema(), commit_properties=properties)
        except DeltaError as error:
            if store_fault(error):
                raise
            return _holder(DeltaTable(self._uri, storage_options=self._options)) == holder
        return True

    def _lives(self, holder: str) -> bool:
        """Whether a holder shows itself while it is watched."""
        first, until = self._read_beat(holder), time.monotonic() + self._pace.watch_s
        while time.monotonic() < until:
            time.sleep(min(_POLL_S, self._pace.beat_s))
            beat = self._read_beat(holder)
            if beat != first:
                return beat is not None  # it has given it back otherwise
        return False

    def _keep(self) -> None:
        """Beat until released; after a time without one, look whether it is still held."""
        beaten = time.monotonic()
        while not self._ends.wait(self._pace.beat_s):
            try:
                late = time.monotonic() - beaten > self._pace.watch_s / 2
                if late and _holder(self._table()) != self._me:
                    _log.error("Another process took over %s, while this one could not show that it lives.", self._uri)
                    self._on_lost()
                    return
                self._beat()
                beaten = time.monotonic()
            except (OSError, DeltaError) as error:
                _log.warning("%s was not renewed: %s", self._uri, error)

    def _beat(self) -> None:
        replace_object(self._files, _beat_of(self._me), f"{time.time_ns()}\n".encode())

    def _read_beat(self, holder: str) -> bytes | None:
        return read_object(self._files, _beat_of(holder))

    def _forget_beat(self, holder: str) -> None:
        delete_object(self._files, _beat_of(holder))

    @property
    def _files(self) -> object:
        return store_files(self._uri, self._options)


def _beat_of(holder: str) -> str:
    return f"{holder}.beat"


def _holder(table: DeltaTable) -> str | None:
    """Who has it by the newest commit; None where nobody has."""
    newest = table.history(1)[0]  # there may be more: others have committed since the table was opened
    return str(newest.get(_HOLDER) or "") or None
