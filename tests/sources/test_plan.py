"""The plan against an independent model: whatever changes between runs, the rules end at what the system holds.

Each run's events go through the real rules (`tests/rules/harness.py`), cut anywhere by a kill. The model keeps apart
what people, other programs and the source said; it knows nothing of marks, claims or events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from metajournal.domains.catalog.events import (
    SYSTEM,
    EntityDeleted,
    EntityRegistered,
    PropertiesRemoved,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
)
from metajournal.domains.catalog.urns import dataset
from metajournal.domains.lineage.events import AccessesRecorded, RunStarted, RunStopped
from metajournal.rules import Rejected
from metajournal.schemas.hashing import canonical_json
from metajournal.schemas.limits import MAX_ENTITY_BYTES
from metajournal.schemas.positions import Position
from metajournal.sources.found import BUDGET_BYTES, Found, fitted
from metajournal.sources.plan import Change, Held, Mark, plan
from metajournal.sources.source import Identity
from tests.builders import NOON
from tests.properties import examples
from tests.rules.harness import Catalog
from tests.rules.harness import given as stated

SHOP = Identity("databases", "shop", "database.")
DBT = Identity("dbt", "models", "dbt.")
NAMES = ("orders", "customers", "totals", "ünï/code")
URNS = tuple(dataset("postgres://db:5432", f"shop.public.{name}") for name in NAMES)

RUNS = ("database.run", "database.begun_run", "database.ended_run")

keys = st.sampled_from(["type", "comment.id", "comment.name", "primary_key"])
texts = st.sampled_from(["a", "b", "größer"])
things = st.builds(
    Found,
    st.sampled_from(URNS),
    st.none() | texts,
    st.none() | st.just((("id", "int"),)) | st.just((("id", "bigint"), ("name", "text"))),
    st.dictionaries(keys, texts, max_size=3),
    st.sets(texts, max_size=2).map(lambda tags: tuple(sorted(tags))),
    st.none() | st.sets(st.sampled_from(URNS), max_size=2).map(lambda urns: tuple(sorted(urns))),
    st.dictionaries(st.sampled_from(["id", "name"]), st.just(("shop.public.orders.id",)), max_size=1),
)
systems = st.lists(things, max_size=4, unique_by=lambda found: found.entity)


def held_of(catalog: Catalog) -> dict[str, Held]:
    """What a read of the lake would give."""
    gone: dict[str, int] = getattr(catalog, "gone", {})
    return {
        urn: Held(not row.deleted, gone.get(urn, 0), row.system_properties, row.system_tags)
        for (_, urn), row in catalog.newest.items()
        if row.kind in ("dataset", "program")
    }


def judged(catalog: Catalog, event: Any, actor: str) -> None:
    outcome = catalog.judge(event, actor=actor)
    assert not isinstance(outcome, Rejected), (event, outcome)
    if isinstance(event, EntityDeleted):
        gone = catalog.__dict__.setdefault("gone", {})
        gone[str(event.entity)] = catalog.at.position


def brought(
    catalog: Catalog, source: Identity, found: list[Found], *, whole: bool = True, most: int | None = None
) -> list[Any]:
    """One run; of its events so many arrive before it is killed."""
    made = plan(source, found, held_of(catalog), whole=whole, at_ms=NOON + 1000 * catalog.records)
    events = [note for step in made.steps for note in step.notes]
    events += [fact for step in made.steps for fact in step.facts]
    events += [event for step in made.steps for event in step.events]
    for event in events:
        assert not event.validate(), event.validate()
    for event in events[:most]:
        judged(catalog, event, source.actor)
    return events


@dataclass
class Entry:
    """What is known of one entity by who said it, apart from the four kept properties."""

    by_source: bool
    tags: set[str] = field(default_factory=set)
    properties: dict[str, str] = field(default_factory=dict)
    program: dict[str, str] = field(default_factory=dict)
    """SYSTEM properties of somebody else."""
    found: Found | None = None


class Runs(RuleBasedStateMachine):
    """Runs, kills, people and other programs in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.catalog = Catalog()
        self.model: dict[str, Entry] = {}

    @initialize(first=systems)
    def begin(self, first: list[Found]) -> None:
        self.run_whole(first)

    @rule(found=systems)
    def run_whole(self, found: list[Found]) -> None:
        brought(self.catalog, SHOP, found)
        there = {one.entity for one in found}
        for urn, entry in list(self.model.items()):
            if urn not in there and entry.by_source:
                del self.model[urn]
            elif urn not in there:
                entry.found = None
        for one in found:
            self.model.setdefault(one.entity, Entry(by_source=True)).found = one

    @rule(found=systems, most=st.integers(0, 6))
    def run_killed(self, found: list[Found], most: int) -> None:
        """Then the same run once more: as if it had not been killed."""
        brought(self.catalog, SHOP, found, most=most)
        self.run_whole(found)

    @rule(found=systems, most=st.integers(0, 6), then=systems)
    def run_killed_and_changed(self, found: list[Found], most: int, then: list[Found]) -> None:
        """A kill, and the system changes before the next run: that one leaves nothing of the killed one behind."""
        brought(self.catalog, SHOP, found, most=most)
        there = {one.entity for one in found}
        for urn in [urn for urn, entry in self.model.items() if entry.by_source and urn not in there]:
            if self.catalog.newest["default", urn].deleted:  # by then it was gone, with what people had added
                del self.model[urn]
        self.run_whole(then)

    @rule(found=systems)
    def run_in_part(self, found: list[Found]) -> None:
        brought(self.catalog, SHOP, found, whole=False)
        for one in found:
            self.model.setdefault(one.entity, Entry(by_source=True)).found = one

    @rule(urn=st.sampled_from(URNS), tag=texts, value=texts)
    def people_annotate(self, urn: str, tag: str, value: str) -> None:
        if urn in self.model:
            judged(self.catalog, TagsAdded(urn, [tag]), "alice")
            judged(self.catalog, PropertiesSet(urn, {"owner": value, "database.type": value}), "alice")
            self.model[urn].tags.add(tag)
            self.model[urn].properties |= {"owner": value, "database.type": value}

    @rule(urn=st.sampled_from(URNS), value=texts)
    def people_register(self, urn: str, value: str) -> None:
        judged(self.catalog, EntityRegistered(urn, properties={"owner": value}), "alice")
        self.model.setdefault(urn, Entry(by_source=False)).properties["owner"] = value

    @rule(urn=st.sampled_from(URNS), value=texts)
    def a_program_annotates(self, urn: str, value: str) -> None:
        if urn in self.model:
            judged(self.catalog, PropertiesSet(urn, {"rows": value}, SYSTEM), "loader")
            self.model[urn].program["rows"] = value

    @invariant()
    def the_catalog_is_what_the_model_says(self) -> None:
        live = {urn: row for (_, urn), row in self.catalog.newest.items() if row.kind == "dataset" and not row.deleted}
        assert live.keys() == self.model.keys()
        for urn, entry in self.model.items():
            row = live[urn]
            assert set(row.user_tags) == entry.tags
            assert dict(row.user_properties) == entry.properties
            system = stated(row.system_properties)
            own = {key: value for key, value in system.items() if key.startswith("source.") or key in RUNS}
            rest = {key: value for key, value in system.items() if key not in own}
            found = entry.found
            said = {} if found is None else {f"database.{key}": value for key, value in found.properties.items()}
            if found is not None:
                said |= {f"database.upstream.{name}": ", ".join(of) for name, of in found.columns.items()}
                said |= {} if found.description is None else {"description": found.description}
                said |= {} if not found.schema else {"schema": canonical_json([*map(list, found.schema)]).decode()}
            assert rest == said | entry.program
            assert set(row.system_tags) == set(found.tags if found else ())
            marks = set() if found is None else {"source.databases.shop"}
            marks |= (
                {"database.run", "database.begun_run"} if found is not None and found.upstreams is not None else set()
            )
            assert own.keys() - {"database.ended_run"} == marks

    @invariant()
    def the_same_once_more_tells_nothing(self) -> None:
        found = [entry.found for entry in self.model.values() if entry.found is not None]
        assert plan(SHOP, found, held_of(self.catalog), whole=True, at_ms=NOON).steps == []

    @invariant()
    def the_open_runs_are_those_of_the_views_and_read_what_they_are_made_of(self) -> None:
        runs = {row.run: row for key, row in self.catalog.facts.items() if key[0] == "runs"}
        touched: dict[str, set[tuple[str, str]]] = {}
        current = set[str]()
        for key, row in self.catalog.facts.items():
            if key[0] == "accesses":
                touched.setdefault(row.run, set()).add((row.data, row.access))
        for urn, entry in self.model.items():
            if entry.found is not None and entry.found.upstreams is not None:
                run = self.catalog.newest["default", urn].system_properties["database.run"]
                assert runs[run].stop is None
                current.add(run)
                assert touched[run] == {(data, "read") for data in entry.found.upstreams} | {(urn, "write")}
        assert {run for run, row in runs.items() if row.stop is None} == current


