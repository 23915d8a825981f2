"""AS OF a time over real tables, held against a re-fold in plain Python that knows neither rules nor tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal import (
    AccessesRecorded,
    EntityDeleted,
    EntityRegistered,
    FilesRecorded,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesReplaced,
    PropertiesSet,
    RunStarted,
    RunStopped,
    TagsAdded,
    TagsRemoved,
    Urn,
    app,
    dataset,
    file_urn,
    program,
    run,
)
from metajournal.domains.lineage.queries import LineageQueries
from metajournal.domains.lineage.questions import RunQuestion
from metajournal.lake import as_of as as_of_module
from metajournal.lake.reading import LakeReader
from metajournal.lake.tables import Lake
from metajournal.schemas.encoding.codec import decode
from metajournal.schemas.errors import InputError, NotFinalError, OperatorError, UnknownEntityError
from metajournal.schemas.positions import Position
from metajournal.schemas.topics import TopicNames
from tests.archive import a_file
from tests.builders import NOON, header_for, record_of
from tests.model import JournalRecord
from tests.properties import examples
from tests.streaming.harness import TOPIC, Fold, placed

PARTITIONS = 2
ORDERS = dataset("shop", "orders")
SHOP = app("shop", "Shop")
WASH = program("shop", "Shop", "spark", "wash")
FEED = program("shop", "Shop", "flow", "feed")
NIGHT = run("shop", "Shop", "spark", "wash", "r1")
ENTITIES = (ORDERS, SHOP, WASH, FEED)
SCOPES = ("USER", "SYSTEM")


class Sent(NamedTuple):
    """An event and when its emitter says that it happened, in milliseconds after NOON."""

    event: Any
    time: int
    expected: int | None = None


def journal_of(sent: Sequence[Sent]) -> list[JournalRecord]:
    made = [
        record_of(
            one.event,
            number,
            header=header_for(one.event, number + 1, event_time=NOON + one.time, expected=one.expected),
        )
        for number, one in enumerate(sent)
    ]
    return placed(made, PARTITIONS)


def folded(folder: Path, sent: Sequence[Sent], *, batches: Iterable[int] = (), topic: str = TOPIC) -> Fold:
    fold = Fold(folder, PARTITIONS, topic=topic)
    journal = journal_of(sent)
    for end in sorted({*batches, len(journal)}):
        fold.batch(journal, until=journal[:end])
    return fold


def reader(fold: Fold) -> LakeReader:
    return LakeReader(Lake(str(fold.path)), TopicNames(), PARTITIONS)


# The model: what an entity is made of, event after event in the order of their times.


class Naive:
    """Entities by URN while events come; `effects` are what an entity was after each event that changed it."""

    def __init__(self) -> None:
        self.live: dict[str, dict[str, Any]] = {}
        self.effects: list[tuple[int, str, Any]] = []
        self.waiting: list[tuple[int, Any]] = []

    def take(self, position: int, event: Any) -> None:
        urn = str(event.entity)
        if isinstance(event, EntityDeleted):
            ended = [urn, *(sorted(one for one in self.live if one.startswith("program:")) if urn == SHOP else [])]
            for one in ended if urn in self.live else []:
                del self.live[one]
                self.effects.append((position, one, None))
        elif isinstance(event, EntityRegistered):
            before = self.live.setdefault(urn, {"new": True})
            self._change(position, urn, before, self._registered(before, event))
            ready = [one for one in self.waiting if str(one[1].entity) == urn and one[0] > position]
            self.waiting = [one for one in self.waiting if one not in ready]
            for waiting in ready:
                self.take(*waiting)
        elif urn in self.live:
            self._change(position, urn, self.live[urn], self._annotated(self.live[urn], event))
        else:
            self.waiting.append((position, event))

    def _change(self, position: int, urn: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.live[urn] = after
        if before != after:
            self.effects.append((position, urn, after))

    @staticmethod
    def _registered(before: dict[str, Any], event: Any) -> dict[str, Any]:
        empty: dict[str, Any] = {f"{scope}-{what}": {} for scope in SCOPES for what in ("tags", "properties")}
        after = {**empty, **{key: dict(one) for key, one in before.items() if key != "new"}}
        after["USER-tags"] |= dict.fromkeys(event.tags)
        after["USER-properties"] |= event.properties
        after["SYSTEM-properties"] |= {} if event.description is None else {"description": event.description}
        return after

    @staticmethod
    def _annotated(before: dict[str, Any], event: Any) -> dict[str, Any]:
        after = {key: dict(one) for key, one in before.items()}
        scopes = SCOPES if event.scope == "BOTH" else (event.scope,)
        for scope in scopes:
            tags, properties = after[f"{scope}-tags"], after[f"{scope}-properties"]
            if isinstance(event, TagsAdded):
                tags |= dict.fromkeys(event.tags)
            elif isinstance(event, PropertiesSet):
                properties |= event.properties
            elif isinstance(event, PropertiesReplaced):
                properties.clear()
                properties |= event.properties
            else:
                gone = getattr(event, "tags", ()) if isinstance(event, TagsRemoved) else getattr(event, "keys", ())
                everything = isinstance(event, MetadataCleared) or event.all
                for held, kind in ((tags, TagsRemoved), (properties, PropertiesRemoved)):
                    if isinstance(event, kind | MetadataCleared):
                        for name in [*held] if everything else gone:
                            held.pop(name, None)
        return after


def naive(fold: Fold, sent: Sequence[Sent], as_of: int, known: Iterable[int]) -> list[tuple[int, str, Any]]:
    """Position, entity and state after each effect: the accepted events of the whole journal in the order of time."""
    accepted = {
        (one["journal_partition"], one["logical_timestamp"]) for one in fold.journal() if one["outcome"] == "accepted"
    }
    journal = journal_of(sent)
    told = [
        (sent[number].time, journal[number].position, sent[number].event)
        for number in known
        if (journal[number].partition, journal[number].position) in accepted and sent[number].time <= as_of
    ]
    model = Naive()
    for _, position, event in sorted(told, key=lambda one: one[:2]):
        model.take(position, event)
    return model.effects


KEPT = ("creation_time", "created_by", "last_update_time", "last_updated_by")


def shown(row: Any) -> tuple[int, str, Any]:
    """A row as the model has it."""
    if row.deleted:
        return row.logical_timestamp, str(row.urn), None
    state = {
        "USER-tags": dict.fromkeys(row.user_tags),
        "SYSTEM-tags": dict.fromkeys(row.system_tags),
        "USER-properties": dict(row.user_properties),
        "SYSTEM-properties": {key: one for key, one in row.system_properties.items() if key not in KEPT},
    }
    return row.logical_timestamp, str(row.urn), state


names, entities = st.sampled_from("abc"), st.sampled_from(ENTITIES)
lists = st.lists(names, min_size=1, max_size=2, unique=True)
maps = st.dictionaries(names, st.sampled_from("12"), min_size=1, max_size=2)
scopes = st.sampled_from(SCOPES)
events = st.one_of(
    st.builds(EntityRegistered, entities, st.none() | st.just("text"), tags=st.just([]) | lists, properties=maps),
    st.builds(EntityRegistered, entities),
    st.builds(TagsAdded, entities, lists, scope=scopes),
    st.builds(PropertiesSet, entities, maps, scope=scopes),
    st.builds(PropertiesReplaced, entities, maps, scope=scopes),
    st.builds(TagsRemoved, entities, lists, scope=scopes),
    st.builds(PropertiesRemoved, entities, keys=lists, scope=scopes),
    st.builds(MetadataCleared, entities, scope=st.sampled_from((*SCOPES, "BOTH"))),
    st.builds(EntityDeleted, entities),
)


def sending(events: st.SearchStrategy[Any], times: st.SearchStrategy[int]) -> st.SearchStrategy[Sent]:
    return st.tuples(events, times).map(lambda one: Sent(*one))


journals = st.lists(sending(events, st.integers(0, 9)), min_size=8, max_size=40).map(
    lambda rest: [*(Sent(EntityRegistered(one), 1) for one in ENTITIES[: len(rest) % 5]), *rest]
)


@pytest.mark.thorough
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(journals, st.data())
def test_an_entity_as_of_a_time_is_what_a_naive_refold_of_the_accepted_events_gives(
    sent: list[Sent], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fold = folded(Path(folder), sent, batches=[data.draw(st.integers(1, len(sent)))])
        lake = reader(fold)
        everything = range(len(sent))
        for as_of in data.draw(st.lists(st.integers(0, 9), min_size=3, max_size=3, unique=True)):
            for urn in ENTITIES:
                wanted = [one for one in naive(fold, sent, as_of, everything) if one[1] == urn]
                assert [shown(row) for row in told(lake, urn, as_of)] == wanted
                assert [shown(row) for row in now(lake, urn, as_of)] == standing(wanted)
        cut = data.draw(st.integers(0, len(sent) - 1))
        at, known = places(sent, cut), range(cut + 1)
        for urn in ENTITIES:
            wanted = [one for one in naive(fold, sent, 5, known) if one[1] == urn]
            assert [shown(row) for row in now(lake, urn, 5, at)] == standing(wanted)


def standing(effects: list[tuple[int, str, Any]]) -> list[tuple[int, str, Any]]:
    return effects[-1:] if effects and effects[-1][2] is not None else []


def places(sent: Sequence[Sent], last: int) -> dict[tuple[str, int], int]:
    """The cut that holds the events up to one, in every partition."""
    cut = {(TOPIC, partition): 0 for partition in range(PARTITIONS)}
    for one in journal_of(sent)[: last + 1]:
        cut[TOPIC, one.partition] = one.position + 1
    return cut


def told(lake: LakeReader, urn: Urn, as_of: int) -> list[Any]:
    try:
        return lake.history_as_of("default", urn, NOON + as_of)
    except UnknownEntityError:
        return []


def now(lake: LakeReader, urn: Urn, as_of: int, at: Any = None) -> list[Any]:
    try:
        return [lake.as_of("default", urn, NOON + as_of, at).row]
    except UnknownEntityError:
        return []


def owner(answer: Any) -> str | None:
    return answer.row.user_properties.get("owner")  # type: ignore[no-any-return]


LATE = [
    Sent(EntityRegistered(ORDERS), 10),
    Sent(PropertiesSet(ORDERS, {"owner": "ali"}), 20),
    Sent(PropertiesSet(ORDERS, {"owner": "late"}), 15),
]


def test_news_that_comes_late_counts_from_its_own_time_on(tmp_path: Path) -> None:
    lake = reader(folded(tmp_path, LATE))
    assert {time: owner(lake.as_of("default", ORDERS, NOON + time)) for time in (10, 15, 19, 20, 99)} == {
        10: None, 15: "late", 19: "late", 20: "ali", 99: "ali",
    }  # fmt: skip
    assert owner(lake.current("default", ORDERS)) == "late"


def test_as_at_says_what_was_known_then_about_another_time(tmp_path: Path) -> None:
    lake, journal = reader(folded(tmp_path, LATE)), journal_of(LATE)
    second = Position(TOPIC, journal[1].partition, journal[1].position)
    known = lake.as_of("default", ORDERS, NOON + 19, second)
    assert (owner(known), known.final) == (None, True)
    assert owner(lake.as_of("default", ORDERS, NOON + 20, second)) == "ali"
    assert not lake.as_of("default", ORDERS, NOON + 19).final
    beyond = Position(TOPIC, journal[2].partition, journal[2].position + 1)
    with pytest.raises(NotFinalError):
        lake.as_of("default", ORDERS, NOON + 19, beyond)


def test_a_precondition_of_the_journals_order_is_not_asked_again(tmp_path: Path) -> None:
    first = journal_of(LATE)[0].position
    sent = [LATE[0], Sent(PropertiesSet(ORDERS, {"owner": "ali"}), 30, first), LATE[2]]
    lake = reader(folded(tmp_path, sent))
    assert owner(lake.as_of("default", ORDERS, NOON + 15)) == "late"
    assert owner(lake.as_of("default", ORDERS, NOON + 30)) == "ali"


def test_an_annotation_before_its_entity_waits_for_it_but_not_for_another_life(
    tmp_path: Path,
) -> None:
    lake = reader(folded(tmp_path, [
        Sent(EntityRegistered(ORDERS), 10),
        Sent(TagsAdded(ORDERS, ["early"]), 5),
        Sent(TagsAdded(ORDERS, ["after"]), 25),
        Sent(EntityDeleted(ORDERS), 20),
        Sent(EntityRegistered(ORDERS), 30),
    ]))  # fmt: skip
    with pytest.raises(UnknownEntityError, match="it was not registered by then, and what was said of it before"):
        lake.as_of("default", ORDERS, NOON + 9)
    with pytest.raises(UnknownEntityError, match="there is no accepted event about it by then"):
        lake.as_of("default", ORDERS, NOON + 4)
    tags = {time: [row.user_tags for row in told(lake, ORDERS, time)] for time in (9, 10, 30)}
    assert tags == {9: [], 10: [(), ("early",)], 30: [(), ("early",), (), ()]}
    with pytest.raises(UnknownEntityError, match=r"it was deleted at 2015-09-03T20:00:00\.020Z") as deleted:
        lake.as_of("default", ORDERS, NOON + 29)
    assert deleted.value.code == "unknown-then"
    with pytest.raises(UnknownEntityError) as never:
        lake.as_of("default", dataset("shop", "never"), NOON)
    assert never.value.code == "unknown-entity"


def test_an_app_takes_a_program_along_that_was_told_of_later_and_is_older(tmp_path: Path) -> None:
    sent = [
        Sent(EntityRegistered(SHOP), 1),
        Sent(EntityDeleted(SHOP), 10),
        Sent(EntityRegistered(WASH), 5),
    ]
    lake = reader(folded(tmp_path, sent))
    assert lake.as_of("default", WASH, NOON + 9).row is not None
    with pytest.raises(UnknownEntityError, match="it was deleted at"):
        lake.as_of("default", WASH, NOON + 10)
    assert lake.current("default", WASH).row is not None


def test_a_file_is_its_record_of_the_time(tmp_path: Path) -> None:
    topic = TopicNames().journal("files")
    file = file_urn("nebraska", "nginx", "f1")
    lake = reader(folded(tmp_path, [
        Sent(FilesRecorded([a_file(size=7), a_file(id="f2")]), 10),
        Sent(TagsAdded(file, ["pii"]), 5),
        Sent(FilesRecorded([a_file(size=9)]), 30),
        Sent(FilesRecorded([a_file(size=8)]), 20),
    ], topic=topic))  # fmt: skip
    found = {time: lake.as_of("default", file, NOON + time).row for time in (10, 20, 30)}
    assert {time: row.record["size"] for time, row in found.items()} == {10: 7, 20: 8, 30: 9}  # type: ignore[union-attr,index]
    assert {row.user_tags for row in found.values() if row is not None} == {("pii",)}


facts = st.one_of(
    st.builds(RunStarted, st.just(NIGHT), st.integers(1, 9)),
    st.builds(RunStopped, st.just(NIGHT), st.integers(1, 9), st.sampled_from(["COMPLETED", "FAILED"])),
    st.integers(1, 9).map(lambda at: AccessesRecorded(NIGHT, [(ORDERS, "read", at)])),
    st.tuples(st.integers(1, 9), st.integers(1, 9)).map(
        lambda times: AccessesRecorded(NIGHT, [(ORDERS, "write", times[0]), (ORDERS, "read", times[1])])
    ),
)


@pytest.mark.thorough
@settings(max_examples=examples(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(sending(facts, st.integers(-NOON, -NOON + 9)), min_size=1, max_size=8))
def test_a_runs_own_row_says_what_lineage_says_of_the_run(sent: list[Sent]) -> None:
    """By the times that its facts speak of, whenever they were sent."""
    with tempfile.TemporaryDirectory() as folder:
        fold = folded(Path(folder), sent)
        lake, lineage = reader(fold), LineageQueries(Lake(folder), TopicNames(), PARTITIONS)
        for as_of in range(11):
            try:
                known = lineage.run("default", RunQuestion.of(NIGHT, as_of=as_of))
            except UnknownEntityError:
                with pytest.raises(UnknownEntityError):
                    lake.as_of("default", NIGHT, as_of)
            else:
                row = lake.as_of("default", NIGHT, as_of).row
                assert row is not None
                assert row.record == {name: known[name] for name in ("start", "stop", "status")}


def test_a_run_is_seen_that_was_folded_after_the_reader_has_looked(tmp_path: Path) -> None:
    sent = [Sent(RunStarted(NIGHT, 5), 0), Sent(RunStopped(NIGHT, 7, "FAILED"), 0)]
    fold, journal = Fold(tmp_path, PARTITIONS), journal_of(sent)
    fold.batch(journal[:1])
    lake = reader(fold)
    assert lake.as_of("default", NIGHT, 9).row.record["stop"] == -1  # type: ignore[union-attr,index]
    fold.batch(journal)
    assert lake.as_of("default", NIGHT, 9).row.record["stop"] == 7  # type: ignore[union-attr,index]


def test_a_history_as_of_a_time_comes_page_by_page(tmp_path: Path) -> None:
    lake = reader(folded(tmp_path, [*LATE, Sent(TagsAdded(ORDERS, ["x"]), 12), Sent(TagsAdded(ORDERS, ["y"]), 50)]))
    rows = lake.history_as_of("default", ORDERS, NOON + 40)
    assert [row.event_time - NOON for row in rows] == [10, 12, 15, 20]
    pages, before = [], None
    while page := lake.history_as_of("default", ORDERS, NOON + 40, limit=3, before=before):
        pages.append(page)
        before = page[0].logical_timestamp
    assert [len(page) for page in pages] == [3, 1]
    assert [row for page in reversed(pages) for row in page] == rows
    with pytest.raises(InputError, match="No change up to that time has the logical timestamp 5"):
        lake.history_as_of("default", ORDERS, NOON + 40, before=5)


@pytest.mark.thorough
@pytest.mark.parametrize("time", ["noon", None, True, 1.5, 10**30, -(10**30)])
def test_what_is_no_time_is_refused(tmp_path: Path, time: Any) -> None:
    lake = reader(folded(tmp_path, LATE))
    with pytest.raises(InputError, match="as_of must be a time"):
        lake.as_of("default", ORDERS, time)


def test_only_the_entitys_own_events_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [Sent(EntityRegistered(dataset("shop", f"d{number}")), 1) for number in range(50)]
    lake = reader(folded(tmp_path, [*others, *LATE, *others]))
    decoded: list[bytes] = []

    def counted(value: bytes) -> Any:
        decoded.append(value)
        return decode(value)

    monkeypatch.setattr(as_of_module, "decode", counted)
    lake.as_of("default", ORDERS, NOON + 99)
    assert len(decoded) == len(LATE)


def test_an_event_that_the_journal_table_lacks_is_said_and_not_passed_over(tmp_path: Path) -> None:
    fold = folded(tmp_path, LATE)
    lost = journal_of(LATE)[1].position
    fold.lake.journal.delta.delete(f"logical_timestamp = {lost}")
    with pytest.raises(OperatorError, match="lacks 1 events"):
        reader(fold).as_of("default", ORDERS, NOON + 99)
