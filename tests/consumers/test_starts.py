"""`since`: a position, a cut, a time or a word, each exactly; a start that is gone is an error, never a later start."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from metajournal.consumers.filters import Filter
from metajournal.consumers.starts import Start, Starts
from metajournal.consumers.subscription import changes, states
from metajournal.consumers.watermarks import LookUp
from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.emitter import Emitter
from metajournal.producers.topics import Epochs, ensure_topics
from metajournal.schemas.errors import InputError, PositionExpired
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.consumers.test_subscriptions import deleted, each, own, told
from tests.consumers.wire import START, Event, Wire

pytestmark = pytest.mark.services


@pytest.fixture
def epochs(settings: Settings) -> Epochs:
    return ensure_topics(settings)


@pytest.fixture
def wire(settings: Settings, epochs: Epochs) -> Wire:
    return Wire(settings)


def journal(settings: Settings, epochs: Epochs, count: int) -> list[Event]:
    """Real journal events of several aggregates, as the events that change them, in the order of their writing."""
    emitter = Emitter(settings, epochs)
    found = []
    for number in range(count):
        urn = dataset("default", f"d{number % 7}")
        receipt = emitter.emit(TagsAdded(urn, [f"t{number}"]))
        at = receipt.position
        found.append(Event(at.partition, at.value - START, (str(urn),), ("USER",), time_ms=receipt.system_time))
    emitter.close()
    return found


def read(settings: Settings, epochs: Epochs, since: Any) -> list[tuple[int, int, int]]:
    found = changes(settings, epochs, since=since, timeout_s=0.2, wanted=Filter.of(scope="USER"))
    return sorted(told(list(found)))


def these(events: Iterable[Event]) -> list[tuple[int, int, int]]:
    return sorted((one.partition, one.offset, 0) for one in events)


def test_every_kind_of_start_gives_exactly_what_comes_after_it(settings: Settings, epochs: Epochs, wire: Wire) -> None:
    events = journal(settings, epochs, 60)
    for start in range(0, 60, 6):
        wire.publish(events[max(0, start - 4) : start])  # a stream that crashed
        wire.batch(events[start : start + 6])
    assert len({one.partition for one in events}) > 1
    for middle in (events[0], events[29], events[59]):
        after = [one for one in events if one.partition == middle.partition and one.offset > middle.offset]
        others = [one for one in events if one.partition != middle.partition and one.system_time >= middle.system_time]
        assert read(settings, epochs, wire.position(middle)) == these(after + others)
        since = [one for one in events if one.system_time >= middle.system_time]
        assert read(settings, epochs, middle.system_time) == these(since)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=middle.system_time)
        assert read(settings, epochs, moment) == these(since)
    cut = {(wire.journal, one.partition): one.value + 1 for one in events[:30]}
    assert read(settings, epochs, cut) == these(
        one for one in events if one.value >= cut.get((wire.journal, one.partition), -1)
    )
    assert read(settings, epochs, {}) == read(settings, epochs, "earliest") == these(events)
    assert read(settings, epochs, "latest") == []


def test_an_event_that_is_appended_while_a_time_is_looked_up_is_not_passed_over(
    settings: Settings, epochs: Epochs, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = journal(settings, epochs, 20)
    wire.batch(events)
    idle, offset_at = (wire.journal, events[0].partition), LookUp.offset_at
    late: list[Event] = []

    def append_behind(look_up: LookUp, topic: str, partition: int, time_ms: int) -> int | None:
        offset = offset_at(look_up, topic, partition, time_ms)
        if (topic, partition) == idle and not late:
            assert offset is None
            late.extend(journal(settings, epochs, 7))
        return offset

    monkeypatch.setattr(LookUp, "offset_at", append_behind)
    since = max(one.system_time for one in events) + 1
    found = changes(settings, epochs, since=since, timeout_s=5, limit=7, wanted=Filter.of(scope="USER"))
    assert idle[1] in {one.partition for one in late}
    wire.batch(late)
    assert sorted(told(list(found))) == these(late)


class Receipt(NamedTuple):
    """What a caller keeps of an event."""

    position: Position


def test_several_positions_or_receipts_are_one_start_behind_the_last_of_each_partition(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    events = journal(settings, epochs, 60)
    wire.batch(events)
    partitions = sorted({one.partition for one in events})
    assert len(partitions) > 2
    named = [one for one in events[20:40] if one.partition in partitions[:2]]
    lasts = {one.partition: one for one in named}
    earliest = min(one.system_time for one in lasts.values())
    wanted = these(
        one
        for one in events
        if (one.value > lasts[one.partition].value if one.partition in lasts else one.system_time >= earliest)
    )
    places = [wire.position(one) for one in named]
    assert read(settings, epochs, places) == wanted
    assert read(settings, epochs, (Receipt(one) for one in places)) == wanted
    assert read(settings, epochs, Receipt(places[0])) == read(settings, epochs, places[0])
    assert read(settings, epochs, []) == these(events)


def test_the_first_offset_read_is_that_of_the_last_watermark(settings: Settings, epochs: Epochs, wire: Wire) -> None:
    topic = wire.names.changes("catalog")
    events = journal(settings, epochs, 40)
    for start in range(0, 40, 4):
        wire.batch(events[start : start + 4])
    for middle in events[8:32:5]:
        found = find(settings, epochs, topic, middle, wire.position(middle))
        mine = [one for one in events if one.partition == middle.partition]
        lasts = {events.index(one) // 4: number for number, one in enumerate(mine)}  # of each batch
        whole = [number + 1 for number in lasts.values() if mine[number].offset <= middle.offset]
        assert found.offset == max(whole, default=0)
        assert found.floors == {(wire.journal, middle.partition): (middle.value + 1, -1)}


def find(settings: Settings, epochs: Epochs, topic: str, event: Event, since: Any) -> Start:
    at = (topic, event.partition)
    with LookUp(settings) as look_up:
        starts = Starts(look_up, settings.journal.topics, epochs, "catalog", compacted=False)
        return starts.find(since, {topic: 4}, [at])[at]


def test_a_batch_whose_verdicts_are_split_gives_no_start_in_its_middle(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    """Every part bears the ends of the whole batch, so behind the first part's ends the second part's changes lack."""
    events = journal(settings, epochs, 40)
    at = events[0].partition
    mine = [one for one in events if one.partition == at]
    wire.batch(mine[:2])
    wire.publish(mine[2:])
    middle = mine[3]
    wire.outcome(at, mine[2].offset, middle.offset + 1, [(middle.offset, "unchanged")], written=99)
    last = [(mine[-1].offset, "unchanged")]
    assert [one for one in read(settings, epochs, wire.position(middle)) if one[0] == at] == these(mine[4:])
    wire.outcome(at, middle.offset + 1, mine[-1].offset + 1, last, written=99)
    assert [one for one in read(settings, epochs, wire.position(middle)) if one[0] == at] == these(mine[4:])


def test_a_long_way_back_through_the_outcomes_is_found(settings: Settings, epochs: Epochs, wire: Wire) -> None:
    events = journal(settings, epochs, 1400)
    at = events[0].partition
    mine = [one for one in events if one.partition == at]
    while len(mine) < 1300:  # more outcome records than are read one after the other
        mine += [Event(at, mine[-1].offset + 1 + n, mine[0].urns, ("USER",)) for n in range(1300 - len(mine))]
    records = [one for event in mine for one in wire.records(event)]
    for number, event in enumerate(mine):
        wire.publish([event])
        wire.outcome(at, event.offset, event.offset + 1, [(event.offset, "unchanged")] if number % 3 else [])
    assert len(records) == 2 * len(mine)
    real = [one for one in events if one.partition == at]
    for middle in (real[0], real[len(real) // 2], real[-2]):
        start = find(settings, epochs, wire.names.changes("catalog"), middle, wire.position(middle))
        assert middle.offset - 4 <= start.offset <= middle.offset + 1
        assert start.floors[wire.journal, at] == (middle.value + 1, -1)


def test_a_start_whose_changes_are_deleted_is_an_error_with_the_earliest_that_is_left(
    settings: Settings, epochs: Epochs, wire: Wire, kafka: str
) -> None:
    events = journal(settings, epochs, 60)
    for start in range(0, 60, 6):
        wire.batch(events[start : start + 6])
    at = events[0].partition
    mine = [one for one in events if one.partition == at]
    topic = wire.names.changes("catalog")
    deleted(kafka, topic, at, len(mine) // 2)
    for since in (wire.position(mine[0]), {(wire.journal, at): mine[1].value + 1}, mine[0].system_time, {}):
        with pytest.raises(PositionExpired) as caught:
            changes(settings, epochs, since=since)
        assert (caught.value.data["topic"], caught.value.data["partition"]) == (topic, at)
    earliest = caught.value.data["earliest"]
    assert isinstance(earliest, Position)
    found = [one for one in read(settings, epochs, earliest) if one[0] == at]
    assert found == these(one for one in mine if one.value > earliest.value)
    assert len(found) > 0
    assert len(read(settings, epochs, "earliest")) == 60 - len(mine) // 2
    # Entities are compacted, never deleted by age: their newest states are always there.
    assert list(states(settings, epochs, since=wire.position(mine[0]), timeout_s=0.2))


def test_an_idle_partition_whose_changes_are_gone_keeps_nobody_from_starting(
    settings: Settings, epochs: Epochs, wire: Wire, kafka: str
) -> None:
    events = journal(settings, epochs, 30)
    at = events[0].partition
    mine = [one for one in events if one.partition == at]
    wire.publish(events)
    deleted(kafka, wire.names.changes("catalog"), at, len(mine))
    cut = {(wire.journal, one.partition): one.value + 1 for one in events}
    del cut[wire.journal, next(one.partition for one in events if one.partition != at)]
    assert {one[0] for one in read(settings, epochs, cut)} == {
        one.partition for one in events if (wire.journal, one.partition) not in cut
    }


def test_states_since_a_cut_are_those_that_changed_after_it(settings: Settings, epochs: Epochs, wire: Wire) -> None:
    events = journal(settings, epochs, 40)
    wire.batch(events[:20])
    wire.batch(events[20:])
    cut = {(wire.journal, one.partition): one.value + 1 for one in events[:20]}
    found = told(list(states(settings, epochs, since=cut, timeout_s=0.2)))
    assert sorted(found) == these(one for one in events if one.value >= cut.get((wire.journal, one.partition), -1))


@pytest.mark.parametrize(
    ("since", "said"),
    [
        (datetime(2026, 1, 1), "without a zone"),
        (True, "not a valid starting point"),
        ("yesterday", "not a valid starting point"),
        ({("other", 0): START}, "not a position of"),
        ({"JOURNAL": START}, "not a valid entry of a cut"),
        ({("JOURNAL", 0): START + 1}, "has not reached"),
        ([Position("other", 0, START)], "not a position of"),
        ([5], "not a valid starting point"),
        ({("JOURNAL", 9): START}, "not a position of"),
        (10**30, "not a valid starting point"),
        (-(10**30), "not a valid starting point"),
    ],
)
def test_what_is_no_point_of_the_journal_is_refused(
    settings: Settings, epochs: Epochs, wire: Wire, since: Any, said: str
) -> None:
    if isinstance(since, dict):
        since = {
            (wire.journal, key[1]) if isinstance(key, tuple) and key[0] == "JOURNAL" else key: value
            for key, value in since.items()
        }
    with pytest.raises(InputError, match=said):
        changes(settings, epochs, since=since)


def test_a_group_asks_for_a_start_only_where_it_has_none(
    settings: Settings, epochs: Epochs, wire: Wire, kafka: str
) -> None:
    wire.batch(each(0, 0, 6, scopes=("USER",)))
    with changes(settings, epochs, since="earliest", group=own(settings), timeout_s=0.2) as found:
        assert len(list(found)) == 6
    deleted(kafka, wire.names.changes("catalog"), 0, 5)
    with changes(
        settings, epochs, since={}, group=own(settings), timeout_s=0.2
    ) as found:  # gone, and not needed any more
        assert list(found) == []
