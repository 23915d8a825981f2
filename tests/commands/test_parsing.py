"""What people type becomes the event, the time and the position that it says, or an error that helps."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal import values
from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet, TagsAdded
from metajournal.schemas.errors import InputError, InvalidEventError, InvalidPositionError
from metajournal.schemas.positions import Position
from metajournal.terminal import parsing

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def test_options_become_the_event_that_they_say() -> None:
    assert parsing.typed_options("TagsAdded", "dataset:a/b", tags=["x", "y"], scope="system", actor="alice") == (
        TagsAdded("dataset:a/b", ["x", "y"], scope="SYSTEM"),
        {"actor": "alice"},
    )
    head = f"commit:r1/{'ab' * 32}"
    typed = parsing.typed_options("BranchReverted", "branch:r1/main", data=json.dumps({"commit": head}))
    assert typed.event.entities == ("branch:r1/main", "repo:r1", head)
    data = '{"destination": "branch:r1/main", "source_head": "", "destination_head": ""}'
    assert parsing.typed_options("Merged", "branch:r1/dev", data=data).event.source == "branch:r1/dev"
    typed = parsing.typed_options(
        "catalog.PropertiesSet.1", "dataset:a/b", properties=["k=v=w", "empty="], expected=0, event_time="1970-01-01"
    )
    assert typed == (PropertiesSet("dataset:a/b", {"k": "v=w", "empty": ""}), {"expected": 0, "event_time": 0})
    data = '{"schema": [["id", "long"]], "tags": ["t"]}'
    assert parsing.typed_options("EntityRegistered", "dataset:a/b", data=data, description="d").event == (
        EntityRegistered("dataset:a/b", description="d", schema=[("id", "long")], tags=["t"])
    )


def test_an_option_with_an_empty_value_is_given() -> None:
    typed = parsing.typed_options("EntityRegistered", "dataset:a/b", description="", schema="", actor="")
    assert typed == (EntityRegistered("dataset:a/b", description="", schema=""), {"actor": ""})


@pytest.mark.parametrize(("data", "field"), [('{"tags": ["a"]}', "tags"), ('{"scope": "USER"}', "scope")])
def test_a_field_in_the_data_and_in_an_option_is_refused(data: str, field: str) -> None:
    with pytest.raises(InputError, match=f"'{field}' is given twice") as refused:
        parsing.typed_options("TagsAdded", "dataset:a/b", data=data, tags=["b"], scope="SYSTEM")
    assert refused.value.code == "given-twice"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_a_schema_may_be_the_avro_object_itself(schema: dict[str, Any]) -> None:
    """In a line and in `--data`; its text, which is what the event carries, says the same."""
    line = {"type": "EntityRegistered", "entity": "dataset:a/b", "schema": schema}
    event = parsing.typed_event(json.dumps(line)).event
    assert event.validate() == []
    assert json.loads(event.schema) == schema
    assert parsing.typed_options("EntityRegistered", "dataset:a/b", data=json.dumps({"schema": schema})).event == event


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("12", 'must be text, not the number 12: write "12"'),
        ("-1.5", 'must be text, not the number -1.5: write "-1.5"'),
        ("true", 'must be text, not True: write "true"'),
        ("1e400", "must be text, not float"),
        ("9" * 4000, "must be text, not int"),
        ("null", "must be text, not NoneType"),
    ],
)
def test_a_number_is_refused_with_the_text_to_write(number: str, message: str) -> None:
    line = '{"type": "PropertiesSet", "entity": "dataset:a/b", "properties": {"rows": %s}}' % number  # noqa: UP031
    [fault] = parsing.typed_event(line).event.validate()
    assert (fault.field, fault.message) == ("properties['rows']", message)
    [fault] = parsing.typed_event(
        f'{{"type": "TagsAdded", "entity": "dataset:a/b", "tags": [{number}]}}'
    ).event.validate()
    assert (fault.field, fault.message) == ("tags[0]", message)


def test_a_wrong_type_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match="Did you mean TagsAdded"):
        parsing.event_class("catalog.TagAdded")


def test_every_fault_of_the_typed_fields_is_named_at_once() -> None:
    with pytest.raises(InvalidEventError) as found:
        parsing.typed_event('{"type": "PropertiesSet", "tags": ["x"], "owner": 1}')
    assert [fault.field for fault in found.value.faults] == ["tags", "owner", "entity", "properties"]


@pytest.mark.parametrize(
    "line",
    [
        *("", "nonsense", "[]", '"x"', "{}", '{"type": 7}'),
        "[" * 100_000,
        '{"type": "TagsAdded", "entity": "dataset:default/a", "tags": ' + "[" * 100_000,
        '{"type": "TagsAdded", "type": "EntityDeleted", "entity": "dataset:default/a"}',
        '{"type": "PropertiesSet", "entity": "dataset:default/a", "properties": {"a": "1", "a": "2"}}',
    ],
)
def test_a_line_that_is_no_event_is_an_input_error(line: str) -> None:
    with pytest.raises(InputError):
        parsing.typed_event(line)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1441310434000", 1_441_310_434_000),
        ("2015-09-03T20:00:34Z", 1_441_310_434_000),
        ("2015-09-03 20:00:34", 1_441_310_434_000),
        ("2015-09-03T22:00:34.5+02:00", 1_441_310_434_500),
    ],
)
def test_times_are_milliseconds_or_iso_8601_in_utc(text: str, ms: int) -> None:
    assert values.point(text) == ms


def test_a_point_with_slashes_is_a_position() -> None:
    assert values.point("t.journal.catalog/3/1099511627776") == Position("t.journal.catalog", 3, 1 << 40)
    for wrong in ("yesterday", "a/b/c", "t/1"):
        with pytest.raises(InputError):
            values.point(wrong)


@pytest.mark.parametrize("text", ["6398-07-28T13:14:24.291", "2026-01-01T00:00:00.001Z", "0001-01-01T00:00:00+14:00"])
def test_a_time_is_read_to_the_millisecond(text: str) -> None:
    read = datetime.fromisoformat(text)
    since = (read if read.tzinfo else read.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    assert values.moment(text) * 1000 == since // timedelta(microseconds=1)


def test_a_point_is_a_position_several_or_a_time() -> None:
    one, other = Position("t", 0, 5), Position("t", 1, 7)
    assert values.point("t/0/5") == one
    assert values.point("t/0/5,t/1/7") == values.point(f"{one}, {other}") == [one, other]
    assert values.positions("t/0/5") == [one]
    assert values.point("1970-01-01T00:00:01Z") == 1_000
    with pytest.raises(InvalidPositionError):
        values.point("t/0/5,t/0")
