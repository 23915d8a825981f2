"""How the rows of the tables beside `entities` are laid out: tenant, key, common fields, their own."""

from __future__ import annotations

import pytest

from metajournal.domains.files.rules import facts_read
from metajournal.rules.entity import EntityRow
from metajournal.rules.tables import COMMON, KEYS, TABLE_OF


@pytest.mark.parametrize("row", TABLE_OF, ids=lambda row: row.__name__)
def test_a_row_begins_with_tenant_key_and_the_common_fields(row: type) -> None:
    names = row._fields  # type: ignore[attr-defined]
    key = KEYS[TABLE_OF[row]]
    assert key
    assert names[: 1 + len(key) + len(COMMON)] == ("tenant", *key, *COMMON)


def test_the_common_fields_are_those_of_an_entity() -> None:
    assert len(COMMON) == 8
    start = EntityRow._fields.index("aggregate")
    assert EntityRow._fields[start : start + len(COMMON)] == COMMON


def test_files_are_judged_by_their_entities_alone() -> None:
    assert facts_read(None) == ()
