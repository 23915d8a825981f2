"""JSON is read in one way wherever it comes in, and each shape has one function."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import Any

import pytest

from metajournal import values
from metajournal.commands.emitting import Sending
from metajournal.consumers.records import Change, State
from metajournal.domains.lineage.openlineage import read_events
from metajournal.producers.verdicts import Accepted, Duplicate, Rejected
from metajournal.schemas.errors import InputError
from metajournal.schemas.positions import Position
from metajournal.tracing import Seen, Step, Trace

PLACE = Position("t.journal.catalog", 3, (1 << 40) + 7)


def nested(depth: int) -> str:
    """A JSON text of objects, each in another."""
    return '{"a":' * depth + "1" + "}" * depth


DEEP = nested(values.MAX_DEPTH + 1)
WRONG = {
    "": "Expecting value",
    "\udcff": "it is not UTF-8",
    DEEP: "nested more than 100 levels deep",
    "[" * 100_000: "nested more than 100 levels deep",
    '{"a": 1, "a": 2}': "the name 'a' occurs twice",
    "1" * 5_000: "it has a number of more than 4,300 digits",
}


@pytest.mark.parametrize(("text", "why"), WRONG.items(), ids=["empty", "bytes", "deep", "deeper", "twice", "long"])
def test_a_text_that_is_no_json_for_us_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        values.json_value(text)


@pytest.mark.parametrize("text", ['{"a": 1, "b', '{"a": 1,\n', "[1, 2", '{"a":'])
def test_a_text_that_was_cut_off_is_told_as_such(text: str) -> None:
    with pytest.raises(ValueError, match="it ends in the middle of a value, as if the rest was cut off"):
        values.json_value(text)


def test_json_is_bounded_in_length_and_depth() -> None:
    assert values.json_value(nested(values.MAX_DEPTH))
    assert values.json_value(json.dumps([[]] * 200)) == [[]] * 200
    assert values.json_value("[ ]", longest=3) == []
    with pytest.raises(ValueError, match="it is longer than 2 characters"):
        values.json_value("[ ]", longest=2)


class CountingLines(io.StringIO):
    """A file that knows the most characters that were ever asked of it at once."""

    most = 0

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]  # of the class above its own
        assert size is not None
        assert size >= 0
        line = super().readline(size)
        self.most = max(self.most, len(line))
        return line


def test_of_a_line_that_is_too_long_no_more_is_held_and_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MAX_LINE", 8)
    source = CountingLines('[1]\n"' + "x" * 100 + '"\n[2]\n' + "y" * 9)
    lines = list(values.bounded(source))
    assert [line[:3] for line in lines] == ["[1]", '"xx', "[2]", "yyy"]
    assert source.most == 9
    assert max(map(len, lines)) == 9


def test_json_lines_name_the_number_of_the_line_that_is_wrong() -> None:
    assert list(values.json_lines(["[1]\n", "\n", "2\n"], "…")) == [(1, [1]), (3, 2)]
    with pytest.raises(InputError, match=r"^Line 3 is not JSON: it is nested more than 100 levels deep") as caught:
        list(values.json_lines(["1", " ", DEEP], '{"a": …}'))
    assert caught.value.hint == 'Each line is {"a": …}.'


def _emitted(lines: Iterable[str]) -> list[str]:
    journal: Any = None  # nothing is sent
    return [one["error"]["message"] for one in Sending(journal, outcome=False).lines(lines)]


def _imported(lines: Iterable[str]) -> list[str]:
    return [str(one.fault) for one in read_events(lines)]


@pytest.mark.parametrize("read", [_emitted, _imported])
@pytest.mark.parametrize("text", [text for text in WRONG if text], ids=["bytes", "deep", "deeper", "twice", "long"])
def test_every_command_that_takes_json_lines_refuses_the_same(read: Any, text: str) -> None:
    (message,) = read(["\n", text])
    assert WRONG[text] in message


def test_changes_states_and_traces_say_where_they_stand() -> None:
    shared = {"urn": "dataset:a/b", "tenant": "default", "position": f"{PLACE}", "seq": 2}
    change = Change("dataset:a/b", PLACE, 2, "USER", "t", 9, {"x": 1}, 1)
    assert values.change_json(change) == {
        "id": f"{PLACE}/2/USER", **shared, "scope": "USER", "type": "t", "time": 9, "record": {"x": 1}
    }  # fmt: skip
    state = State("dataset:a/b", PLACE, 2, False, 9, {"x": 1}, 1)
    assert values.state_json(state) == {
        "id": f"{PLACE}/2/STATE", **shared, "deleted": False, "time": 9, "document": {"x": 1}
    }  # fmt: skip
    place = {"topic": PLACE.topic, "partition": 3, "offset": 7, "position": str(PLACE)}
    assert values.position_json(PLACE) == place
    assert values.cut_json({("t", 0): 5}) == {"t/0": 5}
    step = Step(
        PLACE, "default", "t", "dataset:a/b", ("dataset:a/b",), None, 1, 2, 3, None, "duplicate", None, {"x": 1}, PLACE,
        (), 0, Seen("index", 8, "shown"),
    )  # fmt: skip
    assert values.trace_json(Trace("id", 1, (step,))) == {
        "event_id": "id",
        "made_at": 1,
        "places": [
            {
                **place, "logical_timestamp": PLACE.value, "tenant": "default", "type": "t", "aggregate": "dataset:a/b",
                "entities": ["dataset:a/b"], "actor": None, "append_time": 1, "system_time": 2, "event_time": 3,
                "unit_id": None, "outcome": "duplicate", "reason": None, "detail": {"x": 1}, "original": str(PLACE),
                "rows": [], "row_counts": {}, "behind": 0, "index": {"name": "index", "shows": 8, "said": "shown"},
            }
        ],
    }  # fmt: skip


def test_an_outcome_tells_its_reason_and_that_of_its_original() -> None:
    assert values.outcome_json(Accepted(PLACE)) == {"outcome": "accepted"}
    rejected = Rejected(PLACE, "conflict", {"held": 4})
    assert values.outcome_json(rejected) == {"outcome": "rejected", "reason": "conflict", "detail": {"held": 4}}
    duplicate = values.outcome_json(Duplicate(PLACE, PLACE, rejected))
    assert duplicate == {"outcome": "duplicate", "of": str(PLACE), "original": values.outcome_json(rejected)}


def test_an_error_has_code_sentence_step_and_its_data() -> None:
    data: dict[Any, Any] = {"place": PLACE, ("t", 0): {3}}
    error = values.error_json("a-code", "What.", "Next.", data)
    assert error == {
        "ok": False,
        "error": {
            "place": str(PLACE), "t/0": [3],
            "code": "a-code", "message": "What.", "hint": "Next.",
        },
    }  # fmt: skip


@pytest.mark.thorough
def test_a_name_that_comes_twice_among_very_many_is_found_at_once() -> None:
    text = "{" + ",".join(f'"{number}":0' for number in range(200_000)) + ',"199999":1}'
    with pytest.raises(ValueError, match="'199999' occurs twice"):
        values.json_value(text)


@pytest.mark.parametrize("text", [r'"\ud800"', r'{"\uDC00": 1}', r'["a\ud800b"]'])
def test_half_a_character_is_no_value(text: str) -> None:
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        values.json_value(text)
    assert values.json_value(r'"\ud83d\ude00"') == "\U0001f600"
