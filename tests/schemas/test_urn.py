"""URNs round-trip any name, have one spelling, and say their kind's domain and aggregate."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal import InvalidUrnError, Urn, app, dataset, program, run, stream, urn
from metajournal.domains.catalog.domain import PROGRAM_TYPES
from metajournal.schemas.kinds import KINDS, domain_of_kind, kind_of
from tests.schemas.builders import custom_kinds, names


@given(custom_kinds, st.lists(names, min_size=1, max_size=5))
def test_any_name_round_trips(kind: str, parts: list[str]) -> None:
    made = urn(kind, *parts)
    assert made.isascii()
    assert made.kind == kind
    assert made.parts == tuple(parts)
    assert Urn(str(made)) == made
    assert Urn(str(made)).parts == tuple(parts)


@given(st.lists(names, min_size=1, max_size=4), st.lists(names, min_size=1, max_size=4))
def test_no_name_forges_another(left: list[str], right: list[str]) -> None:
    assert (urn("thing", *left) == urn("thing", *right)) == (left == right)


@given(names, names)
def test_slashes_and_colons_in_names_stay_in_their_part(namespace: str, name: str) -> None:
    made = dataset(namespace, f"{name}/b:c%2F")
    assert made.path.count("/") == 1
    assert (made.namespace, made.name) == (namespace, f"{name}/b:c%2F")


@given(st.text(max_size=40))
def test_the_parser_refuses_or_accepts_but_never_breaks(text: str) -> None:
    try:
        parsed = Urn.parse(text)
    except InvalidUrnError:
        return
    assert urn(parsed.kind, *parsed.parts) == text


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("default", "a b"), "dataset:default/a%20b"),
        (("default", "_x"), "dataset:default/%5Fx"),
        (("default", "x_"), "dataset:default/x_"),
        (("default", ".$~+-"), "dataset:default/%2E$~+-"),
        (("default", "é"), "dataset:default/%C3%A9"),
        (("a/b", "100%"), "dataset:a%2Fb/100%25"),
    ],
)
def test_the_spelling_is_fixed(parts: tuple[str, str], text: str) -> None:
    assert dataset(*parts) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dataset",
        "dataset:",
        "dataset:default",
        "dataset:default/",
        "dataset:/purchases",
        "dataset:default//purchases",
        "dataset:default/a/b",
        "Dataset:default/a",
        "1x:a",
        "x_y:a",
        "dataset:default/a b",
        "dataset:default/_x",
        "dataset:default/%78",
        "dataset:default/a%2f",
        "dataset:default/a%",
        "dataset:default/a%4",
        "dataset:default/a%zz",
        "dataset:default/a%+1",
        "dataset:default/%FF",
        "dataset:default/%ED%A0%80",
        "dataset:default/é",
        "dataset:default/a\n",
        "program:default/app/cronjob/x",
        "run:default/app/cronjob/x/1",
        "app:default",
        "repo:a/b",
    ],
)
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(InvalidUrnError) as caught:
        Urn.parse(text)
    assert caught.value.text == text
    assert caught.value.reason


def test_a_urn_takes_at_most_1024_bytes() -> None:
    assert len(urn("x", "a" * 1022)) == 1024
    with pytest.raises(InvalidUrnError, match="longer than 1024"):
        urn("x", "a" * 1023)
    with pytest.raises(InvalidUrnError, match="longer than 1024"):
        urn("x", "é" * 171)


@pytest.mark.parametrize("part", ["", "\ud800", 7, None])
def test_parts_that_cannot_be_encoded_are_refused(part: object) -> None:
    with pytest.raises(InvalidUrnError):
        urn("x", part)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "aggregate", "domain"),
    [
        (dataset("d", "p"), "dataset:d/p", "catalog"),
        (stream("d", "p"), "stream:d/p", "catalog"),
        (app("d", "a/b"), "app:d/a%2Fb", "catalog"),
        (program("d", "a/b", "spark", "n"), "app:d/a%2Fb", "catalog"),
        (run("d", "a", "flow", "n", "1"), "app:d/a", "catalog"),
        (urn("namespace", "d"), "namespace:d", "catalog"),
        (urn("my-kind", "a", "b", "c"), "my-kind:a/b/c", "catalog"),
        (urn("file", "where", "what", "id"), "files:where/what", "files"),
        (urn("repo", "r"), "repo:r", "repositories"),
        (urn("branch", "r", "feature/x"), "repo:r", "repositories"),
        (urn("commit", "r", "abc"), "repo:r", "repositories"),
        (urn("object", "r", "main", "a/b"), "repo:r", "repositories"),
        (urn("table", "n", "t"), "table:n/t", "tables"),
        (urn("chain", "did"), "chain:did", "datasets"),
    ],
)
def test_the_kind_gives_aggregate_and_domain(made: Urn, aggregate: str, domain: str) -> None:
    assert made.aggregate == aggregate
    assert made.aggregate.aggregate is made.aggregate
    assert made.aggregate.domain == made.domain == domain == domain_of_kind(made.kind)


def test_a_single_part_has_no_namespace() -> None:
    assert urn("namespace", "default").namespace is None
    assert dataset("default", "x").namespace == "default"


@pytest.mark.parametrize("kind", sorted(PROGRAM_TYPES))
def test_every_program_type_is_taken(kind: str) -> None:
    assert program("d", "a", kind, "n").parts[2] == kind


def test_urns_are_text_and_survive_copies() -> None:
    made = program("d", "ä", "spark", "n")
    assert Urn.parse(made) is made
    assert {str(made): 1}[made] == 1
    for twin in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert type(twin) is Urn
        assert (twin, twin.parts, twin.aggregate) == (made, made.parts, made.aggregate)


def test_no_aggregate_kind_leaves_its_domain() -> None:
    for row in KINDS.values():
        if row.aggregate_kind is not None:
            target = kind_of(row.aggregate_kind)
            assert target.domain == row.domain
            assert target.min_parts <= row.aggregate_parts <= target.max_parts


@pytest.mark.parametrize("kind", ["", "X", "a b", "1", "a:b", "-a"])
def test_malformed_kinds_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="must match"):
        kind_of(kind)


def test_a_urn_is_freed_with_its_last_reference() -> None:
    gc.collect()
    gc.disable()
    try:
        for number in range(1_000):
            made = Urn(f"dataset:freed/d{number}")
            assert made.aggregate is made.aggregate is made
        del made
        assert gc.collect() < 1_000
    finally:
        gc.enable()
