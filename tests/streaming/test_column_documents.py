"""Of any text, unit and cause: what is folded in columns is spelled as one by one, in every table and record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.columns import documents as catalog_documents
from metajournal.domains.catalog.events import (
    EntityDeleted,
    EntityRegistered,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesReplaced,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
)
from metajournal.domains.catalog.urns import dataset, stream
from metajournal.lake.tables import Lake
from metajournal.rules.admission import EARLIEST_MS, LATEST_MS
from metajournal.schemas.header import Unit
from metajournal.schemas.urn import urn
from tests.builders import NOON, header_for, record_of
from tests.model import JournalRecord
from tests.properties import examples
from tests.streaming.both_ways import assert_same, in_bits_of, offsets_folded_singly

many = settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
PURCHASES = dataset("default", "purchases")
CHARACTERS = 'ab{}:, "\\/\0\1\b\n\r\t\x1f\x7f\x80é\u2028Ω\uffff\U00010000😀'
"""What JSON escapes, what it might, and what code points and UTF-16 put in another order."""
WORDS = st.text(CHARACTERS, min_size=1, max_size=4)
ODDLY_NAMED = (
    PURCHASES,
    dataset('de"f\\', 'n\x7f\u2028😀\n"'),
    stream("default", "a/b"),
    urn("team", 'a"b', "c"),
    urn("namespace", "x"),
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    lake.create()
    return lake


@st.composite
def oddly_worded(draw: st.DrawFn) -> list[JournalRecord]:
    """Plain events full of characters that are seldom seen, of units and causes, on clocks that go back."""
    words = draw(st.lists(WORDS, min_size=2, max_size=6, unique=True))
    some = st.lists(st.sampled_from(words), min_size=1, max_size=3)
    properties = st.dictionaries(st.sampled_from(words), st.sampled_from(["", *words]), min_size=1, max_size=3)
    scopes = st.sampled_from(["USER", "SYSTEM"])
    entity = st.sampled_from(ODDLY_NAMED)
    maybe = st.none() | st.sampled_from(["", *words])
    events = st.one_of(
        st.builds(EntityRegistered, entity, maybe, maybe, st.just({}) | properties, st.just(()) | some),
        st.builds(PropertiesSet, entity, properties, scopes),
        st.builds(PropertiesReplaced, entity, st.just({}) | properties, scopes),
        st.builds(TagsAdded, entity, some, scopes),
        st.builds(lambda one, keys, scope: PropertiesRemoved(one, keys, scope=scope), entity, some, scopes),
        st.builds(lambda one, tags, scope: TagsRemoved(one, tags, scope=scope), entity, some, scopes),
        st.builds(lambda one, scope: PropertiesRemoved(one, all=True, scope=scope), entity, scopes),
        st.builds(lambda one, scope: TagsRemoved(one, all=True, scope=scope), entity, scopes),
        st.builds(MetadataCleared, entity, st.sampled_from(["USER", "SYSTEM", "BOTH"])),
        st.builds(EntityDeleted, entity),
    )
    told = st.fixed_dictionaries(
        {
            "actor": maybe,
            "tenant": st.sampled_from(["default", "default", "acme"]),
            "unit": st.none() | st.builds(Unit, st.binary(min_size=16, max_size=16), st.just(1), st.integers(2, 9)),
            "cause": st.none() | st.binary(min_size=16, max_size=16),
            "event_time": st.integers(EARLIEST_MS, LATEST_MS),
        }
    )
    given = draw(st.lists(st.tuples(events, told, st.integers(-40, 40)), max_size=30))
    begun: list[Any] = [(EntityRegistered(one), {}, 0) for one in ODDLY_NAMED[: draw(st.integers(0, len(ODDLY_NAMED)))]]
    return [
        record_of(event, 2 * n, header=header_for(event, n + 1, **fields), append_time=NOON + 10 * n + late)
        for n, (event, fields, late) in enumerate([*begun, *given])
    ]


@pytest.mark.thorough
@given(oddly_worded(), st.data())
@many
def test_any_text_is_spelled_as_one_by_one(lake: Lake, journal: list[JournalRecord], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(journal)), max_size=3)))
    with pytest.MonkeyPatch.context() as patch:
        singly = offsets_folded_singly(patch)
        in_bits_of(patch, data.draw(st.sampled_from([3, 1000])))
        patch.setattr(catalog_documents, "_BLOCK_ROWS", data.draw(st.sampled_from([2, 1000])))
        assert_same(lake, journal, cuts)
        assert singly == []
