"""What a change was, in words: of a schema its columns; of a long list as many parts as fit, and how many more."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.commands.tailing import changed
from metajournal.gateway.pages.entities import _differences
from metajournal.terminal.consoles import PatientConsole
from metajournal.terminal.differences import changed_value, listed
from metajournal.terminal.views import differences, entity_view, history_view

SQL = "SELECT c.id,\n       c.email,\n\n       sum(o.amount)\nFROM customers c"
OLD = json.dumps([["id", "integer"], ["amount", "integer"], ["ends", "date"]])
NEW = json.dumps([["id", "integer"], ["amount", "numeric"], ["budget", "numeric"]])
CHANGED = "schema: +budget numeric, -ends date, amount integer → numeric"


def entity(**system: str) -> dict[str, Any]:
    return {
        "urn": "dataset:a/b", "system_time": 0, "actor": "alice", "logical_timestamp": 1, "deleted": False,
        "user": {"properties": {}, "tags": []}, "system": {"properties": system, "tags": []},
    }  # fmt: skip


def drawn(view: Any, width: int = 160) -> list[str]:
    out = io.StringIO()
    PatientConsole(file=out, width=width, highlight=False, markup=False).print(view)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [160, 30])
def test_the_lines_of_a_text_are_shown_as_lines_and_nothing_is_added(width: int) -> None:
    lines = drawn(entity_view(entity(**{"database.sql": SQL})), width)
    start = next(number for number, line in enumerate(lines) if "database.sql" in line)
    text = "\n".join(lines[start:]).replace("database.sql", "            ")
    shown = [line for line in text.split("\n") if line.strip()]
    indent = min(len(line) - len(line.lstrip()) for line in shown)
    assert indent >= 4  # no line of a value can be taken for a field's name
    assert [line[indent:] for line in shown] == [line for line in SQL.split("\n") if line]


def test_of_very_many_lines_the_rest_is_counted() -> None:
    lines = drawn(entity_view(entity(**{"database.sql": "\n".join(map(str, range(100)))})))
    assert lines[-2].strip() == "29"
    assert lines[-1].strip() == "… and 70 more lines; --json prints them all"


def test_where_a_value_has_one_line_its_lines_are_separated_by_spaces() -> None:
    lines = drawn(entity_view(entity(**{"database.sql": SQL}), most_lines=1))
    assert lines[-1].endswith("SELECT c.id, c.email, sum(o.amount) FROM customers c")


def test_in_a_history_and_in_a_change_lines_are_separated_by_one_space() -> None:
    old, new = {"database.sql": "a,\nb"}, {"database.sql": "a,\nc"}
    assert differences(entity(**old), entity(**new)) == ["database.sql: a, b → a, c"]
    assert changed(change(old, new)) == "database.sql: a, b → a, c"


def test_a_changed_schema_is_told_by_its_columns_in_a_history_and_in_a_change() -> None:
    assert differences(entity(schema=OLD), entity(schema=NEW)) == [CHANGED]
    assert CHANGED in " ".join(drawn(history_view([entity(schema=NEW)], entity(schema=OLD)))).replace("  ", "")
    assert changed(change({"schema": OLD}, {"schema": NEW})) == CHANGED


def test_times_are_those_of_the_fold_alone_and_one_that_no_calendar_has_is_shown_as_it_is() -> None:
    far, near = "9" * 20, "1700000000000"
    own = drawn(entity_view(entity(creation_time=near, last_update_time=far)))
    assert [line.split(maxsplit=1) for line in own[-2:]] == [
        ["creation_time", "2023-11-14 22:13:20.000Z"], ["last_update_time", far],
    ]  # fmt: skip
    users = drawn(entity_view(of_user(creation_time=far, last_update_time=near)))
    assert [line.split() for line in users[-2:]] == [["creation_time", far], ["last_update_time", near]]


def test_what_the_fold_keeps_is_left_out_and_what_a_user_calls_so_is_told() -> None:
    old, new = {"created_by": "bob", "creation_time": "1"}, {"creation_time": "2", "last_updated_by": "eve"}
    assert differences(entity(**old), entity(**new)) == []
    told = differences(of_user(**old), of_user(**new))
    assert told == ["+last_updated_by", "-created_by", "creation_time: 1 → 2"]
    assert _differences(entity(**old), entity(**new)) == []
    [(scope, page)] = _differences(of_user(**old), of_user(**new))
    assert scope == "USER"
    assert (page["additions"]["properties"], page["deletions"]["properties"]) == (new, old)


def of_user(**user: str) -> dict[str, Any]:
    return {**entity(), "user": {"properties": user, "tags": []}}


def change(old: dict[str, str], new: dict[str, str]) -> dict[str, Any]:
    sides = {"additions": new, "deletions": old}
    return {"changes": {side: {"tags": [], "properties": properties} for side, properties in sides.items()}}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('[["a","int"],["b","int"]]', '[["b","int"],["a","int"]]', "columns in another order"),
        ('[["a","int"]]', '[["a", "int"]]', "no column added, removed or of another type"),
        ('[["a","int"]]', "words", '[["a","int"]] → words'),
        ('[["a","int"]]', '[["a\\n\\u001b","int"]]', "+a \\x1b int, -a int"),
        (
            '{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}',
            '{"type":"record","name":"r","fields":[{"name":"a","type":["null","long"]}]}',
            "a long → null|long",
        ),
    ],
)
def test_of_other_schemas_it_is_said_what_can_be_said(old: str, new: str, said: str) -> None:
    assert changed_value("schema", old, new) == f"schema: {said}"


def test_of_a_wide_schema_the_rest_is_counted() -> None:
    wide = json.dumps([[f"column_{number}", "integer"] for number in range(50)])
    text = changed_value("schema", "[]", wide)
    assert text.startswith("schema: +column_0 integer, +column_1 integer, ")
    shown = text.count("+")
    assert text.endswith(f", and {50 - shown} more")
    assert len(text) < 100


@given(st.lists(st.text("abc", min_size=1, max_size=30), min_size=1, max_size=20), st.integers(40, 100))
def test_a_list_has_as_many_parts_as_fit_and_the_count_of_the_rest(parts: list[str], width: int) -> None:
    text = listed(parts, width)
    match = re.fullmatch(r"(.*), and (\d+) more", text)
    shown = (text if match is None else match[1]).split(", ")
    assert shown == parts[: len(shown)]
    assert len(shown) + (0 if match is None else int(match[2])) == len(parts)
    assert len(text) <= width or len(shown) == 1
