"""Who follows an aggregate, and the followers that this process runs: one for each journal partition.

The light client imports this and nothing of the lake; what follows is imported when somebody asks for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ..producers.topics import Epochs
from ..producers.verdicts import Outcome
from ..producers.waiting.futures import AwaitableFuture
from ..rules.entity import EntityRow
from ..schemas.arguments import check_number
from ..schemas.errors import InputError, MissingExtraError
from ..schemas.hashing import partition_of, record_key
from ..schemas.positions import Position
from ..schemas.settings import Settings
from ..schemas.urn import Urn
from .awaited import SeenRow
from .facts import AggregateRows

if TYPE_CHECKING:
    from .follower import Follower

LAKE_PACKAGES: Final = frozenset({"deltalake", "duckdb", "orjson", "polars", "pyarrow"})
_lock = threading.Lock()
_made: list[Follower] = []
_of_parent: list[Follower] = []
"""In a forked process: those of its parent. They are kept, since to free a client waits for threads of the parent's."""


class Follow:
    """Follows one aggregate: verdicts on its events before the stream publishes them; a context manager.

        with journal.follow(orders) as follow:
            receipt = journal.emit(TagsAdded(orders, ["pii"]))
            follow.verdict(receipt.position).raise_if_rejected()
            follow.row()                        # with the tag, though the lake does not have it yet

    Verdicts and rows are those that the stream gives under the same rules. If this process cannot know them it raises;
    then use `receipt.outcome()`, which waits for the stream. Created by `Journal.follow`.
    """

    def __init__(self, settings: Settings, epochs: Epochs, entity: Urn, tenant: str) -> None:
        self._settings = settings
        self._tenant = tenant
        self._entity = entity
        self._key = record_key(tenant, str(entity.aggregate))
        self._closed = True
        place = place_of(settings, epochs, entity, self._key)
        self._follower = _shared(settings, epochs, *place)
        self._follower.follow(self._key)
        self._closed = False

    def verdict(self, position: Position, *, timeout_s: float | None = None) -> Outcome:
        """The verdict on an event of this aggregate, known as soon as its partition has been read up to it.

        Args:
            position: where it stands (`receipt.position`).
            timeout_s: seconds to wait; `client.outcome_timeout_s` if None.
        Returns:
            The same as `receipt.outcome()`.
        Raises:
            NotYetVisibleError: it was not read in time, or the lake is more than 100,000 records behind.
            UnknownSchemaError: a record with an unknown schema precedes it, at which the stream stops, too.
            OtherRulesError: the lake was written under other rules than this process has.
            TopicMismatchError: the journal topic was recreated, or lacks records that follow the lake.
            InvalidPositionError: no event of this aggregate is there.
            InputError: it is closed; or a callback of a future asks what is not read yet (`would-wait`).
            UnavailableError: there is no lake, or Kafka does not answer.
        """
        self._check_open()
        return self._follower.verdict(self._key, position, self._limit(timeout_s))

    def verdict_future(self, position: Position, *, timeout_s: float | None = None) -> AwaitableFuture[Outcome]:
        """`verdict` as a future: the same arguments and errors, without blocking a thread.

        outcome = await follow.verdict_future(receipt.position)
        """
        self._check_open()
        return self._follower.verdict_future(self._key, position, self._limit(timeout_s))

    def row_future(
        self, entity: Urn | str | None = None, *, at_least: Position, timeout_s: float | None = None
    ) -> AwaitableFuture[SeenRow]:
        """`row` as a future, without blocking a thread; what it gives is read with `read()`, from the lake if needed.

        Args:
            entity: as of `row`.
            at_least: a position of the aggregate's partition that must be included (`producers.asked_ends`).
            timeout_s: as of `verdict`.
        Raises:
            InputError: as `row`; other errors come with the future.
        """
        urn = self._own(entity)
        return self._follower.row_future(self._key, self._tenant, str(urn), at_least, self._limit(timeout_s))

    def peek(self, position: Position) -> Outcome | None:
        """The verdict if it is already known, otherwise None, without waiting."""
        return None if self._closed else self._follower.peek(self._key, position)

    def row(
        self, entity: Urn | str | None = None, *, at_least: Position | None = None, timeout_s: float | None = None
    ) -> EntityRow | None:
        """The newest row of an entity of this aggregate, ahead of the lake; None where it never existed.

        Args:
            entity: an entity of the aggregate; None: the followed one.
            at_least: a position of the aggregate's partition that must be included; None: everything in it now.
            timeout_s: as of `verdict`.
        Returns:
            The row; for a deleted entity it says so (`deleted`).
        Raises:
            InputError: the entity belongs to another aggregate, or as `verdict`.
        """
        return self.row_and_end(entity, at_least=at_least, timeout_s=timeout_s)[0]

    def row_and_end(
        self, entity: Urn | str | None = None, *, at_least: Position | None = None, timeout_s: float | None = None
    ) -> tuple[EntityRow | None, Position]:
        """`row`, with the position up to (not including) which all events are in it."""
        urn = self._own(entity)
        return self._follower.row(self._key, self._tenant, str(urn), at_least, self._limit(timeout_s))

    def facts_and_end(
        self,
        at_least: Position | None = None,
        timeout_s: float | None = None,
        *,
        tables: Collection[str] | None = None,
    ) -> AggregateRows:
        """The rows that the aggregate's newest events made in other tables than `entities`, ahead of the lake.

        A look at the lake that is taken afterwards holds everything below `begin`, unless that was raised: of tables
        that no rule reads at most 50,000 rows are kept, those of the newest events.

        Args:
            at_least: as of `row`.
            timeout_s: as of `verdict`.
            tables: whose rows; None: of all of them. Without a table that no rule reads, `begin` is not raised.
        Raises:
            MetajournalError: as `verdict`.
        """
        self._check_open()
        return self._follower.facts(self._key, tables, at_least, self._limit(timeout_s))

    def close(self) -> None:
        """Stop following; further calls do nothing."""
        if not self._closed:
            self._closed = True
            if self._follower not in _of_parent:  # whose lock a thread of the parent's may have held
                self._follower.release(self._key)

    def _own(self, entity: Urn | str | None) -> Urn:
        """An entity of the followed aggregate; None: the followed one. Raises: InputError: it is none, or closed."""
        self._check_open()
        urn = self._entity if entity is None else Urn.parse(entity)
        if urn.aggregate != self._entity.aggregate:
            raise InputError(
                f"{urn} does not belong to the followed aggregate {self._entity.aggregate}.",
                hint="Follow it separately: journal.follow(entity).",
            )
        return urn

    def _limit(self, timeout_s: float | None) -> float:
        check_number("timeout_s", timeout_s)
        return self._settings.client.outcome_timeout_s if timeout_s is None else timeout_s

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("This follower is closed.", code="closed", hint="Follow again: journal.follow().")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


