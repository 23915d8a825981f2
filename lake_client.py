"""What a `Journal` asks the lake about entities: now, and at a point of the journal.

The lake's packages are imported when it is first asked, so the light client never meets one that it does not need.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypedDict, TypeVar

from .consumers.followers import LAKE_PACKAGES, Follow, is_running, place_of
from .consumers.lake_waits import LakeWaits
from .producers.recorded.epochs import domain_of
from .producers.topics import Epochs
from .producers.waiting.futures import AwaitableFuture
from .rules.entity import EntityRow
from .schemas.arguments import Inside, check_number, check_whole, known_arguments, marks_of, point_of, time_of
from .schemas.errors import InputError, MissingExtraError, OperatorError, UnavailableError, UnknownEntityError
from .schemas.hashing import record_key
from .schemas.positions import Cut, Position
from .schemas.settings import Settings
from .schemas.urn import Urn

if TYPE_CHECKING:
    from .consumers.records import Change
    from .consumers.subscription import Subscription
    from .indexer.search.results import Hit
    from .lake.reading import Answer, LakeReader
    from .producers.emitter import Emitter
    from .producers.receipts import Receipt

Point: TypeAlias = "Inside | datetime | int | str"
"""A point of the journal: a position or what has one (that event included), several of these, a cut of next positions,
or a time (milliseconds, an aware datetime, text)."""
Reader = TypeVar("Reader")
WAIT_S = 10.0
"""Seconds to wait for the lake to hold an event."""


class ReadOptions(TypedDict, total=False):
    """Arguments of `answer`, and of those that ask it."""

    as_at: Point | None
    as_of: Any
    tenant: str | None
    at_least: Inside | None
    timeout_s: float


class ConnectedJournal(Protocol):
    """A connected journal, as the domains' objects and commands hold it; what users hold is `client.Journal`."""

    settings: Settings
    epochs: Epochs

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def emitter(self) -> Emitter:
        """What sends its events."""

    @property
    def emit(self) -> Callable[..., Receipt]:
        """`Journal.emit`."""

    def flush(self, timeout_s: float | None = None) -> None:
        """`Journal.flush`."""

    def settle(self, timeout_s: float) -> int:
        """`Journal.settle`."""

    @property
    def subscribe(self) -> Callable[..., Subscription[Change]]:
        """`Journal.subscribe`."""

    @property
    def show(self) -> Callable[..., EntityRow]:
        """`Journal.show`."""

    def domain(self, name: str) -> Any:
        """`Journal.domain`."""

    def follow(self, entity: Urn | str, *, tenant: str | None = None) -> Follow:
        """`Journal.follow`."""

    def wait(self, at_least: Inside, *, timeout_s: float = WAIT_S) -> None:
        """`Journal.wait`."""

    def opened(self, name: str, opens: Callable[[LakeReader], Reader]) -> Reader:
        """`LakeClient.opened`."""


class Handles:
    """The readers of the lake, which all threads share: each question takes one frozen view (`lake.views`)."""

    lake: LakeReader | None = None
    own: dict[str, Any]
    """Those of the domains' questions, by their names."""

    def __init__(self) -> None:
        self.own = {}
        self.lock = threading.Lock()


