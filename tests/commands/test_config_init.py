"""`config init` writes a settings file to begin with, and overwrites none."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from metajournal.cli import main
from metajournal.config import load_settings
from metajournal.schemas.setting_keys import pairs
from metajournal.schemas.settings import Settings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("METAJOURNAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_sets_nothing_and_has_every_key_at_its_default(folder: Path) -> None:
    result = CliRunner().invoke(main, ["config", "init"])
    assert (result.exit_code, result.output) == (0, "wrote metajournal.toml\n")
    text = (folder / "metajournal.toml").read_text("utf-8")
    environment = {"METAJOURNAL_HOME": str(folder / "home")}
    assert load_settings(environ=environment, folder=folder).settings == Settings()
    keys = [line.removeprefix("# ") for line in text.splitlines() if " = " in line and '= "…"' not in line]
    sections = [line for line in text.splitlines() if line.startswith("[")]
    assert len(sections) == len(set(sections)) == len(tomllib.loads(text))
    unset = {line.split(" = ")[0].removeprefix("# ") for line in text.splitlines() if '= "…"' in line}
    every = {path.partition(".")[2]: value for path, value in pairs(Settings()) if value is not None}
    named = {line.split(" = ")[0].strip('"') for line in keys}
    assert every.keys() <= named
    assert unset == {path.rpartition(".")[2] for path, value in pairs(Settings()) if value is None}
    for line in text.splitlines():
        if " = " in line and line.startswith("# ") and '"…"' not in line and not line.endswith("{}"):
            tomllib.loads(line.removeprefix("# "))


def test_what_is_uncommented_counts(folder: Path) -> None:
    CliRunner().invoke(main, ["config", "init", "mine.toml"])
    file = folder / "mine.toml"
    text = file.read_text("utf-8").replace("# partitions = 4", "partitions = 8")
    file.write_text(text.replace('# "bootstrap.servers" = "127.0.0.1:9092"', '"bootstrap.servers" = "k:1"'), "utf-8")
    loaded = load_settings(environ={"METAJOURNAL_HOME": str(folder), "METAJOURNAL_CONFIG": str(file)}, folder=folder)
    assert (loaded.settings.journal.partitions, loaded.settings.kafka["bootstrap.servers"]) == (8, "k:1")


def test_a_file_that_is_there_stays(folder: Path) -> None:
    (folder / "metajournal.toml").write_text("# mine\n")
    result = CliRunner().invoke(main, ["config", "init", "--json"])
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (2, "file-exists")
    assert (folder / "metajournal.toml").read_text() == "# mine\n"
    nowhere = CliRunner().invoke(main, ["config", "init", "no/such/folder.toml", "--json"])
    assert (nowhere.exit_code, json.loads(nowhere.stdout)["error"]["code"]) == (2, "file-not-written")
