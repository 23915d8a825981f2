"""A misspelt kind would be in the journal permanently: the client refuses it, whatever sends the event."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest

from metajournal import EntityRegistered, Journal, PropertiesSet, TagsAdded, UnknownKindError, dataset
from metajournal.commands.emitting import Sending
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import InvalidUnitError
from metajournal.schemas.kinds import KINDS, nearest_kind
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn, urn
from tests.topics import read

MISSPELT, CUSTOM = Urn.parse("datset:shop/orders"), urn("team", "data science")


def emitted(settings: Settings) -> int:
    """Records in the catalog's journal topic."""
    return len(read(settings, settings.journal.topics.journal("catalog")))


@pytest.mark.services
def test_an_unknown_kind_is_refused_with_the_nearest_one_wherever_it_is_emitted(settings: Settings) -> None:
    ensure_topics(settings)
    ways: list[Callable[[Journal], object]] = [
        lambda journal: journal.emit(EntityRegistered(MISSPELT)),
        lambda journal: journal.emit(PropertiesSet(MISSPELT, {"a": "b"}), event_id=None, actor="ada"),
    ]
    with Journal.connect(settings) as journal:
        for way in ways:
            with pytest.raises(
                UnknownKindError, match=r"'datset' is not a known kind.*did you mean 'dataset'"
            ) as refused:
                way(journal)
            assert (refused.value.kind, refused.value.nearest, refused.value.urn) == ("datset", "dataset", MISSPELT)
            assert 'journal.custom_kinds = ["datset"]' in refused.value.hint
        with pytest.raises(InvalidUnitError, match=r"events\[1\]\.entity: 'datset' is not a known kind"):
            journal.emit_unit([TagsAdded(dataset("shop", "orders"), ["x"]), TagsAdded(MISSPELT, ["x"])])
        line = json.dumps({"type": "TagsAdded", "entity": MISSPELT, "tags": ["x"]})
        good = json.dumps({"type": "TagsAdded", "entity": dataset("shop", "orders"), "tags": ["x"]})
        results = list(Sending(journal, outcome=False).lines(StringIO(f"{line}\n{good}\n")))
        assert [result["ok"] for result in results] == [False, True]
        assert results[0]["error"]["code"] == "unknown-kind"
        with pytest.raises(InvalidUnitError, match="line 1: entity: 'datset' is not a known kind"):
            Sending(journal, outcome=False).unit([line])
        with pytest.raises(UnknownKindError):
            journal.emit(EntityRegistered(CUSTOM))
    assert emitted(settings) == 1


@pytest.mark.services
def test_a_kind_of_ones_own_is_taken_where_the_setting_names_it(settings: Settings) -> None:
    ensure_topics(settings)
    own = replace(settings, journal=replace(settings.journal, custom_kinds=("team",)))
    with Journal.connect(own) as journal:
        assert journal.emit(EntityRegistered(CUSTOM)).position.topic == settings.journal.topics.journal("catalog")
        with pytest.raises(UnknownKindError) as refused:
            journal.emit(EntityRegistered(urn("teams", "data science")))
        assert refused.value.nearest == "team", "custom kinds are known too"
        journal.emit_unit([TagsAdded(CUSTOM, ["x"])])


@pytest.mark.parametrize(
    ("kind", "nearest"), [("datset", "dataset"), ("datasets", "dataset"), ("steam", "stream"), ("qqq", None)]
)
def test_the_nearest_kind_is_one_that_resembles_it(kind: str, nearest: str | None) -> None:
    assert nearest_kind(kind) == nearest
    assert all(nearest_kind(known) == known for known in KINDS)
