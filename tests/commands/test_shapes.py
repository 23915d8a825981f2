"""Each command's `--json` has one documented shape; `tests/shapes.py` holds to it what any test's command prints."""

from __future__ import annotations

from typing import Any

import pytest

from docs.json_shapes import SHAPES, faults
from metajournal.schemas.shapes import Map
from tests.shapes import check_json, command_of, with_json


def test_every_command_with_json_has_its_shape_on_the_page_and_no_other_has() -> None:
    assert sorted(with_json()) == sorted(SHAPES)


@pytest.mark.parametrize(
    ("shape", "value", "fine"),
    [
        ({"a": str, "b?": int}, {"a": "x"}, True),
        ({"a": str, "b?": int}, {"a": "x", "b": 1}, True),
        ({"a": str}, {}, False),
        ({"a": str}, {"a": "x", "c": 1}, False),
        ({"a": str}, {"a": 1}, False),
        ({"a": str}, [], False),
        ((str, None), None, True),
        ((str, None), 1, False),
        (int, True, False),
        (bool, True, True),
        ([int], [1, 2], True),
        ([int], [1, "2"], False),
        ([str], "text", False),
        (Map(int), {"x": 1}, True),
        (Map(int), {"x": "1"}, False),
        (Map(int), [1], False),
        (({"a": int}, {"b": int}), {"b": 1}, True),
        (object, {"x": [None]}, True),
    ],
)
def test_another_shape_is_noticed(shape: Any, value: Any, fine: bool) -> None:
    assert (faults(shape, value) == []) == fine


def test_what_a_command_prints_is_held_against_its_own_shape() -> None:
    assert command_of(["--set", "a.b=c", "rebuild", "index", "--json"]) == "rebuild index"
    assert command_of(["files", "--what", "x", "--json"]) == "files"
    check_json(["suggest", "x", "--json"], '[{"text":"x","entities":3}]\n')
    check_json(["suggest", "x"], "not JSON")
    check_json(["show", "x", "--json"], '{"ok":false,"error":{"code":"x","message":"y","hint":"z"}}\n')
    for wrong in ('[{"text":"x"}]\n', '[{"text":"x","entities":3,"more":1}]\n', "[]\n[]\n"):
        with pytest.raises(AssertionError):
            check_json(["suggest", "x", "--json"], wrong)
