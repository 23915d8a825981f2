"""What a `Journal` asks the lake about entities: now, and at a point of the journal.

The lake's packages are imported when it is first asked, so the light client never meets one that it does not need.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypedDict, TypeVar, Unpack

from .consumers.followers import LAKE_PACKAGES, Follow, is_running, place_of
from .consumers.lake_waits import LakeWaits
from .producers.recorded.epochs import domain_of
from .producers.topics import Epochs
from .producers.waiting.futures import AwaitableFuture
from .rules.entity import EntityRow
from .schemas.arguments import Inside, check_number, check_whole, marks_of, point_of, time_of
from .schemas.errors import InputError, MissingExtraError, OperatorError, UnavailableError, UnknownEntityError
from .schemas.hashing import record_key
from .schemas.positions import Cut, Position
from .schemas.settings import Settings
from .schemas.urn import Urn

if TYPE_CHECKING:
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

    @property
    def show(self) -> Callable[..., EntityRow]:
        """`Journal.show`."""

    def domain(self, name: str) -> Any:
        """`Journal.domain`."""

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

    def show(self, entity: Urn | str, **asked: Unpack[ReadOptions]) -> EntityRow:
        """An entity's row: now, or as the journal told it at a position or time.

        Args:
            entity: its URN.
            as_at: as the journal told it then: a Position or a receipt (that event included), several of these, a cut
                {(topic, partition): next position}, or a time: an aware datetime, milliseconds UTC, text (ISO 8601, or
                a number: milliseconds above 1e11, seconds otherwise); None: now. Where the positions are of other
                partitions than the entity's, that stands at the latest of their times.
            as_of: as it was at this time, whenever that was told; a time as of `as_at`. Its accepted events up to then
                are folded in the order of their event times. With `as_at`: what was known at one time about another.
            tenant: `journal.tenant` of the settings where None.
            at_least: what the answer must know: as `as_at`, but for times.
            timeout_s: seconds to wait for that.
        Raises:
            UnknownEntityError: it does not exist (then).
            TopicMismatchError: its domain is refused, and `as_at` or `at_least` asks for what only the journal knows.
            NotFinalError: the lake has not reached that position, or the time is still to come.
            NotYetVisibleError: the lake did not hold `at_least` in time; `behind` says how much it lacks.
            InputError: `as_at`, `as_of` or `at_least` is nothing of these.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        row = self.answer(entity, **asked).row
        assert row is not None  # an entity that is not there is an UnknownEntityError
        return row

    def answer(
        self, entity: Urn | str, *, as_at: Point | None = None, as_of: Any = None, tenant: str | None = None,
        at_least: Inside | None = None, timeout_s: float = WAIT_S,
    ) -> Answer:  # fmt: skip
        """What `show` shows, with how far the lake is and whether an event still to come could change it."""
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
            limit: so many of the newest; None: all.
            before: only rows below this logical timestamp; that of a page's first row gives the page before it.
            as_of: the rows that its events up to this time make, in the order of event times (see `show`); `before`
                is then the place of the row with that logical timestamp.
            tenant, at_least, timeout_s: as of `show`.
        Raises:
            InputError: `limit` is no whole number from 1 on, or `before` none from 0 on; and as `show`.
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
        """Wait until the lake holds an event, so that every question asked of it from now on knows it.

        An outcome is told just before the lake holds it: who asks at once waits here, or gives `at_least` to `show`.

        Args:
            at_least: its position or receipt, several of these, or a cut of next positions.
            timeout_s: seconds to wait.
        Raises:
            NotYetVisibleError: the lake did not get there in time; `behind` says how much it lacks.
            InputError: `at_least` or `timeout_s` is nothing of these, or of another journal.
            MissingExtraError: as `show`.
        """
        self._wait(at_least, timeout_s)

    def wait_future(self, at_least: Inside, *, timeout_s: float = WAIT_S) -> AwaitableFuture[None]:
        """`wait`, without a thread that waits: a future that is awaited, or calls back (`add_done_callback`).

            await journal.wait_future(receipt.position)
            journal.show(orders)                        # knows it

        Raises:
            InputError: as `wait`, or the journal is closed; all else comes with the future.
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

        A search finds what is there now, for the index has no past: what is not there any more is not found, and what
        was not there yet is None here.

        Args:
            hits: hits of a search, or URNs.
            as_at, tenant: as of `show`.
        Raises:
            NotFinalError, InputError, MissingExtraError: as `show`.
        """
        answers: list[Answer | None] = []
        earlier = point(as_at)
        for hit in hits:
            try:
                answers.append(self.answer(hit if isinstance(hit, str) else hit.urn, as_at=earlier, tenant=tenant))
            except UnknownEntityError:
                answers.append(None)
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
        return LakeReader(lake, self.settings.journal.topics, partitions, firsts=firsts)


def point(as_at: Point | None) -> Cut | int | None:
    """What `as_at` says, as the lake takes it; once more it stays as it is."""
    return None if as_at is None else point_of("as_at", as_at)
