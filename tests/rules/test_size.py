"""'One entity's metadata is at most 512 KiB: `Rejected(too-large)`', to the byte."""

from __future__ import annotations

from itertools import islice, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import EntityDeleted, EntityRegistered, PropertiesSet, TagsAdded, TagsRemoved
from metajournal.domains.catalog.urns import dataset
from metajournal.rules import EntityRow
from metajournal.rules.entity import excess, metadata_size
from metajournal.schemas.hashing import canonical_json
from metajournal.schemas.limits import MAX_ENTITY_BYTES, MAX_KEY_BYTES
from tests.rules.harness import Catalog

PURCHASES = dataset("default", "purchases")


def spelled_out(row: EntityRow) -> int:
    """The size by its definition: the length of the canonical JSON."""
    user = {"properties": dict(row.user_properties), "tags": list(row.user_tags)}
    system = {"properties": dict(row.system_properties), "tags": list(row.system_tags)}
    return len(canonical_json({"user": user, "system": system}))


def row_with(properties: dict[str, str], tags: list[str], system: dict[str, str], system_tags: list[str]) -> EntityRow:
    base = Catalog().row(EntityRegistered(PURCHASES))
    return base._replace(
        user_properties=properties, user_tags=tuple(tags), system_properties=system, system_tags=tuple(system_tags)
    )


SPECIAL = ['"', "\\", "\x00\x1f", "\x7f", "é", "😀", "\u2028"]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(SPECIAL)
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=4)
TAGS = st.lists(TEXTS, max_size=4)


@given(MAPS, TAGS, MAPS, TAGS)
def test_the_size_is_that_of_the_canonical_json(
    properties: dict[str, str], tags: list[str], system: dict[str, str], system_tags: list[str]
) -> None:
    row = row_with(properties, tags, system, system_tags)
    assert metadata_size(row) == spelled_out(row)


