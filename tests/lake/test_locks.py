"""What only one process at a time may do in a lake, and what a killed one leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from metajournal.lake.storage.locks import only_one
from metajournal.lake.tables import Lake
from metajournal.schemas.errors import StreamError
from metajournal.schemas.settings import LakeSettings, Settings, StackSettings
from metajournal.streaming.runner import Stream
from metajournal.streaming.staging import FOLDER

KILLED = """
import os, sys
from metajournal.lake.tables import Lake
with Lake(sys.argv[1]).aside(["entities"]):
    os.kill(os.getpid(), 9)
"""


def test_one_process_a_lake_and_name_and_the_next_when_it_has_ended(tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    with only_one(path, "rebuild", hint="Wait."), only_one(path, "stream", hint="Wait."):
        with pytest.raises(StreamError) as refused, only_one(path, "rebuild", hint="Wait."):
            pass
        assert (refused.value.code, refused.value.hint) == ("rebuild-runs", "Wait.")
        with only_one(str(tmp_path / "other"), "rebuild", hint="Wait."):
            pass
    with only_one(path, "rebuild", hint="Wait."):
        pass


def test_where_no_lock_can_be_made_the_writes_themselves_say_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with only_one(str(tmp_path / "file"), "stream", hint="Wait."), pytest.raises(OSError, match="file"):
        (tmp_path / "file" / "rows").touch()  # it is the block that meets the trouble, not the lock


@pytest.mark.thorough
def test_tables_aside_of_a_killed_process_go_with_the_next_and_those_in_use_stay(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    [left] = tmp_path.glob("aside-*")
    with lake.aside(["entities"]) as first, lake.aside(["entities"]) as second:
        assert not left.exists()
        assert all(Path(view.tables["entities"].uri).is_dir() for view in (first, second))
        assert len(list(tmp_path.glob("aside-*"))) == 2
    assert not list(tmp_path.glob("aside-*"))


def test_a_second_stream_of_a_lake_is_refused_before_it_clears_the_first_ones_records(tmp_path: Path) -> None:
    lake, staged = tmp_path / "lake", tmp_path / "lake" / FOLDER / "batch" / "records"
    staged.parent.mkdir(parents=True)
    staged.touch()
    home = tmp_path / f"home-{os.getpid()}"
    settings = Settings(lake=LakeSettings(path=str(lake)), stack=StackSettings(home=str(home)))
    with only_one(str(lake), "stream", hint=""), pytest.raises(StreamError, match="Another stream of the lake"):
        Stream(settings, []).run()
    assert staged.exists()