TestRuns = pytest.mark.thorough(Runs.TestCase)
TestRuns.settings = settings(max_examples=examples(150), stateful_step_count=12, deadline=None)


def test_a_new_table_is_registered_and_marked_before_it_is_tagged() -> None:
    catalog = Catalog()
    found = Found(URNS[0], "What was bought", (("id", "int"),), {"type": "table"}, ("core",))
    registered, said, tagged = brought(catalog, SHOP, [found])
    assert registered == EntityRegistered(URNS[0])
    assert tagged == TagsAdded(URNS[0], ["core"], SYSTEM)
    properties = {"database.type": "table", "description": "What was bought", "schema": '[["id","int"]]'}
    mark = '{"keys":["description","schema"],"tags":["core"]}'
    assert said == PropertiesSet(URNS[0], {**properties, "source.databases.shop": mark}, SYSTEM)


def test_a_changed_column_is_one_event() -> None:
    catalog = Catalog()
    brought(catalog, SHOP, [Found(URNS[0], schema=(("id", "int"),), properties={"comment.id": "the key"})])
    then = Found(URNS[0], schema=(("id", "bigint"),), properties={"comment.id": "the key"})
    (changed,) = brought(catalog, SHOP, [then])
    assert changed == PropertiesSet(URNS[0], {"schema": '[["id","bigint"]]'}, SYSTEM)


