"""The rules over columns say of plain events what the rules say of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.columns.judging import (
    ACCEPTED,
    ANNOTATED,
    DELETED,
    REGISTERED,
    REJECTED,
    REMOVED,
    SPACES,
    UNCHANGED,
    Clears,
    Judged,
    Kept,
    Operations,
    _narrow,
    judge,
)
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
from metajournal.domains.catalog.urns import dataset
from metajournal.rules import Accepted, Rejected
from tests.properties import examples
from tests.rules.harness import Catalog
from tests.strategies import ACTORS, GROUPS, ordinary_events

ENTITIES = GROUPS[3]
KEPT = ("creation_time", "created_by", "last_update_time", "last_updated_by")
PROPERTIES, TAGS = {"USER": 0, "SYSTEM": 2}, {"USER": 1, "SYSTEM": 3}
KINDS = {EntityRegistered: REGISTERED, EntityDeleted: DELETED}
Told = tuple[int, int, str, str | None]
"""Event, space, name, and the value, None where it is removed."""
Metadata = tuple[dict[str, str], list[str], dict[str, str], list[str]]


def told(number: int, event: Any) -> Iterator[Told]:
    """What an event sets and removes."""
    if isinstance(event, EntityRegistered):
        yield from ((number, 0, name, value) for name, value in event.properties.items())
        yield from ((number, 1, tag, "") for tag in event.tags)
        stated = {"description": event.description, "schema": str(event.schema) if event.schema else None}
        yield from ((number, 2, name, value) for name, value in stated.items() if value is not None)
    elif isinstance(event, PropertiesSet | PropertiesReplaced):
        yield from ((number, PROPERTIES[event.scope], name, value) for name, value in event.properties.items())
    elif isinstance(event, PropertiesRemoved):
        yield from ((number, PROPERTIES[event.scope], name, None) for name in event.keys)
    elif isinstance(event, TagsAdded):
        yield from ((number, TAGS[event.scope], tag, "") for tag in event.tags)
    elif isinstance(event, TagsRemoved):
        yield from ((number, TAGS[event.scope], tag, None) for tag in event.tags)


def cleared(event: Any) -> list[int]:
    """The spaces that an event clears."""
    if isinstance(event, MetadataCleared):
        scopes = ("USER", "SYSTEM") if event.scope == "BOTH" else (event.scope,)
        return [spaces[scope] for scope in scopes for spaces in (PROPERTIES, TAGS)]
    if isinstance(event, PropertiesReplaced):
        return [PROPERTIES[event.scope]]
    if isinstance(event, PropertiesRemoved | TagsRemoved) and event.all:
        return [(PROPERTIES if isinstance(event, PropertiesRemoved) else TAGS)[event.scope]]
    return []


def held(number: int, metadata: Metadata) -> Iterator[Told]:
    for space, some in enumerate(metadata):
        pairs = some.items() if isinstance(some, dict) else ((tag, "") for tag in some)
        yield from ((number, space, name, value) for name, value in pairs)


class Columns:
    """Events and what their entities held before, as `judge` takes them, and its answer in words again."""

    def __init__(self, events: Sequence[Any], actors: Sequence[str | None], times: Sequence[int], before: Any) -> None:
        self._entities = sorted({event.entity for event in events})
        self._before = [before.get(entity) for entity in self._entities]
        had = [one for n, own in enumerate(self._before) if own is not None for one in held(n, own)]
        said = [one for n, event in enumerate(events) for one in told(n, event)]
        self._names = sorted({*KEPT, *(name for _, _, name, _ in [*had, *said])})
        self._values: list[str] = []
        clears = [(n, space) for n, event in enumerate(events) for space in cleared(event)]
        self.judged: Judged = judge(
            np.array([self._entities.index(event.entity) for event in events]),
            np.array([KINDS.get(type(event), ANNOTATED) for event in events]),
            np.array([own is not None for own in self._before]),
            len(self._names),
            self._operations(had),
            self._operations(said),
            Clears(*np.array(clears, np.int64).reshape(-1, 2).T),
            Kept(
                self._name(2, "creation_time"),
                self._name(2, "created_by"),
                self._name(2, "last_update_time"),
                self._name(2, "last_updated_by"),
                np.array([self._value(2, str(time)) for time in times]),
                np.array([self._value(2, actor) for actor in actors]),
            ),
            lambda some, others: np.array([self._values[a] == self._values[b] for a, b in zip(some, others)]),  # noqa: B905
        )

    def _operations(self, some: Sequence[Told]) -> Operations:
        named = [(at, self._name(space, name), self._value(space, value)) for at, space, name, value in some]
        return Operations(*np.array(named, np.int64).reshape(-1, 3).T)

    def _name(self, space: int, name: str) -> int:
        return space * len(self._names) + self._names.index(name)

    def _value(self, space: int, value: str | None) -> int:
        if value is None:
            return REMOVED
        if space in TAGS.values():
            return 0
        self._values.append(value)
        return len(self._values) - 1

    def rows(self) -> list[Metadata]:
        """What the new rows hold."""
        rows: list[Metadata] = [({}, [], {}, []) for _ in range(int((self.judged.outcome == ACCEPTED).sum()))]
        for space, some in enumerate(self.judged.spaces):
            for row, name, value in zip(*(column.tolist() for column in some), strict=True):
                own: Any = rows[row][space]
                text = self._names[name - space * len(self._names)]
                own.update({text: self._values[value]}) if space in PROPERTIES.values() else own.append(text)
        return rows

    def differences(self) -> tuple[list[Told], list[Told]]:
        """What the new rows began and ceased to hold."""
        return self._in_words(self.judged.begun), self._in_words(self.judged.ended)

    def _in_words(self, some: Operations) -> list[Told]:
        found = []
        for row, number, value in zip(*(column.tolist() for column in some), strict=True):
            space, rank = divmod(number, len(self._names))
            found.append((row, space, self._names[rank], self._values[value] if space in PROPERTIES.values() else ""))
        return sorted(found)


NONE: Metadata = ({}, [], {}, [])


def lacking(row: int, these: Metadata, others: Metadata) -> list[Told]:
    """What one row holds and another does not, but for what the fold keeps."""
    return sorted({*held(row, these)}.difference(held(row, others), *(held(row, kept(one)) for one in (these, others))))


def kept(row: Metadata) -> Metadata:
    return {}, [], {name: value for name, value in row[2].items() if name in KEPT}, []


def metadata(row: Any) -> Metadata:
    return dict(row.user_properties), list(row.user_tags), dict(row.system_properties), list(row.system_tags)


def assert_same(first: Sequence[Any], then: Sequence[tuple[Any, str | None]]) -> None:
    """Judge the first events one by one, and what follows in both ways."""
    catalog = Catalog()
    for event in first:
        catalog.judge(event)
    before = {urn: metadata(row) for (_, urn), row in catalog.newest.items() if not row.deleted}
    outcomes, times, rows = [], [], list[Metadata]()
    begun, ended = list[Told](), list[Told]()
    for event, actor in then:
        old = next((metadata(row) for (_, urn), row in catalog.newest.items() if urn == event.entity), NONE)
        found = catalog.judge(event, actor=actor)
        outcomes.append({Accepted: ACCEPTED, Rejected: REJECTED}.get(type(found), UNCHANGED))
        times.append(catalog.at.system_time)
        for row in found.rows if isinstance(found, Accepted) else ():
            begun += lacking(len(rows), metadata(row), old)
            ended += lacking(len(rows), old, metadata(row))
            rows.append(metadata(row))
    columns = Columns([event for event, _ in then], [actor for _, actor in then], times, before)
    assert columns.judged.outcome.tolist() == outcomes
    assert len(columns.judged.spaces) == SPACES
    assert columns.rows() == rows
    assert columns.differences() == (begun, ended)
    assert [list(map(list, row[::2])) for row in columns.rows()] == [list(map(list, row[::2])) for row in rows]


def ordinary() -> st.SearchStrategy[Any]:
    """Events without a schema that is a list, of which only the caller knows what the text is."""
    return ordinary_events(ENTITIES).filter(lambda event: not isinstance(getattr(event, "schema", None), tuple))


@given(
    st.lists(ordinary(), max_size=12),
    st.lists(st.tuples(ordinary(), st.sampled_from(ACTORS)), min_size=1, max_size=25),
)
@settings(deadline=None, max_examples=examples(150))
def test_any_plain_events_have_the_outcomes_and_rows_that_each_has_by_itself(
    first: list[Any], then: list[tuple[Any, str | None]]
) -> None:
    begun = [EntityRegistered(entity, "kept", properties={"a": "1"}, tags=["z"]) for entity in ENTITIES[:3]]
    assert_same([*begun, *first], then)


ONE, OTHER = dataset("default", "one"), dataset("default", "other")


def test_events_on_entities_that_are_not_there_are_rejected_and_change_nothing() -> None:
    assert_same(
        [EntityRegistered(OTHER), EntityDeleted(OTHER)],
        [
            (TagsAdded(ONE, ["lost"]), "alice"),
            (EntityDeleted(ONE), "alice"),
            (MetadataCleared(OTHER, "BOTH"), None),
            (EntityRegistered(ONE, tags=["a"]), None),
            (PropertiesRemoved(OTHER, all=True), "bob"),
            (TagsAdded(ONE, ["a"]), "bob"),
            (EntityRegistered(OTHER), "bob"),
        ],
    )


def test_what_is_set_again_to_the_same_or_removed_without_being_there_changes_nothing() -> None:
    assert_same(
        [EntityRegistered(ONE, properties={"a": "1", "b": "2"}, tags=["t"])],
        [
            (PropertiesSet(ONE, {"a": "1"}), "bob"),
            (PropertiesSet(ONE, {"a": "2", "b": "2"}), "bob"),
            (PropertiesSet(ONE, {"a": "2"}), "carol"),
            (PropertiesRemoved(ONE, ["nowhere"]), "carol"),
            (TagsRemoved(ONE, ["t", "u"]), None),
            (TagsRemoved(ONE, all=True), "bob"),
            (PropertiesRemoved(ONE, all=True), "bob"),
            (PropertiesReplaced(ONE, {"a": "1", "c": "3"}), "bob"),
            (PropertiesReplaced(ONE, {"c": "3", "a": "1"}), "carol"),
            (PropertiesReplaced(ONE, {"c": "4"}), "carol"),
            (PropertiesReplaced(ONE, {}), "carol"),
            (PropertiesReplaced(ONE, {}), "carol"),
            (MetadataCleared(ONE, "USER"), "bob"),
            (PropertiesSet(ONE, {"a": "2"}), "bob"),
            (MetadataCleared(ONE, "SYSTEM"), "bob"),
        ],
    )


def test_a_clear_of_one_entity_leaves_the_next_one_alone() -> None:
    both = [EntityRegistered(one, "text", properties={"a": "1"}, tags=["t"]) for one in (ONE, OTHER)]
    assert_same(
        both,
        [
            (TagsAdded(OTHER, ["u"]), "bob"),
            (MetadataCleared(ONE, "BOTH"), "bob"),
            (TagsAdded(ONE, ["u"]), "bob"),
            (EntityDeleted(ONE), "bob"),
            (TagsAdded(OTHER, ["v"]), "bob"),
            (EntityRegistered(ONE, "anew"), None),
        ],
    )


def test_an_event_that_names_one_thing_twice_means_the_last() -> None:
    names = np.array([0, 0, 0])
    kept = Kept(2 * 5 + 1, 2 * 5 + 2, 2 * 5 + 3, 2 * 5 + 4, np.array([3]), np.array([REMOVED]))
    nothing = Operations(*np.zeros((3, 0), np.int64))
    twice = Operations(np.zeros(3, np.int64), names, np.array([1, 2, 0]))
    none = Clears(*np.zeros((2, 0), np.int64))
    live = np.array([False])
    judged = judge(np.array([0]), np.array([REGISTERED]), live, 5, nothing, twice, none, kept, np.equal)
    assert [column.tolist() for column in judged.spaces[0]] == [[0], [0], [0]]


def test_numbers_are_narrowed_only_where_all_of_them_fit() -> None:
    few, many = _narrow(np.array([0, 0xFFFF]), 0x10000), _narrow(np.array([1, 0x10000]), 0x10001)
    assert (few.dtype.name, few.tolist()) == ("uint16", [0, 0xFFFF])
    assert (many.dtype.name, many.tolist()) == ("int64", [1, 0x10000])
