"""What the commands of repositories say behind the verdicts: how much was staged, and what was left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from metajournal.domains.repositories.command_parts import tell_outcomes
from metajournal.domains.repositories.commands import _note_left_out
from metajournal.producers.receipts import Receipt
from metajournal.schemas.positions import Position


class Sent:
    """A receipt whose verdict is known."""

    event_id = "01890000-0000-7000-8000-000000000000"
    position = Position("metajournal.journal.repositories", 1, 1 << 40)

    def __init__(self, outcome: str) -> None:
        self._outcome = outcome

    def outcome(self) -> SimpleNamespace:
        return SimpleNamespace(word=self._outcome, reason=None if self._outcome == "accepted" else "dirty")


def told(*outcomes: str, as_json: bool = False) -> int:
    return tell_outcomes(
        [cast(Receipt, Sent(outcome)) for outcome in outcomes], as_json, "2,000 objects staged on main"
    )


def test_what_events_did_together_is_said_where_all_of_them_were_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert told("accepted", "accepted") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2,000 objects staged on main"
    assert told("accepted", "rejected") == 1
    assert "2,000" not in capsys.readouterr().out
    assert told("accepted", as_json=True) == 0
    assert "2,000" not in capsys.readouterr().out


def test_each_path_that_is_left_out_is_named_and_many_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    _note_left_out("main", ["a", "b\x1b", "c"], ["a"])
    assert [line.split("main ")[-1] for line in capsys.readouterr().err.splitlines()] == [
        "has nothing at b\\x1b: left out.", "has nothing at c: left out.",
    ]  # fmt: skip
    _note_left_out("main", [f"p{number}" for number in range(25)], ["p0"])
    assert capsys.readouterr().err.splitlines()[-1].endswith("Left out, too: 14 other paths.")
    _note_left_out("main", ["a"], [])
    assert capsys.readouterr().err.endswith("main has nothing there, so nothing was staged.\n")
    _note_left_out("main", ["a"], ["a"])
    _note_left_out("main", [], [])
    assert capsys.readouterr().err == ""
