"""Pages of an entity's history: whatever their rows weigh, all of them come, each once, in pages that are bounded."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.urns import dataset
from metajournal.gateway.own import entities
from metajournal.schemas.endpoints import Request
from tests.lake.test_tables import row
from tests.properties import examples

ORDERS = dataset("default", "orders")


class Held:
    """A journal that has some rows of one entity, each of a property, tag or record of so many characters."""

    def __init__(self, sizes: list[int], where: str) -> None:
        said: dict[str, Callable[[int], Any]] = {
            "user_properties": lambda size: {"k": "x" * size},
            "system_tags": lambda size: ("x" * (size + 1),),
            "record": lambda size: {"k": "x" * size},
        }
        self.rows = [
            row()._replace(urn=str(ORDERS), logical_timestamp=10 + place, **{where: said[where](size)})
            for place, size in enumerate(sizes)
        ]
        self.lake = SimpleNamespace(position_of=lambda one: one.logical_timestamp)
        self.most = 0

    def history(self, _urn: Any, *, limit: int, before: int | None, **_more: Any) -> list[Any]:
        self.most = max(self.most, limit)
        return [one for one in self.rows if before is None or one.logical_timestamp < before][-limit:]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=40), st.integers(1, 45), st.integers(1, 6),
    st.sampled_from(["user_properties", "system_tags", "record"]),
)  # fmt: skip
@settings(max_examples=examples(200), deadline=None)
def test_all_rows_come_once_in_bounded_pages(sizes: list[int], limit: int, at_once: int, where: str) -> None:
    journal: Any = Held(sizes, where)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entities, "_BYTES", 100)
        patch.setattr(entities, "_AT_ONCE", at_once)
        seen: list[str] = []
        query = {"limit": str(limit)}
        while True:
            asked = Request({}, query, None, "default", "somebody", 0, urn=ORDERS)
            answer = entities.history(journal, asked)
            page = [one["position"] for one in answer.value]
            assert 1 <= len(page) <= limit
            weights = [sizes[int(one) - 10] + 1 for one in page]
            assert len(page) == 1 or sum(weights) <= 100
            seen = [*page, *seen]
            if answer.next is None:
                break
            query = {"limit": str(limit), "cursor": answer.next["cursor"]}
    assert seen == [str(10 + place) for place in range(len(sizes))]
    assert journal.most <= at_once + 1
