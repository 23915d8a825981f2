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


def of_record(record: dict[str, Any], *, deleted: bool = False) -> dict[str, Any]:
    return {**entity(), "record": record, "deleted": deleted}


FIRST, SECOND = "81d2f9ce00ab" + "0" * 52, "3f0c12345678" + "f" * 52


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"head": None}, {"head": FIRST}, "head - → 81d2f9ce00ab"),
        ({"head": FIRST}, {"head": SECOND}, "head 81d2f9ce00ab → 3f0c12345678"),
        ({"at": f"x:a/{FIRST}"}, {"at": f"x:a/{SECOND}"}, "at x:a/81d2f9ce00ab → x:a/3f0c12345678"),
        ({"names": ["a"], "n": 1}, {"names": ["a", "b"], "n": 1}, "names a → a, b"),
        ({"n": 1, "on": True}, {"n": 2, "on": False}, "n 1 → 2, on true → false"),
        ({"gone": "a"}, {"come": "b"}, "come - → b, gone a → -"),
        ({"text": "z" * 90}, {"text": "b\n\x1b"}, f"text {'z' * 31}… → b \\x1b"),
        ({"text": "z" * 90 + "b"}, {"text": "z" * 90 + "c"}, "text changed"),
        ({"metadata": {"size": 1, "kept": "a"}}, {"metadata": {"size": 2, "kept": "a"}}, "size 1 → 2"),
        ({"n": 1}, {"n": 1}, "no metadata"),
    ],
)
def test_a_history_tells_which_fields_of_the_record_changed(
    old: dict[str, Any], new: dict[str, Any], said: str
) -> None:
    first, second = drawn(history_view([of_record(old), of_record(new)]))[1:]
    assert first.endswith("  registered")
    assert second.endswith(f"  {said}")


def test_what_changed_of_a_record_comes_after_the_metadata_and_is_cut_and_nothing_is_told_of_a_new_entity() -> None:
    tagged = {**of_record({f"field{n}": "y" * 50 for n in range(9)}), "user": {"properties": {}, "tags": ["pii"]}}
    [row] = drawn(history_view([tagged], of_record({f"field{n}": "z" * 50 for n in range(9)})))[1:]
    assert row.endswith(f"  +tag pii, field0 {'z' * 31}… → {'y' * 31}…, and 8 more")
    [again] = drawn(history_view([of_record({"n": 2})], of_record({"n": 1}, deleted=True)))[1:]
    assert again.endswith("  registered")


@pytest.mark.parametrize("width", [160, 40])
def test_a_list_of_texts_is_shown_whole_each_text_on_one_line(width: int) -> None:
    lines = drawn(entity_view(of_record({"parents": [FIRST, SECOND], "none": [], "names": ["a\nb", "c"]})), width)
    assert not [line for line in lines if "'" in line or "[" in line]
    words = " ".join(lines).split()
    assert words[words.index("parents") + 1 :][:2] == [f"{FIRST},", SECOND]
    assert words[words.index("none") + 1] == "-"
    assert words[words.index("names") + 1 :][:3] == ["a", "b,", "c"]


def test_of_a_long_list_the_rest_is_counted() -> None:
    many = [f"x{number}" for number in range(100)]
    text = " ".join(" ".join(drawn(entity_view(of_record({"many": many})))).split())
    assert text.endswith("x28, x29 and 70 more; --json prints them all")
    [short] = [line for line in drawn(entity_view(of_record({"many": many}), width=20, most_lines=1)) if "many" in line]
    assert short.endswith("x0, x1, x2, x3, x4,…")


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
