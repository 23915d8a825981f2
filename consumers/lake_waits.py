"""Waiting for the lake without a thread each: one thread looks for all who wait, and ends when nobody does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..producers.waiting.futures import AwaitableFuture, fail, resolve
from ..schemas.errors import NotYetVisibleError, UnavailableError
from ..schemas.positions import Cut

if TYPE_CHECKING:
    from ..lake.reading import LakeReader


class _Wait(NamedTuple):
    wanted: Cut
    limit_s: float
    late_s: float
    future: AwaitableFuture[None]


class LakeWaits:
    """Those who wait for the lake to hold positions; shared between threads.

    Args:
        reader: gives the lake's reader. Raises: InputError: the journal is closed.
    """

    def __init__(self, reader: Callable[[], LakeReader]) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._waiting: list[_Wait] = []
        self._runs = False

    def add(self, wanted: Cut, timeout_s: float) -> AwaitableFuture[None]:
        """Resolved once the lake holds everything below some positions; errors as `LakeReader.wait`."""
        self._reader().check_cut(wanted)
        wait = _Wait(wanted, timeout_s, time.monotonic() + timeout_s, AwaitableFuture())
        with self._lock:
            self._waiting.append(wait)
            starts, self._runs = not self._runs, True
        if starts:
            threading.Thread(target=self._run, name="metajournal-lake-waits", daemon=True).start()
        return wait.future

    def _run(self) -> None:
        from ..lake.reading import POLL_S

        while True:
            with self._lock:
                self._waiting = [wait for wait in self._waiting if not wait.future.done()]
                waiting = list(self._waiting)
                if not waiting:
                    self._runs = False
                    return
            self._look(waiting)
            time.sleep(POLL_S)

    def _look(self, waiting: list[_Wait]) -> None:
        now = time.monotonic()
        late = [wait for wait in waiting if wait.late_s <= now]
        try:
            reader = self._reader()
            journal = reader.views.take(()).journal
        except UnavailableError as error:  # no lake yet
            for wait in late:
                fail(wait.future, error)
        except Exception as error:
            for wait in waiting:
                fail(wait.future, error)
        else:
            for wait in waiting:
                try:
                    reader.check_held(journal, wait.wanted, wait.limit_s)
                except NotYetVisibleError as error:
                    if wait.late_s <= now:
                        fail(wait.future, error)
                else:
                    resolve(wait.future, None)