def place_of(settings: Settings, epochs: Epochs, entity: Urn, key: bytes) -> tuple[str, int]:
    """The journal topic and partition of a key. Raises: UnservedDomainError, or TopicMismatchError: it is refused."""
    topic = settings.journal.topics.journal(entity.domain)
    if topic not in epochs:
        raise epochs.not_served(entity.domain, str(entity))
    return topic, partition_of(key, epochs[topic].partitions)


def is_running(settings: Settings, topic: str, partition: int) -> bool:
    """Whether this process follows a journal partition."""
    with _lock:
        return any(follower.running and _is_of(follower, settings, topic, partition) for follower in _made)


def end_unused(settings: Settings) -> None:
    """End the followers of an installation that nobody holds any more."""
    with _lock:
        unused = [follower for follower in _made if follower.settings == settings and not follower.followed]
        _made[:] = [follower for follower in _made if follower not in unused]
    for follower in unused:
        follower.stop()
    for follower in unused:
        follower.close()


def _shared(settings: Settings, epochs: Epochs, topic: str, partition: int) -> Follower:
    """The follower of a partition: the one that there is, or a new one.

    Raises:
        MissingExtraError: the packages of the extra `lake` are not installed.
    """
    try:
        from .follower import Follower
        from .journal_reader import JournalReader
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LAKE_PACKAGES:
            raise
        missing = MissingExtraError("lake", "Following an aggregate")
        missing.advise(f"Wait for the outcome instead: receipt.outcome(). Or {missing.hint}.")
        raise missing from error
    with _lock:
        for follower in _made:
            if _is_of(follower, settings, topic, partition):
                return follower
        shared = (follower.reader for follower in _made if follower.settings == settings)
        made = Follower(settings, epochs, topic, partition, next(shared, None) or JournalReader(settings))
        _made.append(made)
        return made


def _is_of(follower: Follower, settings: Settings, topic: str, partition: int) -> bool:
    return (follower.topic, follower.partition) == (topic, partition) and follower.settings == settings


def _forked() -> None:
    """The threads that follow did not come along, and one of them may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _of_parent.extend(_made)
    _made.clear()


os.register_at_fork(after_in_child=_forked)
