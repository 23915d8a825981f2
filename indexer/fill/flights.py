"""Bulk requests under way: while Elasticsearch indexes some documents, the next ones are built.

Requests go out from threads of their own; their answers are dealt with by who calls here, in the order of sending, so
nothing else of the indexer needs to know of threads.
Invariant: what was to happen once some documents are indexed happens after the answers for all documents before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

from .bulk import BulkWriter, Item

AT_ONCE: Final = 2
"""Requests under way at most. A shard takes each with one thread; more than two only wait in the server's queue."""
_UNSETTLED: Final = 5
"""Requests sent whose documents are not known to be indexed: what stands behind a slow one is kept until it is."""
_T = TypeVar("_T")


class Flights:
    """Documents on their way to one index.

    Args:
        writer: sends them, and knows what each answer asks for.
    """

    def __init__(self, writer: BulkWriter) -> None:
        self.writer = writer
        self._pool = ThreadPoolExecutor(AT_ONCE + 1, "metajournal-bulk")
        self._under_way: deque[tuple[list[Item], Future[Any]] | Callable[[], None]] = deque()
        self._requests = 0

    def send(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Send the documents of some states; waits where `AT_ONCE` requests are unanswered already.

        Raises:
            IndexerError, StartOver, Stopped: as `BulkWriter.write`, for these documents or earlier ones.
        """
        for chunk in self.writer.chunks(states):
            self._make_room()
            self._under_way.append((chunk, self._pool.submit(self.writer.request, chunk)))
            self._requests += 1

    def _make_room(self) -> None:
        """One slow answer (a server that writes a segment out) must not keep the others' place empty meanwhile."""
        self.land(_UNSETTLED - 1)
        while (
            len(unanswered := [job[1] for job in self._under_way if not callable(job) and not job[1].done()]) >= AT_ONCE
        ):
            wait(unanswered, return_when=FIRST_COMPLETED)
        self.land_answered()

    @property
    def idle(self) -> bool:
        """Whether the server has answered everything."""
        return all(callable(job) or job[1].done() for job in self._under_way)

    def land_answered(self) -> None:
        """Deal with the answers that are there, up to the first that is not. Raises as `land`."""
        while self._under_way and (callable(first := self._under_way[0]) or first[1].done()):
            self._land_first()

    def then(self, call: Callable[[], None]) -> None:
        """Call this when all that was sent so far is indexed; `land` does so."""
        self._under_way.append(call)

    def beside(self, call: Callable[[], _T]) -> Future[_T]:
        """Ask something else while requests are under way."""
        return self._pool.submit(call)

    def land(self, most: int = 0) -> None:
        """Deal with answers until at most so many requests are under way.

        Raises:
            IndexerError, StartOver, Stopped: as `BulkWriter.write`.
        """
        while self._under_way and (self._requests > most or callable(self._under_way[0])):
            self._land_first()

    def _land_first(self) -> None:
        first = self._under_way.popleft()
        if callable(first):
            first()
        else:
            self._requests -= 1
            self.writer.settle(*first)

    def forget(self) -> None:
        """Start with nothing under way. What is forgotten may still be indexed, which does no harm."""
        self._under_way.clear()
        self._requests = 0

    def close(self) -> None:
        """End the threads, once their requests are answered."""
        self.forget()
        self._pool.shutdown(cancel_futures=True)
