"""Hints name commands as they can be typed where they are read, also in a clone whose environment is not activated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from metajournal.cli import main
from metajournal.terminal import here

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture
def rewriting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "_commands", None)
    here.rewrite_commands(main.commands)


def run(folder: Path, path: str, *words: str) -> subprocess.CompletedProcess[str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith("METAJOURNAL_")}
    environment = {**own, "PATH": path, "METAJOURNAL_HOME": str(folder / "home")}
    command = [str(BIN / "metajournal"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


@pytest.mark.thorough
def test_a_hint_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    """The command that it names is there for a shell, whether the environment is activated or not."""
    for path in (os.defpath, f"{BIN}{os.pathsep}{os.defpath}"):
        ended = run(tmp_path, path, "status")
        named = next(line for line in ended.stdout.splitlines() if line.rstrip().endswith(" up"))
        program = named.split()[-2]
        assert shutil.which(program, path=path) is not None
        assert (program == "metajournal") == path.startswith(str(BIN))


def test_a_program_below_the_working_folder_is_named_from_there(
    rewriting: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / ".venv" / "bin" / "metajournal"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.chdir(tmp_path)
    assert here.as_typed_here("See x.log, then run: metajournal up") == "See x.log, then run: .venv/bin/metajournal up"
    assert here.as_typed_here("`metajournal -v search`") == "`.venv/bin/metajournal -v search`"
    program.unlink()
    assert here.as_typed_here("metajournal up") == ".venv/bin/python -m metajournal.cli up"
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.defpath}")
    program.touch(0o755)
    assert here.as_typed_here("metajournal up") == "metajournal up"


@pytest.mark.parametrize(
    "text",
    [
        "metajournal needs Python 3.11",
        "a folder of metajournal",
        "/opt/metajournal up",
        "metajournal-toys up",
        "journal.prefix is metajournal",
        "pip install metajournal-toys",
    ],
)
def test_what_is_no_command_stays(rewriting: None, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    assert here.as_typed_here(text) == text


def test_an_extra_is_installed_from_the_clone(rewriting: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(ROOT / ".venv" / "bin" / "python"))
    monkeypatch.chdir(ROOT)
    hint = "pip install 'metajournal[stream]'"
    assert here.as_typed_here(hint) == ".venv/bin/python -m pip install -e '.[stream]'"
    assert here.as_typed_here("pip install metajournal") == ".venv/bin/python -m pip install -e ."
    monkeypatch.setattr(here, "_ROOT", tmp_path)  # as where the wheel is installed
    assert here.as_typed_here(hint) == hint


def test_a_program_that_runs_commands_inside_of_itself_reads_them_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "_commands", None)
    monkeypatch.setenv("PATH", os.defpath)
    assert here.as_typed_here("metajournal up") == "metajournal up"
