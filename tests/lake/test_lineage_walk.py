"""The walk along relations, held against a naive one; the answer's shape, held against the source's sample."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from itertools import product
from operator import ne
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal import Urn, dataset, program, run, stream, urn
from metajournal.domains.lineage.values import dotted, lineage_json, run_id
from metajournal.domains.lineage.walk import Relation, Walked, walk
from tests.properties import examples

DATA = [dataset("d", name) for name in "abcdef"]
PROGRAMS = [program("d", "app", "spark", name) for name in "pqrst"]


class Held:
    """Relations in memory. `spread`: the candidates are all programs, not only those that touched the data."""

    def __init__(self, relations: Iterable[Relation], *, spread: bool = False) -> None:
        self.relations = list(relations)
        self.spread = spread
        self.asked: list[str] = []

    def programs(self, data: Collection[str]) -> set[str]:
        return {one.program for one in self.relations if self.spread or one.data in data}

    def of(self, programs: Collection[str]) -> list[Relation]:
        self.asked += programs
        return [one for one in self.relations if one.program in programs]


def relation(data: str, name: str, access: str) -> Relation:
    return Relation(data, name, access, (run("d", "app", "spark", name.rpartition("/")[2], "1"),), ("reader",))


def naive(root: str, relations: list[Relation], levels: int, direction: str) -> set[Relation]:
    """The relations of a walk, one edge at a time."""
    to_program = {"upstream": ("write", "unknown"), "downstream": ("read", "unknown")}.get(direction)
    to_data = {"upstream": ("read", "unknown"), "downstream": ("write", "unknown")}.get(direction)
    taken: set[Relation] = set()
    data, reached = {root}, set()
    for _ in range(levels):
        taken |= {one for one in relations if one.data in data and (to_program is None or one.access in to_program)}
        reached = {one.program for one in taken}
        beyond = {one for one in relations if one.program in reached and (to_data is None or one.access in to_data)}
        taken |= beyond
        data = data | {one.data for one in beyond}
    return taken


_RELATIONS = st.lists(
    st.builds(
        relation, st.sampled_from(DATA), st.sampled_from(PROGRAMS), st.sampled_from(["read", "write", "unknown"])
    ),
    max_size=14,
    unique_by=lambda one: one[:3],
)


@settings(deadline=None, max_examples=examples(150))
@given(
    _RELATIONS, st.sampled_from(DATA), st.integers(1, 5), st.sampled_from(["both", "upstream", "downstream"]),
    st.booleans(), st.randoms(use_true_random=False),
)  # fmt: skip
def test_a_walk_finds_what_a_naive_one_finds(
    relations: list[Relation], root: Urn, levels: int, direction: Any, spread: bool, chance: Any
) -> None:
    found = walk(root, Held(relations, spread=spread), levels=levels, limit=100, direction=direction)
    assert found.partial is None
    assert set(found.relations) == naive(root, relations, levels, direction)
    assert len(found.relations) == len(set(found.relations))
    shuffled = Held(chance.sample(relations, len(relations)))
    again = walk(root, shuffled, levels=levels, limit=100, direction=direction)
    assert lineage_json(again, start_ms=1, end_ms=2) == lineage_json(found, start_ms=1, end_ms=2)


@settings(deadline=None, max_examples=examples(80))
@given(_RELATIONS, st.sampled_from(DATA), st.integers(1, 8), st.sampled_from(["both", "upstream", "downstream"]))
def test_a_limit_leaves_the_farthest_nodes_away_and_says_so(
    relations: list[Relation], root: Urn, limit: int, direction: Any
) -> None:
    whole = walk(root, Held(relations), levels=9, limit=100, direction=direction)
    found = walk(root, Held(relations), levels=9, limit=limit, direction=direction)
    nodes = {root} | {node for one in found.relations for node in one[:2]}
    assert len(nodes) <= limit
    assert set(found.relations) <= set(whole.relations)
    whole_nodes = {root} | {node for one in whole.relations for node in one[:2]}
    assert (found.partial is None) == (len(whole_nodes) <= limit)
    assert set(found.relations) == {one for one in whole.relations if {one.data, one.program} <= nodes}
    if found.partial is None:
        assert found == whole


@settings(deadline=None, max_examples=examples(150))
@given(
    _RELATIONS, st.sets(st.sampled_from(DATA), min_size=1), st.integers(1, 4),
    st.sampled_from(["both", "upstream", "downstream"]), st.booleans(),
    st.sets(st.sampled_from([*DATA, *PROGRAMS, *[run("d", "app", "spark", name, "1") for name in "pqrst"]])),
)  # fmt: skip
def test_a_walk_from_several_enters_and_names_nothing_that_may_not_be_seen(
    relations: list[Relation], roots: set[Urn], levels: int, direction: Any, spread: bool, hidden: set[Urn]
) -> None:
    """It is the walk of whoever does not know of it; that there is more to reach is said, and not how much."""
    port = Held(relations, spread=spread)
    found = walk(roots, port, levels=levels, limit=100, direction=direction, visible=lambda urn: urn not in hidden)
    open_ones = [one for one in relations if not {one.data, one.program} & hidden]
    steps = [naive(root, open_ones, levels, direction) for root in roots - hidden]
    expected = {
        one._replace(runs=(), components=()) if hidden.intersection(one.runs) else one for step in steps for one in step
    }
    assert {one._replace(runs=tuple(one.runs), components=tuple(one.components)) for one in found.relations} == expected
    assert found.withheld == bool(roots & hidden or any(_meets(roots - hidden, relations, levels, direction, hidden)))
    assert not hidden.intersection(
        urn for one in found.relations for urn in (one.data, one.program, *one.runs)
    )  # fmt: skip


def _meets(roots: set[Urn], relations: list[Relation], levels: int, direction: str, hidden: set[Urn]) -> Iterable[bool]:
    """Whether each step of a walk over what is open meets something hidden: a program, data, or a run."""
    to_program = {"upstream": ("write", "unknown"), "downstream": ("read", "unknown")}.get(direction)
    to_data = {"upstream": ("read", "unknown"), "downstream": ("write", "unknown")}.get(direction)
    data: set[str] = {*roots}
    for _ in range(levels):
        left = [one for one in relations if one.data in data and (to_program is None or one.access in to_program)]
        programs = {one.program for one in left} - hidden
        yield any(one.program in hidden for one in left)
        reached = [one for one in relations if one.program in programs and (to_data is None or one.access in to_data)]
        yield any(one.data in hidden for one in reached)
        yield any({*one.runs} & hidden for one in [*left, *reached] if not {one.data, one.program} & hidden)
        data |= {one.data for one in reached} - hidden


def test_what_may_not_be_seen_takes_no_room_and_is_said_without_a_number() -> None:
    root, name = DATA[0], PROGRAMS[0]
    port = Held([relation(root, name, "read"), *[relation(data, name, "write") for data in DATA[1:]]])
    found = walk(root, port, levels=1, limit=3, visible=lambda urn: urn in (root, name, DATA[5]) or "run:" in urn)
    assert ({one.data for one in found.relations}, found.partial, found.withheld) == ({root, DATA[5]}, None, True)
    said = lineage_json(found, start_ms=0, end_ms=1)
    assert said["withheld"] is True
    assert {*said} == {"start", "end", "relations", "programs", "data", "withheld"}


def test_where_a_limit_cuts_no_name_tells_where_something_hidden_stands() -> None:
    port = Held([relation(data, PROGRAMS[0], "read") for data in DATA[:4]])
    for hidden, limit in product(DATA[1:4], (1, 2, 3)):
        found = walk(DATA[0], port, levels=1, limit=limit, visible=partial(ne, hidden))
        assert found.withheld, (hidden, limit)
    assert not walk(DATA[0], port, levels=1, limit=2).withheld, "who may see everything lacks what the limit left away"


def test_several_roots_are_walked_from_together_and_count_as_nodes() -> None:
    port = Held([relation(DATA[0], PROGRAMS[0], "read"), relation(DATA[1], PROGRAMS[1], "read")])
    assert len(walk(DATA[:2], port, levels=1, limit=4).relations) == 2
    cut = walk(DATA[:2], port, levels=1, limit=3)
    assert (len(cut.relations), cut.partial is None) == (1, False)


def test_a_cut_answer_has_all_relations_between_the_nodes_that_it_keeps() -> None:
    root, first, second, name = DATA[0], DATA[1], DATA[2], PROGRAMS[0]
    told = [(root, "write"), (first, "read"), (second, "read"), (first, "write")]
    port = Held([relation(data, name, access) for data, access in told])
    found = walk(root, port, levels=9, limit=3, direction="upstream")
    assert [(one.data, one.access) for one in found.relations] == [(root, "write"), (first, "read"), (first, "write")]
    shallow = walk(root, port, levels=1, limit=3, direction="upstream")
    assert [(one.data, one.access) for one in shallow.relations] == [(root, "write"), (first, "read")]


def test_no_more_is_asked_for_than_a_limit_needs() -> None:
    many = [relation(DATA[0], program("d", "app", "spark", f"{number:05}"), "read") for number in range(2_000)]
    port = Held(many)
    found = walk(DATA[0], port, levels=3, limit=10)
    assert (len(found.relations), found.partial) == (
        9,
        "there are more than 10 nodes; only the nearest ones are included",
    )
    assert len(port.asked) == 500


def test_each_programs_relations_are_asked_for_once() -> None:
    port = Held([relation(data, name, "read") for data in DATA for name in PROGRAMS], spread=True)
    walk(DATA[0], port, levels=9, limit=100)
    assert sorted(port.asked) == sorted(PROGRAMS)


def test_the_answer_has_the_sources_shape() -> None:
    """The source's sample, with data and programs where they belong and each program's own type."""
    purchases, frequent = dataset("default", "purchases"), dataset("default", "frequentCustomers")
    flow = program("default", "PurchaseHistory", "flow", "PurchaseFlow")
    service = program("default", "PurchaseHistory", "service", "PurchaseHistoryService")
    first, second = "283-afsd032-adsf90", "283-0rwedfk-09wrff"

    def runs(of: Urn, *ids: str) -> tuple[str, ...]:
        return tuple(f"run:{of.path}/{one}" for one in ids)

    walked = Walked(
        [
            Relation(stream("default", "purchaseStream"), flow, "read", runs(flow, first, second), ("reader",)),
            Relation(purchases, flow, "write", runs(flow, first, second), ("collector",)),
            Relation(frequent, flow, "write", runs(flow, second), ("b", "a")),
            Relation(dataset("default", "history"), service, "unknown", runs(service, "283-zsed032-adsf90"), ()),
        ],
        None,
    )
    assert lineage_json(walked, start_ms=1441310434000, end_ms=1441320599000) == {
        "start": "1441310434000",
        "end": "1441320599000",
        "relations": [
            {
                "data": "dataset.default.frequentCustomers",
                "program": "flow.default.PurchaseHistory.PurchaseFlow",
                "access": "write",
                "runs": [second],
                "component": ["a", "b"],
            },
            {
                "data": "dataset.default.history",
                "program": "service.default.PurchaseHistory.PurchaseHistoryService",
                "runs": ["283-zsed032-adsf90"],
            },
            {
                "data": "dataset.default.purchases",
                "program": "flow.default.PurchaseHistory.PurchaseFlow",
                "access": "write",
                "runs": [second, first],
                "component": ["collector"],
            },
            {
                "data": "stream.default.purchaseStream",
                "program": "flow.default.PurchaseHistory.PurchaseFlow",
                "access": "read",
                "runs": [second, first],
                "component": ["reader"],
            },
        ],
        "programs": {
            "flow.default.PurchaseHistory.PurchaseFlow": {
                "id": {"namespace": "default", "application": "PurchaseHistory", "type": "flow", "id": "PurchaseFlow"},
                "urn": "program:default/PurchaseHistory/flow/PurchaseFlow",
            },
            "service.default.PurchaseHistory.PurchaseHistoryService": {
                "id": {
                    "namespace": "default",
                    "application": "PurchaseHistory",
                    "type": "service",
                    "id": "PurchaseHistoryService",
                },
                "urn": "program:default/PurchaseHistory/service/PurchaseHistoryService",
            },
        },
        "data": {
            "dataset.default.frequentCustomers": {
                "id": {"namespace": "default", "type": "dataset", "id": "frequentCustomers"},
                "urn": "dataset:default/frequentCustomers",
            },
            "dataset.default.history": {
                "id": {"namespace": "default", "type": "dataset", "id": "history"},
                "urn": "dataset:default/history",
            },
            "dataset.default.purchases": {
                "id": {"namespace": "default", "type": "dataset", "id": "purchases"},
                "urn": "dataset:default/purchases",
            },
            "stream.default.purchaseStream": {
                "id": {"namespace": "default", "type": "stream", "id": "purchaseStream"},
                "urn": "stream:default/purchaseStream",
            },
        },
    }


def test_nothing_found_is_an_empty_answer() -> None:
    found = lineage_json(walk(DATA[0], Held([]), levels=1, limit=1), start_ms=0, end_ms=1)
    assert found == {"start": "0", "end": "1", "relations": [], "programs": {}, "data": {}}


@pytest.mark.parametrize(
    ("entity", "written"),
    [
        (dataset("default", "a.b"), "dataset.default.a%2Eb"),
        (dataset("de.fault", "a b"), "dataset.de%2Efault.a%20b"),
        (dataset("d", "a%2Eb"), "dataset.d.a%252Eb"),
        (program("d", "my.app", "spark", "p"), "spark.d.my%2Eapp.p"),
        (urn("file", "s3", "bucket", "a/b.csv"), "file.s3.bucket.a%2Fb%2Ecsv"),
        (urn("topic", "clicks"), "topic.clicks"),
    ],
)
def test_a_dot_inside_a_part_is_escaped(entity: Urn, written: str) -> None:
    assert dotted(entity) == written


def test_ids_of_data_are_decoded_where_their_kind_has_names() -> None:
    found = [dataset("d", "ä b"), urn("file", "s3", "bucket", "a/b"), urn("topic", "c d")]
    walked = Walked([relation(one, PROGRAMS[0], "read") for one in found], None)
    said = lineage_json(walked, start_ms=0, end_ms=1)["data"]
    assert [one["id"] for one in said.values()] == [
        {"namespace": "d", "type": "dataset", "id": "ä b"},
        {"namespace": "s3", "type": "file", "id": "s3/bucket/a%2Fb"},
        {"namespace": None, "type": "topic", "id": "c%20d"},
    ]


def test_run_ids_are_decoded() -> None:
    assert [run_id(run("d", "a", "flow", "f", one)) for one in ("r-1", "2026/01 é")] == ["r-1", "2026/01 é"]
