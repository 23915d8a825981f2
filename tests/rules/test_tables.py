"""How the rows of the tables beside `entities` are laid out: tenant, key, common fields, their own."""

from __future__ import annotations

from typing import Any

import pytest

from metajournal.rules import reads_more
from metajournal.rules.entity import EntityRow
from metajournal.rules.tables import COMMON, KEYS, TABLE_OF, key_of
from metajournal.schemas.events import event_types


@pytest.mark.parametrize("row", TABLE_OF, ids=lambda row: row.__name__)
def test_a_row_begins_with_tenant_key_and_the_common_fields(row: type) -> None:
    names = row._fields  # type: ignore[attr-defined]
    key = KEYS[TABLE_OF[row]]._fields
    assert key
    assert names[: 1 + len(key) + len(COMMON)] == ("tenant", *key, *COMMON)


@pytest.mark.parametrize("row", TABLE_OF, ids=lambda row: row.__name__)
def test_a_key_is_taken_out_of_a_row_and_knows_its_table(row: Any) -> None:
    key = key_of(row(*row._fields))
    assert type(key) is KEYS[key.TABLE] and TABLE_OF[row] == key.TABLE  # noqa: PT018  (one claim)
    assert tuple(key) == type(key)._fields  # type: ignore[attr-defined]


def test_the_common_fields_are_those_of_an_entity() -> None:
    assert len(COMMON) == 8
    start = EntityRow._fields.index("aggregate")
    assert EntityRow._fields[start : start + len(COMMON)] == COMMON


def test_most_events_are_judged_by_their_entities_alone() -> None:
    more = {event_type for event_type in event_types() if reads_more(event_type)}
    of_rows = ("lineage.", "repositories.")
    of_access = {"access.PrincipalDisabled.1", "access.KeyIssued.1", "access.KeyRevoked.1"}
    assert more == {"catalog.EntityDeleted.1", *of_access, *(one for one in event_types() if one.startswith(of_rows))}