def test_a_comment_that_is_gone_is_removed_and_nothing_else() -> None:
    catalog = Catalog()
    brought(catalog, SHOP, [Found(URNS[0], properties={"comment.id": "the key", "type": "table"}, tags=("a",))])
    removed, untagged, said = brought(catalog, SHOP, [Found(URNS[0], properties={"type": "table"})])
    assert removed == PropertiesRemoved(URNS[0], ["database.comment.id"], scope=SYSTEM)
    assert untagged == TagsRemoved(URNS[0], ["a"], scope=SYSTEM)
    assert said.properties == {"source.databases.shop": '{"keys":[],"tags":[]}'}


def test_a_renamed_table_is_one_that_is_gone_and_a_new_one() -> None:
    catalog = Catalog()
    brought(catalog, SHOP, [Found(URNS[0])])
    events = brought(catalog, SHOP, [Found(URNS[1])])
    assert [type(event) for event in events] == [EntityRegistered, PropertiesSet, EntityDeleted]
    assert [event.entity for event in events] == [URNS[1], URNS[1], URNS[0]]


def test_what_a_read_was_not_about_stays() -> None:
    catalog = Catalog()
    brought(catalog, SHOP, [Found(URNS[0]), Found(URNS[1]), Found(URNS[2])])
    made = plan(SHOP, [], held_of(catalog), whole=True, at_ms=NOON, selects=lambda entity, _: entity != URNS[1])
    assert (made.of(Change.DELETE), made.unselected, made.kept) == ([URNS[0], URNS[2]], 1, 0)


def test_a_read_that_is_not_whole_deletes_nothing() -> None:
    catalog = Catalog()
    brought(catalog, SHOP, [Found(URNS[0]), Found(URNS[1])])
    made = plan(SHOP, [Found(URNS[1])], held_of(catalog), whole=False, at_ms=NOON)
    assert (made.steps, made.unchanged, made.kept) == ([], 1, 1)


