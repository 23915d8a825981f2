"""The rules of toys, judged without any service: a header, an event, the rows before it."""

from __future__ import annotations

from typing import Any

from metajournal_toys.domain import DOMAIN
from metajournal_toys.events import ToyLost, ToyMade, ToyPlayed
from metajournal_toys.rules import RULES

from metajournal import urn
from metajournal.rules.entity import At
from metajournal.rules.outcome import UNCHANGED, Accepted, Rejected
from metajournal.schemas.header import Header
from metajournal.schemas.registry import take_in

take_in(DOMAIN)  # as a journal does that serves it: from here on toys belong to their boxes
BEAR = urn("toy", "attic", "bear")


class Rows:
    """The rows of one aggregate, by entity and by key."""

    def __init__(self) -> None:
        self.newest: dict[Any, Any] = {}

    def entity(self, name: str) -> Any:
        return self.newest.get(name)

    def fact(self, key: Any) -> Any:
        return self.newest.get(key)

    def members(self, aggregate: str, kinds: Any) -> list[Any]:
        return [row for row in self.newest.values() if getattr(row, "kind", None) in kinds]


def judge(rows: Rows, position: int, event: Any) -> Any:
    header = Header(
        event_id=position.to_bytes(16, "big"), tenant="default", type=event.TYPE, aggregate=event.aggregate,
        entities=event.entities, actor="ada", event_time=1_000 * position,
    )  # fmt: skip
    rule = RULES[event.TYPE]
    outcome = rule(header, event, At(position, 2_000 * position, bytes(16)), rows)
    if isinstance(outcome, Accepted):
        rows.newest |= {row.urn: row for row in outcome.rows}
        rows.newest |= {(row.toy, row.player): row for row in outcome.facts}
    return outcome


def test_only_a_toy_that_is_there_can_be_played_with() -> None:
    rows = Rows()
    assert judge(rows, 1, ToyPlayed(BEAR, "ada", 5)) == Rejected("unknown-toy", {"toy": BEAR})
    (row,) = judge(rows, 2, ToyMade(BEAR, "mohair")).rows
    assert (row.aggregate, row.record) == ("toybox:attic", {"material": "mohair", "pieces": 1})
    assert judge(rows, 3, ToyMade(BEAR, "mohair")) is UNCHANGED
    assert [judge(rows, place, ToyPlayed(BEAR, "ada", 5)).facts[0].minutes for place in (4, 5)] == [5, 10]
    assert judge(rows, 6, ToyLost(BEAR)).rows[0].deleted
    assert judge(rows, 7, ToyPlayed(BEAR, "ada", 5)).reason == "unknown-toy"


def test_what_is_wrong_is_told() -> None:
    assert [str(fault) for fault in ToyPlayed(BEAR, "", 0).validate()] == [
        "player: must not be empty",
        "minutes: must be a whole number from 1 to 1,440, not 0",
    ]
