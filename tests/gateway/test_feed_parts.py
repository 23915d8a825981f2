"""What feeds are made of, without services: ids that lose nothing, and a ring that knows what it no longer has."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as properties
from hypothesis import strategies as st

from metajournal.consumers.every_change import entities_of
from metajournal.consumers.records import Change
from metajournal.domains.access.rights import Rights
from metajournal.gateway.feed import reader, source
from metajournal.gateway.feed.cuts import Cuts, Topic, mark_of
from metajournal.gateway.feed.feeds import Shown
from metajournal.gateway.feed.reader import Feed, Reader
from metajournal.gateway.feed.ring import Entry, Ring, keys_of, merged
from metajournal.gateway.feed.source import Source
from metajournal.gateway.principals import Principal
from metajournal.schemas.endpoints import in_namespace
from metajournal.schemas.errors import InputError
from metajournal.schemas.positions import Position
from metajournal.schemas.urn import Urn
from tests.properties import examples

TOPICS = (Topic("t.catalog", "catalog", "00ff", 3), Topic("t.catalog.system", "catalog.system", "1234", 1))
PLACES = [(topic.name, number) for topic in TOPICS for number in range(topic.partitions)]
CUTS = Cuts(TOPICS)
offsets = st.fixed_dictionaries({place: st.integers(0, 1 << 40) for place in PLACES})


def entry(place: tuple[str, int], offset: int, size: int = 1, urn: str = "dataset:a/b") -> Entry:
    return Entry(place, offset, "default", (Urn.parse(urn),), "catalog", "USER", "t", b"x" * size)


@given(offsets)
@properties(max_examples=examples(200), deadline=None)
def test_an_id_says_exactly_the_offsets_that_it_was_made_of(given_offsets: dict[tuple[str, int], int]) -> None:
    read = CUTS.read(CUTS.text(given_offsets))
    assert read.is_whole
    assert {place: read.offsets.get(place, 0) for place in PLACES} == given_offsets


def test_an_id_of_a_topic_that_was_made_anew_is_known_to_be_one() -> None:
    text = CUTS.text(dict.fromkeys(PLACES, 7))
    other = Cuts((TOPICS[0]._replace(mark=mark_of("another")), TOPICS[1]))
    read = other.read(text)
    assert not read.is_whole
    assert read.offsets == {PLACES[3]: 7}
    more = Cuts((TOPICS[0]._replace(partitions=4), TOPICS[1]))
    assert not more.read(text).is_whole


NO_IDS = (
    "", "0", "2~catalog:00ff.1", "1~", "1~catalog:00ff", "1~catalog:00ff.-1", "1~a b:00ff.1", "1~catalog:00ff.1~~",
    "1~catalog:00ff." + "9" * 10, "1~catalog:00ff" + ".1" * 5000, "1~catalog:00ff.\u0661",
)  # fmt: skip


@pytest.mark.parametrize("text", NO_IDS)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        CUTS.read(text)


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.integers(1, 60)), max_size=60), st.integers(1, 12))
@properties(max_examples=examples(200), deadline=None)
def test_the_ring_has_everything_from_its_floor_on(added: list[tuple[tuple[str, int], int]], most: int) -> None:
    """Held against a plain list: what is kept are the newest, within both bounds; each id is what came up to there."""
    ring, begun = Ring(CUTS, most, 200), dict.fromkeys(PLACES, 5)
    ring.begin(begun)
    ends, model = dict(begun), []
    for place, size in added:
        model.append(entry(place, ends[place], size))
        ring.add(model[-1])
        ends[place] += 1
        assert CUTS.read(model[-1].id).offsets == ends
        assert ring.id == model[-1].id
    kept = [ring[number] for number in range(ring.first, ring.next)]
    assert kept == model[len(model) - len(kept) :]
    assert len(kept) <= most
    assert len(kept) <= 1 or sum(len(one.frame) for one in kept) <= 200
    for place in PLACES:
        gone = [one.offset + 1 for one in model[: len(model) - len(kept)] if one.partition == place]
        assert ring.floor[place] == max([5, *gone])
    assert ring.covers(ring.floor)
    assert ring.covers(merged(ring.floor, ends))
    assert not ring.covers({**ring.floor, PLACES[0]: ring.floor[PLACES[0]] - 1})


def change(domain: str, urn: str, record: dict[str, Any]) -> Change:
    return Change(urn, Position("t", 0, 1 << 40), 0, "USER", "t", 0, record, 0, "default", domain)


COMMIT = "0" * 64
NAMED: tuple[tuple[str, str, dict[str, Any], set[str]], ...] = (
    ("catalog", "dataset:a/b", {"changes": {}}, {"dataset:a/b"}),
    ("files", "file:w/x/a", {"file": "file:w/x/a"}, {"file:w/x/a"}),
    ("lineage", "run:a/p/flow/f/r", {"type": "RunStarted", "run": "run:a/p/flow/f/r"}, {"run:a/p/flow/f/r"}),
    (
        "lineage", "run:a/p/flow/f/r", {"type": "AccessRecorded", "run": "run:a/p/flow/f/r", "data": "dataset:b/c"},
        {"run:a/p/flow/f/r", "dataset:b/c"},
    ),
    (
        "repositories", "branch:r/main", {"event_payload": {"branch": "main", "source": "dev", "commit": COMMIT}},
        {"branch:r/main", "repo:r", "branch:r/dev", f"commit:r/{COMMIT}"},
    ),
    (
        "repositories", "repo:r", {"event_payload": {"paths": ["x/y", "z"]}},
        {"repo:r", "object:r/x/y", "object:r/z"},
    ),
    (
        "repositories", "branch:r/main", {"event_payload": {"branch": "main", "objects": []}},
        {"branch:r/main", "repo:r"},
    ),
)  # fmt: skip


@pytest.mark.parametrize(("domain", "urn", "record", "wanted"), NAMED)
def test_a_change_is_of_all_entities_that_its_event_names(
    domain: str, urn: str, record: dict[str, Any], wanted: set[str]
) -> None:
    assert set(entities_of(change(domain, urn, record))) == wanted


URNS = ("dataset:a/b", "dataset:a/c", "stream:a/b", "dataset:z/b", "repo:a")
KEYS = (*URNS, *(in_namespace(name) for name in ("a", "z", "none")), "dataset:none/b")


@given(
    st.lists(st.sampled_from(URNS), max_size=60),
    st.none() | st.frozensets(st.sampled_from(KEYS), min_size=1),
    st.integers(1, 12),
    st.integers(0, 60),
)
@properties(max_examples=examples(300), deadline=None)
def test_what_is_found_by_keys_is_what_a_look_at_each_finds(
    urns: list[str], keys: frozenset[str] | None, most: int, first: int
) -> None:
    ring = Ring(CUTS, most)
    for offset, urn in enumerate(urns):
        ring.add(entry(PLACES[0], offset, urn=urn))
    first = max(ring.first, first)
    assert list(ring.numbers(keys, first)) == [
        number for number in range(first, ring.next)
        if keys is None or not keys.isdisjoint(keys_of(ring[number].subject))
    ]  # fmt: skip


def test_a_feed_whose_reader_may_not_read_any_longer_ends_also_where_its_beat_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looked again at once, for good, and nothing else had its turn."""
    monkeypatch.setattr(reader, "BEAT_S", 0.0)
    asked = 0

    def nobody() -> None:
        nonlocal asked
        asked += 1
        assert asked < 10, "it is asked again and again"

    async def served() -> list[bytes]:
        ring = Ring(CUTS, 10)
        ring.begin(dict.fromkeys(PLACES, 0))
        wants: Any = SimpleNamespace(keys=None)
        asks = Reader(nobody, Principal("default", "a", "k", Rights([("admin", "*")], {})), wants)
        feeds: Any = SimpleNamespace(news=asyncio.get_running_loop().create_future())
        feed = Feed(feeds, Shown((), CUTS, ring), asks, None)
        ring.add(entry(PLACES[0], 0))
        sent: list[bytes] = []

        async def send(message: Any) -> None:
            sent.append(message["body"])

        await feed._send_all(send)
        return sent

    assert asyncio.run(served()) == [b"retry: 1000\n\n", b": beat\nid: 1\n\n"]


def test_a_fault_of_ours_does_not_end_the_thread_that_reads_for_the_feeds(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = asyncio.Event()
    attempts = 0

    def failing(reads: Source) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 3:
            reads._loop.call_soon_threadsafe(tried.set)
        raise KeyError("a fault of ours")

    async def read() -> None:
        monkeypatch.setattr(source, "_AGAIN_S", 0.001)
        monkeypatch.setattr(Source, "_read", failing)
        reads = Source(None, lambda items: None, 1)  # type: ignore[arg-type]
        await asyncio.wait_for(tried.wait(), 30)
        await asyncio.to_thread(reads.close)

    asyncio.run(read())
