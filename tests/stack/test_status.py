"""What `status` makes of what processes left behind; no service runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from metajournal.stack.home import Entry
from metajournal.stack.process import ProcessId
from metajournal.stack.status import Component, Stage, _behind, _component


@pytest.mark.parametrize(
    ("lake_s", "index_s", "told_s"),
    [(40.0, 0.0, 40.0), (0.5, 3.0, 3.0), (None, 0.0, None), (0.5, None, None)],
)
def test_the_index_is_never_said_to_be_fresher_than_the_lake(
    lake_s: float | None, index_s: float | None, told_s: float | None
) -> None:
    """Nothing comes to the indexer while the stream hangs, so by itself it would say that all is shown."""
    told = _behind(Stage("index", index_s, {"t/0": 7}), Stage("lake", lake_s, {}))
    assert told == Stage("index", told_s, {"t/0": 7})


ENDED_MS = 1_800_000_000_000
SHELVE = "Upgrade metajournal, or `metajournal shelve t 0 7`."


def component_of(
    folder: Path, kept: Mapping[str, object], *, log: str, log_age_s: float, told: dict[str, object]
) -> Component:
    """An indexer whose keeper is gone, as `status` shows it."""
    state, path = folder / "indexer.state", folder / "indexer.log"
    state.write_text(json.dumps(kept))
    path.write_text(log)
    os.utime(path, (0, ENDED_MS / 1000 - log_age_s))
    entry = Entry(ProcessId(2**22 + 1, "1"), ENDED_MS - 600_000, str(path), str(state))
    return _component("indexer", entry, told)


WARNING = "12:00:00 WARNING Elasticsearch is away; waiting for it."


def test_an_old_warning_in_the_log_is_not_told_as_the_cause_of_an_end(tmp_path: Path) -> None:
    ended = {"exit_code": 1, "ended_ms": ENDED_MS}
    old = component_of(tmp_path, ended, log=WARNING, log_age_s=480, told={})
    assert (old.state, old.message) == (
        "ended",
        "ended with exit code 1; its log says nothing of the last 480 s before",
    )
    fresh = component_of(tmp_path, ended, log=WARNING, log_age_s=1, told={})
    assert fresh.message == WARNING
    killed = component_of(tmp_path, {"exit_code": None, "ended_ms": None}, log=WARNING, log_age_s=480, told={})
    assert "nothing says how it ended" in killed.message
    assert f"read {killed.log}" in killed.mend


def test_a_component_that_failed_shows_its_own_error_and_next_step_but_none_of_an_earlier_run(tmp_path: Path) -> None:
    ended = {"exit_code": 1, "ended_ms": ENDED_MS}
    failed: dict[str, object] = {"state": "failed", "message": "unknown-schema: The record at t/0/7 …", "mend": SHELVE}
    own = component_of(tmp_path, ended, log=WARNING, log_age_s=1, told={**failed, "written_ms": ENDED_MS})
    assert own.message == failed["message"]
    assert own.mend == f"{SHELVE} To start again: metajournal down; metajournal up"
    earlier = component_of(tmp_path, ended, log=WARNING, log_age_s=1, told={**failed, "written_ms": 1})
    assert earlier.message == WARNING
    assert SHELVE not in earlier.mend
