"""A new index from the lake beside the one that searches use, and then in its place.

1. note where the state topics end, then how far the lake is (in this order: the lake holds whatever is published);
2. index the newest row of every entity, page by page;
3. let an indexer of the new index's own read the state topics from there on, until it shows what the old one shows;
4. compare the new index with the lake, document by document;
5. have the indexer of the old index stand back (its positions name the new index), so that what it shows stands still;
6. once the new one shows as much, swap the alias in one step; the indexers go on from the new index's own positions.

Invariants: searches use one whole index or the other, never show less than before, and every document that was written
to the old one alone stands in the state topics above the offsets that the new one holds. Killed anywhere, the next
rebuild goes on where this one stood.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException
from elasticsearch import ApiError, Elasticsearch

from ...producers.kafka import ErrorLog, make_consumer
from ...schemas.errors import KafkaUnavailableError, OperatorError
from ...schemas.positions import behind
from ...schemas.settings import Settings
from ..connection import make_client
from ..mapping import REBUILD_ID, concrete_name, index_body, is_concrete, mapping_digest, own_alias
from ..shown import Shown, read_shown, write_shown
from ..waiting import Deadline
from .bulk import BulkWriter
from .compare import Comparison, compare_index
from .flights import Flights
from .intake import Intake
from .lake_states import Key, LakeStates
from .lease import Begun, Lease, RebuildRunningError, read_begun, require_idle
from .patience import Patience
from .runner import Indexer
from .serving import domains_of
from .stages import Pace, Stage
from .swap import Swap, known, live_index, too_slow

_ANSWER_S: Final = 10.0
_TRIES: Final = 5


class RebuildDiffersError(OperatorError):
    """The new index differs from the lake; the old one stays in use."""

    CODE = "rebuild-differs"
    HINT = "Run the rebuild again, which starts over; if documents differ again, report the named ones as a bug."


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild did.

    Args:
        index: the index that searches use now.
        old: the one before; None where there was none.
        kept: whether the old one is still there.
        resumed: whether an unfinished rebuild was continued.
        thrown_away: unfinished indexes that could not be continued.
        documents: entities taken from the lake.
        compared: entities compared with the lake before the swap.
        took_s: seconds.
    """

    index: str
    old: str | None
    kept: bool
    resumed: bool
    thrown_away: tuple[str, ...]
    documents: int
    compared: int
    took_s: float


def rebuild_index(
    settings: Settings,
    *,
    keep_old: bool = False,
    tell: Callable[[Stage], None] = lambda stage: None,
    say: Callable[[str], None] = lambda text: None,
    stop: threading.Event | None = None,
) -> Rebuilt:
    """Build a new index from the lake and put it in the place of the one that searches use.

    Args:
        keep_old: leave the old index where it is, without the alias.
        tell: told how far the rebuild is, some times a second.
        say: told what is waited for, and "" when it is over.
        stop: ends it between two pages, and before the swap; the next rebuild goes on.
    Raises:
        Stopped: `stop` was set.
        RebuildRunningError: another rebuild is at work.
        RebuildDiffersError: the new index differs from the lake.
        MappingMismatchError: the alias belongs to an index that is not metajournal's.
        AliasReplacedError: an index has the alias's name.
        UnavailableError: there is no lake, or the new index cannot catch up.
    """
    client = make_client(settings, timeout_s=60.0)
    try:
        return _Rebuild(settings, client, keep_old, tell, say, stop or threading.Event()).run()
    finally:
        client.close()


