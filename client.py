"""What users hold: the `Journal`, which joins emitting, reading changes, searching and asking the lake.

It does nothing itself: emitting is producers', changes are consumers', search is indexer's, reading is lake's; what is
asked of one domain alone stands in that domain's `client`. The last three are imported when they are first asked for,
so the light client never meets a package that it does not need.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload
from weakref import WeakSet

from .config import load_settings
from .consumers import subscription as subscriptions
from .consumers.filters import SCOPES, Filter, Words
from .consumers.followers import Follow, end_unused
from .consumers.records import Change, State
from .consumers.starts import Since
from .consumers.subscription import COMMIT_INTERVAL_S, Subscription
from .lake_client import WAIT_S, LakeClient, Point, ReadOptions, point
from .outside_client import client_of
from .producers.emitter import Emitter
from .producers.receipts import Receipt
from .producers.topics import Epochs, check_topics, ensure_topics
from .producers.units import Unit, UnitEvent
from .schemas.arguments import Inside, check_number, check_texts, known_arguments
from .schemas.errors import InputError, RenamedError
from .schemas.events.base import Event
from .schemas.positions import Position
from .schemas.settings import Settings
from .schemas.urn import Urn
from .schemas.within import Within

if TYPE_CHECKING:
    from .domains.access.client import AccessClient
    from .domains.files.client import FilesClient
    from .domains.lineage.client import LineageClient
    from .domains.repositories.client import RepositoriesClient
    from .indexer.search.options import Sort
    from .indexer.search.results import Results
    from .indexer.search.searching import Search, Suggestion
    from .tracing import Trace


Record = TypeVar("Record", bound=Change | State)


class Metadata(NamedTuple):
    """What an entity carries in one scope."""

    properties: dict[str, str]
    tags: tuple[str, ...]


class Journal(LakeClient):
    """One installation of metajournal; create it with `Journal.connect`, share it between threads, close it once."""

    def __init__(self, settings: Settings, epochs: Epochs, *, connect_timeout_s: float = 5.0) -> None:
        super().__init__(settings, epochs)
        self._connect_timeout_s = connect_timeout_s
        self._lock = threading.Lock()
        self._emitter: Emitter | None = None
        self._search: Search | None = None
        self._follows: WeakSet[Follow] = WeakSet()
        self._domains: dict[str, Any] = {}

    @classmethod
    def connect(
        cls,
        settings: Settings | None = None,
        *,
        create_topics: bool = False,
        connect_timeout_s: float = 5.0,
        **overrides: Any,
    ) -> Journal:
        """Connect and check that the topics are those of this journal.

        Args:
            settings: all settings; read from files and the environment if None.
            create_topics: create topics that are missing (the first time, without `metajournal up`).
            connect_timeout_s: seconds to wait for a broker.
            overrides: sections of settings that override files and environment, `client={"queue_events": 10}`.
        Raises:
            KafkaUnavailableError: no broker answers in time.
            TopicMismatchError: topics are missing, were recreated or have another configuration.
            ConfigError: a setting is unknown or has a wrong value.
        """
        if settings is None:
            settings = load_settings(overrides).settings
        elif overrides:
            raise InputError("Give settings or overrides, not both.", hint=f"Omit {', '.join(overrides)}.")
        if create_topics:
            ensure_topics(settings, timeout_s=max(connect_timeout_s, 30.0), connect_timeout_s=connect_timeout_s)
        epochs = check_topics(settings, connect_timeout_s=connect_timeout_s)
        return cls(settings, epochs, connect_timeout_s=connect_timeout_s)

    def __enter__(self) -> Journal:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def emit(
        self,
        event: Event,
        *,
        actor: str | None = None,
        event_time: Any = None,
        expected: int | Position | None = None,
        cause: str | None = None,
        tenant: str | None = None,
        event_id: str | None = None,
        repeat: bool = False,
        block_s: float = 0.0,
    ) -> Receipt:
        """Send one event; returns a receipt at once. See `Emitter.emit`."""
        return self.emitter.emit(
            event, actor=actor, event_time=event_time, expected=expected, cause=cause, tenant=tenant,
            event_id=event_id, repeat=repeat, block_s=block_s,
        )  # fmt: skip

    def unit(
        self,
        *,
        actor: str | None = None,
        event_time: Any = None,
        cause: str | None = None,
        tenant: str | None = None,
        unit_id: str | None = None,
        repeat: bool = False,
        block_s: float = 0.0,
    ) -> Unit:
        """Events of several aggregates, written to the journal all or none.

            with journal.unit(actor="alice") as unit:
                unit.emit(EntityRegistered(orders))
                unit.emit(TagsAdded(purchases, ["replaced"]), expected=seen.logical_timestamp)
            unit.outcome()                      # each aggregate's verdict, accepted or rejected separately

        It is committed at the end of the block, after everything that was emitted singly before; an exception in the
        block sends nothing. Errors: as `Unit.commit`.

        Args:
            actor, event_time, cause: defaults for every event; as those of `emit`.
            tenant: the one tenant of all events; `journal.tenant` of the settings if None.
            unit_id: id of a unit that is sent again, with `repeat`; a new one if None.
            repeat: the unit may already be in the journal (after an unknown outcome); every event needs its event_id.
            block_s: seconds to wait for space in the queue when it is full.
        """
        return self.emitter.unit(
            actor=actor, event_time=event_time, cause=cause, tenant=tenant, unit_id=unit_id, repeat=repeat,
            block_s=block_s,
        )  # fmt: skip

    def emit_unit(self, events: Iterable[UnitEvent], **said: Any) -> Unit:
        """A unit from a list, committed.

        Args:
            events: each an event, or one with the arguments of its `Unit.emit` as a mapping.
            said: arguments of `unit`.
        Returns:
            The unit, which has positions and outcomes.
        """
        with self.unit(**said) as unit:
            for unit_event in events:
                event, about = unit_event if isinstance(unit_event, tuple) else (unit_event, {})
                unit.emit(event, **about)
        return unit

    @property
    def emitter(self) -> Emitter:
        """The emitter, made at the first use."""
        if self._emitter is None:
            with self._lock:
                if self._emitter is None:
                    self._check_open()
                    self._emitter = Emitter(self.settings, self.epochs, connect_timeout_s=self._connect_timeout_s)
                    # From now on `journal.emit` is the emitter's own: one call less for every event.
                    vars(self)["emit"] = self._emitter.emit
        return self._emitter

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every event emitted so far is acknowledged. See `Emitter.flush`."""
        if self._emitter is not None:
            self._emitter.flush(timeout_s)

    def settle(self, timeout_s: float) -> int:
        """Wait until no event emitted so far is on its way; how many still are. See `Emitter.settle`."""
        return 0 if self._emitter is None else self._emitter.settle(timeout_s)

    def close(self) -> None:
        """Wait for the acknowledgements and close the connections; further calls do nothing.

        Raises:
            OutcomeUnknownError: events were not acknowledged within the delivery time-out.
        """
        with self._lock:  # nobody makes an emitter from here on
            self._closed = True
        for follow in list(self._follows):
            follow.close()
        end_unused(self.settings)
        if self._search is not None:
            self._search.close()
        if self._emitter is not None:
            self._emitter.close()

    @known_arguments("A subscription")
    def subscribe(
        self, domain: str | None = None, *, since: Since | None = None, group: str | None = None,
        timeout_s: float | None = None, limit: int | None = None, commit_interval_s: float = COMMIT_INTERVAL_S,
        kinds: Words = None, namespace: Words = None, urn: Words = None, scope: Words = None, tenant: Words = None,
        types: Words = None, tags: Words = None, keys: Words = None, touches: str | None = None,
    ) -> Subscription[Change]:  # fmt: skip
        """A subscription to the changes of a domain: an iterator, and a context manager that commits at its end.

        Args:
            domain: a served domain; None: the one whose changes are those of properties and tags (`catalog`).
            since, group, timeout_s, limit, commit_interval_s: see `consumers.subscription.Subscription`.
            kinds, namespace, urn, scope, types, tags, keys, touches: conditions, each one text or several; see
                `consumers.filters.Filter`.
            tenant: whose changes, one or several; `journal.tenant` of the settings where None, every tenant's for "*".
        Raises:
            InputError: a condition or `since` is not valid.
            PositionExpired: changes since then are no longer in the topic.
            KafkaUnavailableError: no broker answers.
        """
        return self._subscribed(
            subscriptions.changes, domain, since=since, group=group, timeout_s=timeout_s, limit=limit,
            commit_interval_s=commit_interval_s, kinds=kinds, namespace=namespace, urn=urn, scope=scope, tenant=tenant,
            types=types, tags=tags, keys=keys, touches=touches,
        )  # fmt: skip

    changes = subscribe
    """Another name for `subscribe`."""

    @known_arguments("A subscription")
    def states(
        self, domain: str | None = None, *, since: Since | None = None, group: str | None = None,
        timeout_s: float | None = None, limit: int | None = None, commit_interval_s: float = COMMIT_INTERVAL_S,
        kinds: Words = None, namespace: Words = None, urn: Words = None, scope: Words = None, tenant: Words = None,
        types: Words = None, tags: Words = None, keys: Words = None, touches: str | None = None,
    ) -> Subscription[State]:  # fmt: skip
        """The current state of every entity, then each new one. Arguments and errors as `subscribe`."""
        return self._subscribed(
            subscriptions.states, domain, since=since, group=group, timeout_s=timeout_s, limit=limit,
            commit_interval_s=commit_interval_s, kinds=kinds, namespace=namespace, urn=urn, scope=scope, tenant=tenant,
            types=types, tags=tags, keys=keys, touches=touches,
        )  # fmt: skip

    def _subscribed(
        self,
        opens: Callable[..., Subscription[Record]],
        domain: str | None,
        *,
        since: Since | None,
        group: str | None,
        timeout_s: float | None,
        limit: int | None,
        commit_interval_s: float,
        tenant: Words,
        **conditions: Any,
    ) -> Subscription[Record]:
        """A subscription, its conditions as one filter."""
        self._check_open()
        numbers = {"timeout_s": timeout_s, "limit": limit, "commit_interval_s": commit_interval_s}
        for name, number in numbers.items():
            check_number(name, number)
        wanted = Filter.of(tenant=tenant or self._tenant(None), **conditions)
        return opens(self.settings, self.epochs, domain, since=since, group=group, wanted=wanted, **numbers)

    @property
    def files(self) -> FilesClient:
        """Archived files: `journal.files.record(…)`, `journal.files.find(…)`. See `FilesClient`."""
        from .domains.files.client import FilesClient

        return FilesClient(self)

    @property
    def lineage(self) -> LineageClient:
        """Which run accessed which data: `journal.lineage.of(…)`, `journal.lineage.runs(…)`. See `LineageClient`."""
        from .domains.lineage.client import LineageClient

        return LineageClient(self)

    @property
    def repositories(self) -> RepositoriesClient:
        """Git-like versions over the metadata of objects: `journal.repositories.create(…)`,
        `journal.repositories["name"].branch("main").write(…)`. See `RepositoriesClient`."""
        from .domains.repositories.client import RepositoriesClient

        return RepositoriesClient(self)

    @property
    def access(self) -> AccessClient:
        """Who may do what through the gateway: `journal.access.grant(…)`, `journal.access.issue_key(…)`. See
        `AccessClient`."""
        from .domains.access.client import AccessClient

        made: AccessClient = self._domains.setdefault(AccessClient.__name__, AccessClient(self))
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises: RenamedError: what the journal had under this name belongs to a domain's object now."""
            for own in (type(self.files), type(self.lineage)):
                if name in own.FORMER:
                    raise RenamedError(f"journal.{name}", f"journal.{own.FORMER[name]}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def domain(self, name: str) -> Any:
        """The client of an external domain, by its name: `journal.domain("toys")`.

        Args:
            name: a domain that this journal serves.
        Returns:
            An object of the class `CLIENT` in the domain's file `client`, created with this journal.
        Raises:
            InputError: the journal does not serve it, or it offers nothing.
            DomainError: its package is not installed here.
        """
        self._check_open()
        made = self._domains.get(name)
        if made is None:
            made = self._domains.setdefault(name, client_of(self.epochs, name)(self))
        return made

    def follow(self, entity: Urn | str, *, tenant: str | None = None) -> Follow:
        """Get the verdicts on an aggregate's events before the stream publishes them; close it when no longer needed.

        It reads all of the aggregate's journal partition, of all tenants, as long as it is used (all callers share one
        reader): for trusted, long-running processes with the extra `lake`. Others wait for `receipt.outcome()`.

        Args:
            entity: the aggregate, or an entity of it.
            tenant: `journal.tenant` of the settings if None.
        Raises:
            MissingExtraError: the packages of the extra `lake` are not installed.
            OtherRulesError: the lake was written under other rules than this process has.
            NotYetVisibleError: the lake is more than 100,000 records behind.
            TopicMismatchError: the journal topic was recreated, or lacks records that follow the lake.
            UnavailableError: there is no lake, or Kafka does not answer.
        """
        self._check_open()
        follow = Follow(self.settings, self.epochs, Urn.parse(entity), tenant or self.settings.journal.tenant)
        self._follows.add(follow)
        return follow

    @known_arguments("A search")
    def search(
        self, query: str = "", *, namespace: str | None = None, kinds: Collection[str] | str | None = None,
        scope: str | None = None, tenant: str | None = None, at_least: Inside | None = None, timeout_s: float = 10.0,
        limit: int = 20, cursor: str | None = None, sort: Sort = "relevance", facets: bool = False,
        paging: bool = True, within: Collection[Within] | None = None,
    ) -> Results:  # fmt: skip
        """Find entities by words, tags, properties and schemas. See `indexer.search.searching.Search.search`."""
        check_texts("kinds", kinds)
        return self._searching.search(
            query, namespace=namespace, kinds=kinds, scope=scope, tenant=tenant, at_least=at_least,
            timeout_s=timeout_s, limit=limit, cursor=cursor, sort=sort, facets=facets, paging=paging, within=within,
        )  # fmt: skip

    @known_arguments("A completion")
    def suggest_names(
        self, prefix: str = "", *, tenant: str | None = None, limit: int = 10, timeout_s: float = 10.0,
        after: str | None = None, within: Collection[Within] | None = None, at_least: Inside | None = None,
    ) -> list[Suggestion]:  # fmt: skip
        """Names that begin with a text, and how many entities have each.

        See `indexer.search.searching.Search.suggest_names`.
        """
        return self._searching.suggest_names(
            prefix, tenant=tenant, limit=limit, timeout_s=timeout_s, after=after, within=within, at_least=at_least
        )

    @known_arguments("A completion")
    def suggest_keys(
        self, prefix: str = "", *, scope: str | None = None, tenant: str | None = None, limit: int = 10,
        timeout_s: float = 10.0, after: str | None = None, within: Collection[Within] | None = None,
        at_least: Inside | None = None,
    ) -> list[Suggestion]:  # fmt: skip
        """Metadata keys that begin with a text; `search("properties:KEY")` finds the entities that have one. Arguments
        as of `indexer.search.searching.Search.suggest_keys`."""
        return self._searching.suggest_keys(
            prefix, scope=scope, tenant=tenant, limit=limit, timeout_s=timeout_s, after=after, within=within,
            at_least=at_least,
        )  # fmt: skip

    @property
    def _searching(self) -> Search:
        """What searches, made at the first use; refuses by itself once the journal is closed."""
        if self._search is None:
            from .indexer.search.searching import Search

            with self._lock:
                if self._search is None:
                    self._search = Search(self.settings)
                    if self._closed:
                        self._search.close()
        return self._search

    def why(self, event: str | Position, *, timeout_s: float = 5.0) -> Trace:
        """Where an event is and what became of it: position, outcome, the rows that it produced, and the index.

        Args:
            event: its id, as in receipts, tables and change records, or its position or the position's text.
            timeout_s: seconds to search for it in Kafka, if it is not folded yet.
        Raises:
            UnknownEventError: the journal has no such event.
            InputError: the text is neither, or is a position of another journal.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        from .tracing import trace

        return self.lake.of_all_tables(
            lambda view: trace(self.settings, lambda: self.epochs, view, event, timeout_s=timeout_s)
        )

    @overload
    def metadata(
        self, entity: Urn | str, scope: None = None, *, as_at: Point | None = None, as_of: Any = None,
        tenant: str | None = None, at_least: Inside | None = None, timeout_s: float = WAIT_S,
    ) -> Mapping[str, Metadata]: ...  # fmt: skip

    @overload
    def metadata(
        self, entity: Urn | str, scope: str, *, as_at: Point | None = None, as_of: Any = None,
        tenant: str | None = None, at_least: Inside | None = None, timeout_s: float = WAIT_S,
    ) -> Metadata: ...  # fmt: skip

    @known_arguments("A question")
    def metadata(
        self, entity: Urn | str, scope: str | None = None, *, as_at: Point | None = None, as_of: Any = None,
        tenant: str | None = None, at_least: Inside | None = None, timeout_s: float = WAIT_S,
    ) -> Mapping[str, Metadata] | Metadata:  # fmt: skip
        """Both scopes of an entity separately, `{"USER": ..., "SYSTEM": ...}`, or its metadata in the given one.

        SYSTEM of a dataset or stream also includes the latest write known to lineage, computed now: `latest_write_time`
        (milliseconds), and `latest_write_program` or, for an external writer, `latest_write_source`.

        Args:
            scope: "USER", "SYSTEM", or "BOTH" for the two together: tags of either, and for a key in both the value of
                USER; None: both separately.
            as_at, as_of, tenant, at_least, timeout_s: as for `show`, and its errors.
        Raises:
            InputError: there is no such scope.
        """
        if scope not in (None, "BOTH", *SCOPES):
            raise InputError(f"The scope must be USER, SYSTEM or BOTH, not {scope!r}.", code="no-such-scope")
        asked = ReadOptions(as_at=point(as_at), as_of=as_of, tenant=tenant, at_least=at_least, timeout_s=timeout_s)
        row = self.show(entity, **asked)
        user = Metadata(dict(row.user_properties), tuple(row.user_tags))
        if scope == "USER":
            return user
        from .domains.lineage.client import written_properties

        written = written_properties(self, Urn.parse(entity), asked)
        system = Metadata({**row.system_properties, **written}, tuple(row.system_tags))
        if scope == "SYSTEM":
            return system
        return {"USER": user, "SYSTEM": system} if scope is None else _together(user, system)

    @known_arguments("A question")
    def properties(
        self, entity: Urn | str, scope: str = "BOTH", *, as_at: Point | None = None, as_of: Any = None,
        tenant: str | None = None, at_least: Inside | None = None, timeout_s: float = WAIT_S,
    ) -> dict[str, str]:  # fmt: skip
        """Properties of an entity in a scope; in BOTH, a key of USER hides the same key of SYSTEM. As `metadata`."""
        return self.metadata(
            entity, scope, as_at=as_at, as_of=as_of, tenant=tenant, at_least=at_least, timeout_s=timeout_s
        ).properties

    @known_arguments("A question")
    def tags(
        self, entity: Urn | str, scope: str = "BOTH", *, as_at: Point | None = None, as_of: Any = None,
        tenant: str | None = None, at_least: Inside | None = None, timeout_s: float = WAIT_S,
    ) -> tuple[str, ...]:  # fmt: skip
        """Tags of an entity in a scope, sorted, each once. Arguments and errors as `metadata`."""
        return self.metadata(
            entity, scope, as_at=as_at, as_of=as_of, tenant=tenant, at_least=at_least, timeout_s=timeout_s
        ).tags


def _together(user: Metadata, system: Metadata) -> Metadata:
    """What an entity carries in either scope; a key of USER hides the same one of SYSTEM."""
    return Metadata(system.properties | user.properties, tuple(sorted({*user.tags, *system.tags})))
