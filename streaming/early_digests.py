"""Digests of tables, made in a thread with what processor time nobody else needs, before they are asked for.

While one process folds, a rebuild has nothing else to do, and most often what it will be held against is there already.
A digest that failed, or is one below other marks than those that are asked for in the end, is made again then.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Self

from ..lake import scan
from ..lake.digest import table_digest
from ..lake.tables import PartitionKey, Table
from ..lake.views.log import TableLog

NICE: Final = 10
FEWEST_BYTES: Final = 4 * 1024 * 1024
"""A table whose files are smaller has its digest made when it is asked for: that takes no longer than to begin."""
Marks = Mapping[PartitionKey, int]


class EarlyDigests:
    """Makes digests one after the other: a context manager."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "digests", _be_nice)
        self._made: dict[str, tuple[Marks, Future[str]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, table: Table, marks: Marks) -> None:
        """Have the digest of a table made, as it is when its turn comes, where that takes long."""
        if not table.exists() or sum(scan.live_files(table.delta)["size_bytes"].to_pylist()) < FEWEST_BYTES:
            return
        self._made[table.uri] = marks, self._pool.submit(_digest, table.uri, table.storage_options, marks)

    def of(self, table: Table, marks: Marks) -> str | None:
        """The digest of a table below some marks; None where it is sooner made by whoever asks."""
        made_below, future = self._made.pop(table.uri, ({}, None))
        if future is None or future.cancel() or made_below != marks:
            return None
        with suppress(Exception):  # whoever asks meets it again, or it has passed
            return future.result()
        return None


def _digest(uri: str, storage_options: Mapping[str, str], marks: Marks) -> str:
    return table_digest(TableLog("", uri, storage_options).look(), marks, scan.single)


def _be_nice() -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
