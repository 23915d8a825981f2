"""The process that makes pieces: one request in, one answer out, until its driver closes the pipe or is gone.

It reads the lake and writes files; it never commits. It runs beside the fold, so it is nice, has one thread to compute
with and little memory.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

import duckdb
import pyarrow as pa

from ...lake import scan
from ...lake.tables import PartitionKey, Table
from ...schemas.errors import MetajournalError
from ..crash import CrashPoints
from ..memory import give_back
from ..plan import Brought, take_in_domains
from .earlier import Memories
from .files import StoredFiles
from .functions import DERIVED
from .making import USUAL, Bounds, FunctionFailed, Offer, make_piece

NICE: Final = 10
ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "TOKIO_WORKER_THREADS": "1", "MALLOC_ARENA_MAX": "2",
}  # fmt: skip
_MEMORY: Final = "256MB"


@dataclass(frozen=True)
class Request:
    """What is asked for: the next piece of one function.

    Attributes:
        name: of the function.
        lake: its path.
        uris: the folders of the tables that it reads and makes.
        upto: where the piece must end at the latest; all tables that are read hold what stands below.
        bounds: how large it is.
        crash_at: see `CrashPoints`.
        outside: the domains from outside that the journal serves.
    """

    name: str
    lake: str
    storage_options: Mapping[str, str] = field(repr=False)
    uris: Mapping[str, str]
    upto: Mapping[PartitionKey, int]
    bounds: Bounds = USUAL
    crash_at: str | None = None
    outside: tuple[Brought, ...] = ()


@dataclass(frozen=True)
class Failed:
    """Why there is no piece.

    Attributes:
        why: one sentence.
        place: journal partition, first position, and the one after the last, of the piece that the function failed in;
            None: the lake could not be read or written, so it is tried again.
    """

    why: str
    place: tuple[PartitionKey, int, int] | None


Answer = Offer | Failed | None
"""None: the tables hold all that was asked for."""


class Maker:
    """Answers requests, with handles on tables that stay open between them."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], Table] = {}
        self._memories = Memories()

    def answer(self, request: Request) -> Answer:
        """Make a piece."""
        try:
            take_in_domains(request.outside)
            tables = {name: self._table(name, uri, request.storage_options) for name, uri in request.uris.items()}
            for table in tables.values():
                table.refresh()
            files = StoredFiles(request.lake, request.storage_options)
            crash = CrashPoints(request.crash_at)
            owned = DERIVED[request.name]
            return make_piece(
                owned, tables, request.upto, files,
                bounds=request.bounds, hook=crash.pass_point, memories=self._memories,
            )  # fmt: skip
        except FunctionFailed as failed:
            return Failed(failed.why, (failed.key, failed.start, failed.end))
        except (MetajournalError, OSError, duckdb.Error) as error:
            return Failed(f"{type(error).__name__}: {error}", None)

    def _table(self, name: str, uri: str, storage_options: Mapping[str, str]) -> Table:
        if (name, uri) not in self._tables:
            self._tables = {key: table for key, table in self._tables.items() if key[0] != name}
            self._tables[name, uri] = Table(name, uri, storage_options)
        return self._tables[name, uri]


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are no more. A driver that is gone ends this process at once."""
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, waiting), daemon=True).start()
    maker = Maker()
    while True:
        pickle.dump(maker.answer(waiting.get()), answers)
        answers.flush()
        give_back()


def _read(requests: IO[bytes], waiting: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            waiting.put(pickle.load(requests))
        except (EOFError, OSError, pickle.UnpicklingError):
            os._exit(0)


def main() -> None:
    """Serve this process's standard input and output; what anything prints goes to the error output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the driver ends this process when it ends
    os.nice(NICE)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with scan.cursor() as cursor:
        cursor.execute(f"set threads = 1; set memory_limit = '{_MEMORY}'")
    serve(sys.stdin.buffer, answers)