class _Rebuild:
    def __init__(
        self,
        settings: Settings,
        client: Elasticsearch,
        keep_old: bool,
        tell: Callable[[Stage], None],
        say: Callable[[str], None],
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._client = client
        self._keep_old = keep_old
        self._tell = tell
        self._alias = settings.elasticsearch.index
        self._patience = Patience(stop, say)
        self._began_s = time.monotonic()
        self._thrown_away: list[str] = []
        self._compared = 0

    def run(self) -> Rebuilt:
        LakeStates(self._settings)  # without a lake, nobody need wait for a service
        self._require_services()
        lake = LakeStates(self._settings, domains=domains_of(self._settings))
        live = self._call("look at its index", lambda: live_index(self._client, self._alias))
        lease, name, resumed = self._call("begin", lambda: self._begin(live, lake))
        try:
            if lease.begun.phase == "load":
                self._load(lake, name, lease)
            if lease.begun.phase == "catch-up":
                self._replace(name, lease)
            self._clean_up(name, lease)
        finally:
            lease.end()
        old, took_s = lease.begun.old or None, round(time.monotonic() - self._began_s, 3)
        kept = self._keep_old and old is not None
        thrown_away = tuple(self._thrown_away)
        return Rebuilt(name, old, kept, resumed, thrown_away, lease.begun.done, self._compared, took_s)

    def _require_services(self) -> None:
        """Both answer now; from here on an outage is waited for.

        Raises:
            SearchUnavailableError, KafkaUnavailableError: one does not.
        """
        url = self._settings.elasticsearch.url
        Deadline(self._client, url, _ANSWER_S).ask(lambda client: client.indices.exists_alias(name=self._alias))
        consumer = make_consumer(self._settings, ErrorLog(), role="rebuild")
        try:
            consumer.list_topics(timeout=_ANSWER_S)
        except KafkaException as error:
            raise KafkaUnavailableError(f"Kafka does not answer: {error.args[0].str()}.") from error
        finally:
            consumer.close()

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        return self._patience.call(what, call)

    # --- where to begin

    def _begin(self, live: str | None, lake: LakeStates) -> tuple[Lease, str, bool]:
        """A lease on an unfinished index that can be continued, or else on a new one."""
        indices = sorted(self._client.indices.get(index=f"{self._alias}-*", features="mappings").body.items())
        numbers = [int(name.removeprefix(f"{self._alias}-")) for name, _ in indices if is_concrete(name, self._alias)]
        for name, index in indices:
            if not is_concrete(name, self._alias) or (name != live and not _is_rebuild(index)):
                continue
            begun = read_begun(self._client, name)
            if begun is None:
                if name != live and read_shown(self._client, name).token is None:
                    self._throw_away(name)  # killed before its first word
                continue
            token = require_idle(self._client, name)
            if name == live and begun[0].phase in ("load", "failed"):
                self._give_up(name)
                continue
            can_go_on = begun[0].phase in ("load", "catch-up") and _is_current(index)
            if name == live or (can_go_on and not self._is_outrun(begun[0], lake)):
                state = replace(begun[0], phase="swapped") if name == live else begun[0]
                return Lease(self._client, name, state, token), name, True
            self._throw_away(name)
        name = concrete_name(self._alias, max(numbers, default=0) + 1)
        return self._new(name), name, False

    def _throw_away(self, name: str) -> None:
        self._client.options(ignore_status=404).indices.delete(index=name)
        self._thrown_away.append(name)

    def _is_outrun(self, begun: Begun, lake: LakeStates) -> bool:
        """Whether searches see more of a domain that is refused now: no topic brings that, another look at the lake
        does."""
        lacking = behind(begun.vector, known(self._client, self._alias))
        return bool(begun.offsets) and not all(lake.is_read(topic) for topic, _ in lacking)

    def _give_up(self, name: str) -> None:
        """Leave an index to its indexer, which took it before it was filled: another one is rebuilt."""
        self._client.options(ignore_status=404).delete(index=name, id=REBUILD_ID, refresh=True)

    def _new(self, name: str) -> Lease:
        body = index_body()
        body["mappings"]["_meta"]["metajournal"]["rebuild"] = True
        try:
            self._client.indices.create(index=name, aliases={own_alias(name): {}}, **body)
        except ApiError as error:
            if error.error != "resource_already_exists_exception":
                raise
            raise RebuildRunningError(f"Another rebuild has just created {name}.", index=name) from error
        return Lease(self._client, name, Begun(), None)

    # --- from the lake

    def _load(self, lake: LakeStates, name: str, lease: Lease) -> None:
        begun = lease.begun
        if not begun.offsets:
            offsets = self._ends()
            shown = known(self._client, self._alias)
            lease.begun = begun = replace(begun, offsets=offsets, vector={**lake.kept(shown), **lake.marks(shown)})
            lease.tell()
        wanted = self._settings.indexer
        writer = BulkWriter(self._client, own_alias(name), self._patience, wanted.bulk_documents, wanted.bulk_bytes)
        flights, pace = Flights(writer), Pace("load", begun.done, lake.about(), self._tell)
        try:
            for last, states in lake.pages(Key(*begun.after) if begun.after else None):
                flights.send(states)
                flights.then(partial(self._loaded, lease, last, len(states)))
                flights.land(1)
                lease.check()
                self._patience.go_on()
                pace.reached(lease.begun.done)
            flights.land()
            pace.reached(lease.begun.done, lease.begun.done)
        finally:
            flights.close()
        self._call("refresh", lambda: self._client.indices.refresh(index=name))
        self._call("store its positions", lambda: self._store_first(name, begun))
        lease.begun = replace(lease.begun, phase="catch-up")
        lease.tell()

    def _ends(self) -> dict[tuple[str, int], int]:
        intake = Intake(self._settings, self._patience, 1, domains=domains_of(self._settings))
        try:
            return intake.ends()
        finally:
            intake.close()

    @staticmethod
    def _loaded(lease: Lease, last: Key, count: int) -> None:
        lease.begun = replace(lease.begun, after=[*last], done=lease.begun.done + count)

    def _store_first(self, name: str, begun: Begun) -> None:
        if read_shown(self._client, name).token is None:
            write_shown(self._client, own_alias(name), begun.vector, begun.offsets, Shown())

    # --- in the place of the old one

    def _replace(self, name: str, lease: Lease) -> None:
        with self._indexing(name) as failed:
            swap = Swap(self._client, self._alias, name, lease, self._patience, failed, self._tell)
            swap.catch_up()
            self._compare(name, lease)
            for _ in range(_TRIES):
                swap.catch_up()
                self._patience.go_on()
                if swap.swap():
                    return
        raise too_slow(name)

    @contextmanager
    def _indexing(self, name: str) -> Iterator[list[BaseException]]:
        """An indexer of the new index alone; the list gets what it fails of."""
        target = replace(self._settings.elasticsearch, index=own_alias(name))
        own = replace(self._settings, elasticsearch=target, stack=replace(self._settings.stack, home=None))
        stop, failed = threading.Event(), list[BaseException]()

        def run() -> None:
            try:
                Indexer(own).run(stop)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run, name="metajournal-catch-up", daemon=True)
        thread.start()
        try:
            yield failed
        finally:
            stop.set()
            thread.join()

    def _compare(self, name: str, lease: Lease) -> None:
        pace = Pace("compare", 0, 0, self._tell)
        comparison = compare_index(self._settings, index=name, tell=pace.reached)
        self._compared = comparison.compared
        if comparison.count:
            lease.begun = replace(lease.begun, phase="failed")
            lease.tell()
            raise _differs(name, comparison)

    def _clean_up(self, name: str, lease: Lease) -> None:
        old = lease.begun.old
        if old and old != name and not self._keep_old:
            self._call(
                "delete the old index", lambda: self._client.options(ignore_status=404).indices.delete(index=old)
            )
        self._call("end the rebuild", lease.remove)


def _is_rebuild(index: Any) -> bool:
    return bool(index["mappings"].get("_meta", {}).get("metajournal", {}).get("rebuild"))


def _is_current(index: Any) -> bool:
    return bool(index["mappings"].get("_meta", {}).get("metajournal", {}).get("digest") == mapping_digest())


def _differs(name: str, comparison: Comparison) -> RebuildDiffersError:
    first = ", ".join(
        f"{difference.tenant}/{difference.urn} ({difference.fault})" for difference in comparison.differences[:3]
    )
    return RebuildDiffersError(
        f"{comparison.count:,} documents of the new index {name} differ from the lake: {first}.",
        index=name,
        count=comparison.count,
        differences=[difference._asdict() for difference in comparison.differences],
    )
