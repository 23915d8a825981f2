"""Bytes that anybody may have written: any at all, and JSON of the right shape with some of its values changed."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from hypothesis import strategies as st

_WRONG: Final[list[Any]] = [
    None, True, False, -1, 0, 1, 1 << 62, 1 << 63, 1 << 70, 10**400, 0.5, 1e308, float("nan"), float("inf"), "", "0",
    "-1", "1e3", "٣", "\ud800", "a", [], [1], [[]], [None], {}, {"0": 1}, {"-1": 1}, {"a": None}, "x" * 1_000,
]  # fmt: skip

any_bytes: Final = st.one_of(
    st.binary(max_size=200),
    st.recursive(
        st.sampled_from(_WRONG[:-1]),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
    st.integers(1, 60_000).map(lambda levels: b"[" * levels + b"]" * levels),
    st.integers(1, 20_000).map(lambda levels: b'{"a":' * levels + b"1" + b"}" * levels),
)
"""Any bytes, any JSON, and JSON of any depth."""


@st.composite
def damaged_json(draw: st.DrawFn, *documents: dict[str, Any]) -> bytes:
    """One of the documents with up to three of its values changed, taken away, or nested deeply."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(0, 3))):
        _damage(document, draw)
    text = json.dumps(document).encode()
    levels = draw(st.sampled_from([0, 0, 0, 200, 900, 20_000]))
    return text[:-1] + b', "deep": ' + b"[" * levels + b"]" * levels + b"}" if levels else text


def _damage(document: Any, draw: st.DrawFn) -> None:
    """Change one value somewhere."""
    here = document
    while isinstance(here, dict | list) and here:
        key = draw(st.sampled_from(sorted(here))) if isinstance(here, dict) else draw(st.integers(0, len(here) - 1))
        if isinstance(here[key], dict | list) and here[key] and draw(st.booleans()):
            here = here[key]
            continue
        if draw(st.booleans()):
            here[key] = copy.deepcopy(draw(st.sampled_from(_WRONG)))
        else:
            del here[key]
        return