def test_what_changed_after_the_read_began_is_not_deleted() -> None:
    """A run that began later may have listed it, and be done already; the next run deletes what is gone."""
    catalog = Catalog()
    brought(catalog, SHOP, [Found(URNS[0]), Found(URNS[1])])
    held = {urn: row._replace(newest=Position("t", 3, 7 + (urn == URNS[1]))) for urn, row in held_of(catalog).items()}
    made = plan(SHOP, [], held, whole=True, at_ms=NOON, since={("t", 3): 8})
    assert (made.of(Change.DELETE), made.kept) == ([URNS[0]], 1)
    assert made.steps[0].expected == 7
    made = plan(SHOP, [], held, whole=True, at_ms=NOON, since={("t", 3): 9})
    assert (made.of(Change.DELETE), made.kept) == ([URNS[0], URNS[1]], 0)


def test_a_view_whose_definition_is_not_known_keeps_its_run() -> None:
    catalog = Catalog()
    brought(catalog, SHOP, [Found(URNS[2], upstreams=(URNS[0],), columns={"id": ("shop.public.orders.id",)})])
    unknown = Found(URNS[2], keeps=frozenset({"sql", "upstream.*", "run"}))
    assert brought(catalog, SHOP, [unknown]) == []
    assert brought(Catalog(), SHOP, [unknown])[0] == EntityRegistered(URNS[2])


def test_what_another_source_brought_is_not_touched() -> None:
    catalog = Catalog()
    brought(catalog, DBT, [Found(URNS[0], "by dbt", (("id", "int"),), tags=("core",))])
    assert brought(catalog, SHOP, []) == []
    assert plan(SHOP, [], held_of(catalog), whole=True, at_ms=NOON).kept == 0


def test_two_sources_of_one_table_neither_fight_nor_delete_the_others() -> None:
    """The description stays that of who said it first; each one's end takes its own along, the last one's the table."""
    catalog = Catalog()
    of_dbt = Found(URNS[0], "by dbt", tags=("core",))
    of_shop = Found(URNS[0], "by the database", (("id", "int"),), {"type": "table"})
    brought(catalog, DBT, [of_dbt])
    assert brought(catalog, SHOP, [of_shop])
    assert brought(catalog, DBT, [of_dbt]) == brought(catalog, SHOP, [of_shop]) == []
    properties = catalog.newest["default", URNS[0]].system_properties
    assert (properties["description"], properties["schema"]) == ("by dbt", '[["id","int"]]')
    brought(catalog, DBT, [])
    row = catalog.newest["default", URNS[0]]
    assert (row.deleted, row.system_tags, "description" in row.system_properties) == (False, (), False)
    brought(catalog, SHOP, [of_shop])
    assert catalog.newest["default", URNS[0]].system_properties["description"] == "by the database"
    brought(catalog, SHOP, [])
    assert catalog.newest["default", URNS[0]].deleted


def test_what_people_registered_first_outlives_the_source() -> None:
    catalog = Catalog()
    judged(catalog, EntityRegistered(URNS[0], properties={"owner": "carol"}), "carol")
    brought(catalog, SHOP, [Found(URNS[0], "by the database", properties={"type": "table"})])
    made = plan(SHOP, [], held_of(catalog), whole=True, at_ms=NOON)
    assert [step.change for step in made.steps] == [Change.RELEASE]
    brought(catalog, SHOP, [])
    row = catalog.newest["default", URNS[0]]
    assert (row.deleted, stated(row.system_properties), dict(row.user_properties)) == (False, {}, {"owner": "carol"})


def test_what_people_and_programs_said_first_is_neither_changed_nor_taken_away() -> None:
    catalog = Catalog()
    agreed = EntityRegistered(URNS[0], "Orders, as agreed with finance", [("id", "bigint")])
    judged(catalog, agreed, "carol")
    judged(catalog, TagsAdded(URNS[0], ["pii"], scope=SYSTEM), "classifier")
    of_shop = Found(URNS[0], "orders", (("id", "int"),), {"type": "table"}, ("pii", "core"))
    brought(catalog, SHOP, [of_shop])
    assert brought(catalog, SHOP, [of_shop]) == []
    row = catalog.newest["default", URNS[0]]
    said = {"description": "Orders, as agreed with finance", "schema": '[["id","bigint"]]'}
    assert said.items() <= row.system_properties.items()
    assert row.system_tags == ("core", "pii")
    brought(catalog, SHOP, [])
    row = catalog.newest["default", URNS[0]]
    assert (row.deleted, stated(row.system_properties), row.system_tags) == (False, said, ("pii",))