@settings(deadline=None)  # half a megabyte takes its time on a busy machine
@given(MAPS, TAGS, MAPS, TAGS, st.sampled_from(["a", "é", "😀", "\x00", '"']), st.integers(-3, 3))
def test_a_size_beyond_the_limit_is_found_to_the_byte(
    properties: dict[str, str], tags: list[str], system: dict[str, str], system_tags: list[str], filler: str, over: int
) -> None:
    """Filled up to a few bytes around the limit with any kind of character."""
    row = row_with({**properties, "fill": ""}, tags, system, system_tags)
    room = MAX_ENTITY_BYTES + over - spelled_out(row)
    each = len(canonical_json(filler)) - 2
    fill = filler * (room // each) + "b" * (room % each)
    full = row._replace(user_properties={**properties, "fill": fill})
    assert spelled_out(full) == MAX_ENTITY_BYTES + over
    assert excess(full) == (MAX_ENTITY_BYTES + over if over > 0 else None)


@pytest.mark.parametrize("character", ["\x00", "\x1f"])
def test_the_cheap_bound_holds_for_the_longest_escapes(character: str) -> None:
    """Six bytes for one character is the most that JSON takes."""
    row = row_with({"k": character * (MAX_ENTITY_BYTES // 6)}, [], {}, [])
    assert excess(row) == spelled_out(row) > MAX_ENTITY_BYTES


@pytest.mark.parametrize("scope", ["user", "system"])
def test_the_cheap_bound_counts_quotes_and_separators(scope: str) -> None:
    """Where strings are empty these are all there is, and the last byte over is in what frames them."""
    count = (MAX_ENTITY_BYTES - spelled_out(row_with({}, [], {}, []))) // 3 + 1
    row = row_with({}, [""] * count, {}, []) if scope == "user" else row_with({}, [], {}, [""] * count)
    assert MAX_ENTITY_BYTES < spelled_out(row) <= MAX_ENTITY_BYTES + 3
    assert excess(row) == spelled_out(row)


@pytest.mark.parametrize("count", range(82, 88))
def test_the_cheap_bound_holds_for_the_longest_names(count: int) -> None:
    """Keys and tags of the longest escapes, as many as just fit and one more: they are counted, not measured."""
    names = [f"{number:02}" + "\x01" * (MAX_KEY_BYTES - 2) for number in range(count)]
    for row in (
        row_with(dict.fromkeys(names, ""), [], {}, []),
        row_with({}, [], {}, names),
        row_with({}, names, {}, []),
        row_with({}, [], dict.fromkeys(names, ""), []),
    ):
        assert excess(row) == (spelled_out(row) if spelled_out(row) > MAX_ENTITY_BYTES else None)


SIX_BYTES_EACH = [chr(code) for code in range(32) if chr(code) not in "\b\t\n\f\r"]


@pytest.mark.parametrize("scope", ["user", "system"])
@pytest.mark.parametrize("spare", range(-12, 7))
def test_the_cheap_bound_holds_where_every_byte_of_it_is_used(scope: str, spare: int) -> None:
    """As many of the longest names as fit, all in escapes of six bytes, and a value of such up to the limit."""
    names = ("".join(pair) + "\x01" * (MAX_KEY_BYTES - 2) for pair in product(SIX_BYTES_EACH, repeat=2))
    properties = dict.fromkeys(islice(names, MAX_ENTITY_BYTES // (6 * MAX_KEY_BYTES + 6)), "")
    last = [*properties][-1]
    room = MAX_ENTITY_BYTES - spelled_out(row_with(properties, [], {}, [])) - spare
    properties[last] = "\x1f" * (room // 6) + "b" * (room % 6)
    row = row_with(properties, [], {}, []) if scope == "user" else row_with({}, [], properties, [])
    assert spelled_out(row) == MAX_ENTITY_BYTES - spare
    assert excess(row) == (MAX_ENTITY_BYTES - spare if spare < 0 else None)


def nearly_full(catalog: Catalog, spare: int) -> EntityRow:
    """An entity whose metadata has that many bytes to spare."""
    row = catalog.row(EntityRegistered(PURCHASES, properties={"fill": ""}))
    return catalog.row(PropertiesSet(PURCHASES, {"fill": "x" * (MAX_ENTITY_BYTES - spelled_out(row) - spare)}))


def test_an_entity_may_be_exactly_full() -> None:
    row = nearly_full(Catalog(), 0)
    assert spelled_out(row) == MAX_ENTITY_BYTES == 524_288


def test_one_byte_more_is_too_large() -> None:
    """The detail tells the size that it would have had, and the limit."""
    catalog = Catalog()
    nearly_full(catalog, 4)
    assert catalog.rejected(TagsAdded(PURCHASES, ["abc"])) == (
        "too-large",
        {"entity": str(PURCHASES), "size_bytes": 524_289, "limit_bytes": 524_288},
    )
    catalog.row(TagsAdded(PURCHASES, ["ab"]))


def test_kept_properties_count() -> None:
    """A longer actor alone can be what does not fit."""
    catalog = Catalog()
    nearly_full(catalog, 4)
    assert catalog.rejected(TagsAdded(PURCHASES, ["a"]), actor="alice2!")[0] == "too-large"
    catalog.row(TagsAdded(PURCHASES, ["a"]), actor="alice2")


def test_both_scopes_count_together() -> None:
    catalog = Catalog()
    nearly_full(catalog, 10)
    assert catalog.rejected(PropertiesSet(PURCHASES, {"k": "123456"}, scope="SYSTEM"))[0] == "too-large"
    catalog.row(TagsAdded(PURCHASES, ["1234567"], scope="SYSTEM"))
    assert catalog.rejected(TagsAdded(PURCHASES, ["a"]))[0] == "too-large"


def test_a_first_registration_can_be_too_large() -> None:
    event = EntityRegistered(PURCHASES, description="d" * MAX_ENTITY_BYTES)
    assert Catalog().rejected(event)[0] == "too-large"


def test_a_full_entity_can_shrink_and_end() -> None:
    catalog = Catalog()
    nearly_full(catalog, 4)
    catalog.row(TagsAdded(PURCHASES, ["ab"]))
    assert catalog.row(TagsRemoved(PURCHASES, ["ab"])).user_tags == ()
    assert catalog.row(EntityDeleted(PURCHASES)).deleted