class LakeClient:
    """Questions about entities; several threads may share it.

    Args:
        settings: where the lake is.
        epochs: the journal topics as `check_topics` found them.
    """

    def __init__(self, settings: Settings, epochs: Epochs) -> None:
        self.settings = settings
        self.epochs = epochs
        self._handles = Handles()
        self._waits = LakeWaits(lambda: self.lake)
        self._closed = False

    def _check_open(self) -> None:
        """Raises: InputError: the journal is closed."""
        if self._closed:
            raise InputError("The journal is closed.", code="closed", hint="Connect again: Journal.connect().")

    @known_arguments("A question")
    def show(
        self, entity: Urn | str, *, as_at: Point | None = None, as_of: Any = None, tenant: str | None = None,
        at_least: Inside | None = None, timeout_s: float = WAIT_S,
    ) -> EntityRow:  # fmt: skip
        """An entity's row: now, or as recorded in the journal at a position or time.

        Args:
            entity: its URN.
            as_at: what the journal had recorded by then: a Position or a receipt (that event included), several of
                these, a cut {(topic, partition): next position}, or a time: an aware datetime, milliseconds UTC, text
                (ISO 8601, or a number: milliseconds above 1e11, seconds otherwise); None: now. If the positions are in
                other partitions than the entity's, its partition is read up to the latest of their times.
            as_of: what was true at this time, whenever it was recorded; a time as for `as_at`. Its accepted events up
                to then are folded in the order of their event times. With `as_at`: what was known at one time about
                another.
            tenant: `journal.tenant` of the settings if None.
            at_least: what the answer must include: as `as_at`, except times.
            timeout_s: seconds to wait for that.
        Raises:
            UnknownEntityError: it does not exist (then).
            TopicMismatchError: its domain is refused, and `as_at` or `at_least` needs the journal topics.
            NotFinalError: the lake has not reached that position, or the time is in the future.
            NotYetVisibleError: the lake did not contain `at_least` in time; `behind` says how much is missing.
            InputError: `as_at`, `as_of` or `at_least` has a wrong type.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        row = self.answer(entity, as_at=as_at, as_of=as_of, tenant=tenant, at_least=at_least, timeout_s=timeout_s).row
        assert row is not None  # an entity that is not there is an UnknownEntityError
        return row

    def answer(
        self, entity: Urn | str, *, as_at: Point | None = None, as_of: Any = None, tenant: str | None = None,
        at_least: Inside | None = None, timeout_s: float = WAIT_S,
    ) -> Answer:  # fmt: skip
        """What `show` returns, with how far the lake is and whether events that arrive later could change it."""
        urn, asked_point = Urn.parse(entity), point(as_at)
        self._require_followed(urn.domain if asked_point is not None or at_least is not None else None)
        who = self._tenant(tenant)
        check_number("timeout_s", timeout_s)
        until = time.monotonic() + timeout_s
        ahead = self._ahead(who, urn, at_least, timeout_s) if asked_point is None and as_of is None else None
        if ahead is not None:
            return self.lake.live(ahead)
        self._wait(at_least, max(0.0, until - time.monotonic()))
        if as_of is not None:
            return self.lake.as_of(who, urn, time_of("as_of", as_of), asked_point)
        return self.lake.current(who, urn) if asked_point is None else self.lake.as_at(who, urn, asked_point)

    def _ahead(self, tenant: str, urn: Urn, at_least: Inside | None, timeout_s: float) -> Answer | None:
        """The answer of this process's follower of an entity's partition, where one runs and that is what is asked
        for; None where the lake has to answer."""
        if at_least is None or self._closed:
            return None
        wanted = marks_of("at_least", at_least)
        place = place_of(self.settings, self.epochs, urn, record_key(tenant, str(urn.aggregate)))
        if {*wanted} != {place} or not is_running(self.settings, *place):
            return None
        from .lake.reading import Answer

        try:
            with Follow(self.settings, self.epochs, urn, tenant) as follow:
                row, end = follow.row_and_end(at_least=Position(*place, wanted[place] - 1), timeout_s=timeout_s)
        except (OperatorError, UnavailableError):
            return None
        return Answer(urn, row, end, final=False)

    def history(
        self, entity: Urn | str, *, limit: int | None = None, before: int | None = None, as_of: Any = None,
        tenant: str | None = None, at_least: Inside | None = None, timeout_s: float = WAIT_S,
    ) -> list[EntityRow]:  # fmt: skip
        """Rows of an entity, oldest first: all, or page by page from the newest back.

        Args:
            limit: at most this many of the newest; None: all.
            before: only rows below this logical timestamp; that of a page's first row gives the page before it.
            as_of: the rows that its events up to this time produce, in the order of event times (see `show`); `before`
                then refers to the position of that row in this order.
            tenant, at_least, timeout_s: as of `show`.
        Raises:
            InputError: `limit` is not a whole number of at least 1, or `before` not one of at least 0; and as `show`.
        """
        urn = Urn.parse(entity)
        check_whole("limit", limit, 1)
        check_whole("before", before, 0)
        self._wait(at_least, timeout_s)
        who = self._tenant(tenant)
        if as_of is not None:
            return self.lake.history_as_of(who, urn, time_of("as_of", as_of), limit=limit, before=before)
        return self.lake.history(who, urn, limit=limit, before=before)

    def wait(self, at_least: Inside, *, timeout_s: float = WAIT_S) -> None:
        """Wait until the lake contains an event, so that every later query sees it.

        An outcome is published just before the lake contains the event: to query at once, wait here, or pass
        `at_least` to `show`.

        Args:
            at_least: its position or receipt, several of these, or a cut of next positions.
            timeout_s: seconds to wait.
        Raises:
            NotYetVisibleError: the lake did not reach it in time; `behind` says how much is missing.
            InputError: `at_least` or `timeout_s` has a wrong type, or belongs to another journal.
            MissingExtraError: as `show`.
        """
        self._wait(at_least, timeout_s)

    def wait_future(self, at_least: Inside, *, timeout_s: float = WAIT_S) -> AwaitableFuture[None]:
        """`wait` as a future, without blocking a thread: it can be awaited, or calls back (`add_done_callback`).

            await journal.wait_future(receipt.position)
            journal.show(orders)                        # knows it

        Raises:
            InputError: as `wait`, or the journal is closed; other errors come with the future.
        """
        check_number("timeout_s", timeout_s)
        return self._waits.add(marks_of("at_least", at_least), timeout_s)

    def _require_followed(self, domain: str | None) -> None:
        """Refuse what only a domain that is folded can answer for good. Raises: TopicMismatchError: it is refused."""
        if domain is not None and (refusal := self.epochs.refusals.get(domain)) is not None:
            raise refusal

    def _wait(self, at_least: Inside | None, timeout_s: float) -> None:
        check_number("timeout_s", timeout_s)
        if at_least is not None:
            marks = marks_of("at_least", at_least)
            for topic, _ in marks:
                self._require_followed(domain_of(topic))
            self.lake.wait(marks, timeout_s)

    def then(self, hits: Iterable[Hit | Urn | str], as_at: Point, *, tenant: str | None = None) -> list[Answer | None]:
        """What entities looked like at an earlier point, read from the lake: each hit of a search, in its place.

        A search finds what exists now, since the index has no history: what no longer exists is not found, and what
        did not exist yet is None here, or an answer without a row where an event that arrives later can change that.

        Args:
            hits: hits of a search, or URNs.
            as_at, tenant: as of `show`.
        Raises:
            NotFinalError, InputError, MissingExtraError: as `show`.
        """
        answers: list[Answer | None] = []
        earlier = point(as_at)
        for hit in hits:
            urn = hit if isinstance(hit, str) else hit.urn
            try:
                answers.append(self.answer(urn, as_at=earlier, tenant=tenant))
            except UnknownEntityError as error:
                final = error.data.get("final", True)
                answers.append(None if final else _absent(Urn.parse(urn), Position.parse(error.data["held_to"])))
        return answers

    def opened(self, name: str, opens: Callable[[LakeReader], Reader]) -> Reader:
        """What a domain's questions read the lake with, opened once for all threads.

        Args:
            name: the domain's.
            opens: makes it beside a reader of the lake.
        Raises:
            MissingExtraError, InputError: as `lake`.
        """
        lake, own = self.lake, self._handles.own
        if name not in own:
            own[name] = opens(lake)
        reader: Reader = own[name]
        return reader

    def _tenant(self, tenant: str | None) -> str:
        return tenant or self.settings.journal.tenant

    @property
    def lake(self) -> LakeReader:
        """The lake's reader. Raises: MissingExtraError: the packages of the extra `lake` are not installed."""
        self._check_open()
        if self._handles.lake is None:
            with self._handles.lock:
                if self._handles.lake is None:
                    self._handles.lake = self._reader()
        return self._handles.lake

    def _reader(self) -> LakeReader:
        try:
            from .lake.reading import LakeReader
            from .lake.tables import Lake
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in LAKE_PACKAGES:
                raise
            raise MissingExtraError("lake", "Reading the lake") from error
        where = self.settings.lake
        topics = self.epochs.topics
        firsts = {topic: first for topic in topics if (first := self.epochs.first(topic))}
        lake = Lake(where.path, where.storage_options)
        partitions = {topic: epoch.partitions for topic, epoch in topics.items()}
        own = self.settings.client
        return LakeReader(
            lake, self.settings.journal.topics, partitions, firsts=firsts, kept_bytes=own.kept_bytes,
            short_cursors=own.short_cursors,
        )  # fmt: skip


def _absent(urn: Urn, held_to: Position) -> Answer:
    """What is known of an entity that did not exist at a point, where an event that arrives later may change that."""
    from .lake.reading import Answer

    return Answer(urn, None, held_to, final=False)


def point(as_at: Point | None) -> Cut | int | None:
    """What `as_at` says, as the lake takes it; once more it stays as it is."""
    return None if as_at is None else point_of("as_at", as_at)