def test_a_view_that_goes_back_to_an_earlier_definition_is_a_new_run() -> None:
    catalog = Catalog()
    runs: list[Any] = []
    for upstreams in ((URNS[0],), (URNS[1],), (URNS[0],)):
        events = brought(catalog, SHOP, [Found(URNS[2], upstreams=upstreams)])
        assert [type(event) for event in events if isinstance(event, RunStopped)] == [RunStopped] * bool(runs)
        assert any(isinstance(event, AccessesRecorded) for event in events)
        runs += [event.run for event in events if isinstance(event, RunStarted)]
    assert len({*runs}) == 3
    (noted, dropped, deleted) = brought(catalog, SHOP, [])
    assert noted.properties == {"database.ended_run": str(runs[-1])}
    assert (dropped.run, dropped.status, type(deleted)) == (runs[-1], "DROPPED", EntityDeleted)


def test_a_note_that_a_kill_left_on_an_entity_of_peoples_is_taken_away() -> None:
    catalog = Catalog()
    judged(catalog, EntityRegistered(URNS[0]), "carol")
    brought(catalog, SHOP, [Found(URNS[0], upstreams=(URNS[1],))], most=1)
    brought(catalog, SHOP, [])
    row = catalog.newest["default", URNS[0]]
    assert (row.deleted, stated(row.system_properties).keys() - {"database.ended_run"}) == (False, set())


def test_sources_of_two_kinds_may_have_one_id() -> None:
    """Each knows its own, so that the one deletes nothing of the other's."""
    catalog = Catalog()
    brought(catalog, SHOP, [Found(URNS[0])])
    brought(catalog, Identity("dbt", "shop", "dbt."), [Found(URNS[1])])
    assert brought(catalog, SHOP, [Found(URNS[0])]) == []
    assert not catalog.newest["default", URNS[0]].deleted


def test_a_mark_that_somebody_has_overwritten_is_set_right() -> None:
    catalog = Catalog()
    found = Found(URNS[0], "d", upstreams=(URNS[1],))
    brought(catalog, SHOP, [found])
    for garbage in ("", "null", "[]", '{"keys": 1}', '{"keys": [1, null]}', "no json"):
        judged(
            catalog,
            PropertiesSet(URNS[0], {"source.databases.shop": garbage, "database.run": "no run"}, SYSTEM),
            "mallory",
        )
        assert brought(catalog, SHOP, [found])
        assert brought(catalog, SHOP, [found]) == []


@given(st.text(), st.text())
def test_a_mark_reads_what_it_writes(key: str, tag: str) -> None:
    if not any("\ud800" <= character <= "\udfff" for character in key + tag):
        assert Mark.read(Mark((key,), (tag,)).text) == Mark((key,), (tag,))


hostile = st.text(max_size=20) | st.sampled_from(["\ud800", "\0", "x" * 2000, "é" * 3_000, ""])


@settings(max_examples=examples(60))
@given(
    hostile,
    st.lists(st.tuples(hostile, hostile), max_size=30) | st.just([("column", "t")]),
    st.dictionaries(hostile, hostile, max_size=5),
    st.lists(hostile, max_size=3),
)
def test_whatever_a_system_calls_its_things_makes_valid_events(
    description: str, schema: list[tuple[str, str]], properties: dict[str, str], tags: list[str]
) -> None:
    found = Found(URNS[0], description, tuple(schema), properties, tuple(tags))
    catalog = Catalog()
    brought(catalog, SHOP, [found])
    assert brought(catalog, SHOP, [found]) == []
    cut = fitted(found)
    size = len(canonical_json([cut.description, cut.schema, cut.stated, list(cut.tags)]))
    assert size <= BUDGET_BYTES < MAX_ENTITY_BYTES


def test_what_is_too_large_for_an_entity_is_cut_and_says_so() -> None:
    columns = tuple((f"column_{number}", "t" * 900) for number in range(2_000))
    comments = {f"comment.column_{number}": "é" * 70_000 for number in range(3)}
    found = Found(URNS[0], "é" * 70_000, columns, comments)
    catalog = Catalog()
    brought(catalog, SHOP, [found])
    assert brought(catalog, SHOP, [found]) == []
    assert "… [cut: " in catalog.newest["default", URNS[0]].system_properties["description"]
    assert json.loads(catalog.newest["default", URNS[0]].system_properties["schema"])[0][0] == "column_0"
