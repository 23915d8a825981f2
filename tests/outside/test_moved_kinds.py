"""A kind that a domain from outside took over: undeclared below the cut, refused in the catalog's topic above it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metajournal.domains.catalog.events import EntityDeleted, EntityRegistered, PropertiesSet, TagsAdded
from metajournal.domains.catalog.urns import dataset, run
from metajournal.domains.lineage.events import AccessesRecorded
from metajournal.fold.folded import Prior
from metajournal.fold.judging import MOVED, fold
from metajournal.fold.prior import KnownOriginals
from metajournal.fold.readings import Readings, read_all, read_table
from metajournal.fold.records import Place, records_of
from metajournal.lake.tables import Lake
from metajournal.producers.recorded.served import NEVER, Served, moved_from
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.rules.digest import digests_of_topics, served_digests
from metajournal.schemas import registry
from metajournal.schemas.domain import Domain, Kind
from metajournal.schemas.errors import DomainError, InvalidUrnError
from metajournal.schemas.kinds import undeclared
from metajournal.schemas.positions import position
from metajournal.schemas.registry import take_in
from metajournal.schemas.urn import Urn, urn
from tests.builders import NOON, record_of
from tests.model import JournalRecord
from tests.outside.taking_in import taken_in
from tests.streaming.both_ways import assert_same
from tests.streaming.harness import TOPIC, table_of

GAMES = Domain("games", "", kinds=(Kind("league", "games", 1, 1), Kind("game", "games", 2, 2, "league", 1)))
SERVED = Served("games", "metajournal-games", GAMES.kinds, True, 2, {TOPIC: [position(1, 6)]})
ALONE = urn("game", "chess")
"""It has one part, which the kind's row does not allow."""


def at_cut() -> list[JournalRecord]:
    """Six records below the cut and six above it, made while nobody serves games."""
    both: list[Any] = [
        EntityRegistered(ALONE),
        EntityRegistered(dataset("a", "b")),
        TagsAdded(urn("game", "go", "x"), ["t"]),
        AccessesRecorded(run("a", "app", "flow", "f", "1"), [(ALONE, "read", NOON)]),
        PropertiesSet(dataset("a", "b"), {"names": "game:chess"}),
        EntityDeleted(ALONE),
    ]
    return [record_of(event, number) for number, event in enumerate(both * 2)]


@pytest.fixture
def records() -> Iterator[list[JournalRecord]]:
    made = at_cut()
    with taken_in(GAMES):
        yield made


@pytest.fixture(autouse=True)
def no_other_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No journal of this process serves another domain that joined: what joined one of an earlier test is set aside."""
    monkeypatch.setattr(registry, "_outside", {})


def place(moved: tuple[tuple[str, int], ...]) -> Place:
    return Place(TOPIC, 0, 1, "catalog", frozenset(), moved)


def verdicts(readings: Readings) -> list[tuple[str, str | None]]:
    class Nothing(dict[Any, Any]):
        def __missing__(self, key: Any) -> Any:
            return None

    prior = Prior(Nothing(), {}, KnownOriginals({}, ()), dict.fromkeys(readings.needs().facts))
    return [(one.verdict.outcome, one.verdict.reason) for one in fold(readings, prior, NOON).judged]


def test_below_the_cut_it_is_judged_as_ever_and_from_there_on_rejected(records: list[JournalRecord]) -> None:
    """One by one and side by side; what merely names such an entity goes by the cut too."""
    where = place(moved_from([SERVED], TOPIC, 0))
    assert where.moved == (("game", position(1, 6)), ("league", position(1, 6)))
    below = [("accepted", None), ("accepted", None), ("rejected", "unknown-entity"), *[("accepted", None)] * 3]
    above = [("rejected", MOVED), ("unchanged", None), ("rejected", MOVED), ("rejected", "invalid")]
    above += [("unchanged", None), ("rejected", MOVED)]
    end = position(1, 12)
    table = table_of(records)
    singly = read_all(records_of(table, 1), where, position(1, 0), end)
    assert verdicts(singly) == verdicts(read_table(table, where, 1, position(1, 0), end)) == below + above
    entities = singly.items[0][1].event.entities  # type: ignore[union-attr]
    assert (entities[0].domain, entities[0].aggregate) == ("catalog", ALONE)


def test_a_journal_that_does_not_serve_it_keeps_it_as_the_catalogs(records: list[JournalRecord]) -> None:
    """Another journal of the same process serves the kind: here nothing has changed."""
    where = place(moved_from([], TOPIC, 0))
    assert dict(where.moved) == {"game": NEVER, "league": NEVER}
    singly = read_all(records_of(table_of(records), 1), where, position(1, 0), position(1, 12))
    assert MOVED not in {reason for _, reason in verdicts(singly)}
    assert verdicts(singly)[6] == ("accepted", None)
    assert "games" not in {**served_digests(), **digests_of_topics(["catalog"])}


def test_in_columns_the_same(records: list[JournalRecord], tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.create()
    plain = [record_of(TagsAdded(dataset("a", "b"), [str(number)]), 12 + number) for number in range(40)]
    rows = assert_same(lake, [*records, *plain], moved=moved_from([SERVED], TOPIC, 0))
    assert [row["urn"] for row in rows[:2]] == ["game:chess", "dataset:a/b"]


def test_a_topic_that_is_younger_than_the_domain_reads_nothing_as_undeclared() -> None:
    with taken_in(GAMES):
        assert moved_from([SERVED], "metajournal.journal.games", 0) == ()


def test_rows_of_before_are_none_of_the_new_topics() -> None:
    """Its positions begin behind all of the catalog's, so what it says of an entity is newer."""
    topic = "metajournal.journal.games"
    epochs = Epochs({topic: TopicEpoch(topic, 2, "id", 1, SERVED), TOPIC: TopicEpoch(TOPIC, 1, "id", 1)})
    assert epochs.first(topic) == position(2, 0)
    assert epochs.first(TOPIC) == 0
    assert epochs.domains[-1] == "games"


def test_a_urn_follows_the_kind_whenever_it_was_made() -> None:
    early = urn("game", "go", "first")
    assert (early.domain, early.aggregate) == ("catalog", early)
    with taken_in(GAMES):
        assert (early.domain, early.aggregate) == ("games", Urn.parse("league:go"))
        with pytest.raises(InvalidUrnError, match="a game has 2 parts"):
            urn("game", "chess")
        with undeclared(["game"]):
            assert Urn.parse("game:chess").aggregate == "game:chess"
    assert Urn.parse("game:go/first").domain == "catalog"


def test_one_process_does_not_serve_a_kind_in_two_ways() -> None:
    others = Domain("sports", "", kinds=(Kind("game", "sports"),))
    with taken_in(GAMES):
        take_in(GAMES)
        for other in (others, GAMES._replace(kinds=GAMES.kinds[:1])):
            with pytest.raises(DomainError, match="Another journal of this process serves the domain games") as caught:
                take_in(other)
            assert caught.value.code == "other-kinds"


def test_an_old_client_is_told_which_domain_has_the_kind() -> None:
    record = record_of(EntityRegistered(urn("game", "go", "x")), 7)
    with taken_in(GAMES):
        where = place(moved_from([SERVED], TOPIC, 0))
        readings = read_all(records_of(table_of([record]), 1), where, position(1, 7), position(1, 8))
        (judged,) = fold(readings, Prior({}, {}, KnownOriginals({}, ()), {}), NOON).judged
    assert judged.verdict.detail == {"kind": "game", "domain": "games"}
