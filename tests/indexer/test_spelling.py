"""Reading and writing JSON: the same values with and without the fast way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metajournal.indexer import spelling

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
@example({"a": "\ud800", "b": 2**80})
@example("\u2028\n\x00é東")
def test_both_ways_write_and_read_the_same(value: Any) -> None:
    with pytest.MonkeyPatch.context() as without:
        without.setattr(spelling, "_FAST", None)
        slow = spelling.written(value)
        assert spelling.read(slow) == json.loads(slow)
    assert json.loads(spelling.written(value)) == json.loads(slow)
    assert spelling.read(slow) == json.loads(slow)
    assert b"\n" not in slow
    assert b"\n" not in spelling.written(value)


def test_what_only_the_slow_way_reads_is_read() -> None:
    assert spelling.read(b'"\\ud800"') == "\ud800"
    with pytest.raises(ValueError, match="Expecting"):
        spelling.read(b"no json")
