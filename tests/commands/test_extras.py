"""A command whose packages are not installed names the extra that brings them, and has begun nothing by then."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from metajournal import Journal, Settings
from metajournal.cli import main
from metajournal.producers.topics import Epochs
from metajournal.terminal.options import Options


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As where a package is not installed."""
    for name in [name for name in sys.modules if name.startswith("metajournal.lake.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("words", [("--work-id", "x"), ("--from", "0", "--to", "1"), ("latest", "a", "b")])
def test_files_cannot_be_found_without_the_extra_lake(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    without(monkeypatch, "pyarrow")
    monkeypatch.setattr(Options, "journal", lambda _: Journal(Settings(), Epochs({})))
    result = CliRunner().invoke(main, ["files", *words, "--json"])
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "missing-extra")


def packages_of_stream() -> list[str]:
    """What the extra `stream` brings, by the names that are imported."""
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [re.split(r"[=<>]", one)[0] for name in ("lake", "stream") for one in extras[name]]
    return sorted({"delta-spark": "delta"}.get(one, one) for one in wanted if not one.startswith("metajournal"))


@pytest.mark.parametrize("package", packages_of_stream())
def test_nothing_is_started_without_the_extra_stream(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str
) -> None:
    def begun(*_: Any, **__: Any) -> None:
        raise AssertionError("something was begun")

    without(monkeypatch, package)
    monkeypatch.setenv("METAJOURNAL_HOME", str(tmp_path))
    monkeypatch.setattr("metajournal.stack.jars.ensure_all", begun)
    monkeypatch.setattr("metajournal.stack.supervisor.up", begun)
    result = CliRunner().invoke(main, ["up"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error[missing-extra]: Starting everything")
    assert "metajournal[stream]" in result.stderr


@pytest.mark.parametrize("package", ["sqlalchemy", "sqlglot"])
def test_databases_cannot_be_read_without_the_extra_sources(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    names = [name for name in sys.modules if name.startswith(("metajournal.sources.databases", f"{package}."))]
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    result = CliRunner().invoke(main, ["ingest", "databases", "sqlite:////nowhere.db", "--json"])
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "missing-extra")
    assert "metajournal[sources]" in json.loads(result.stdout)["error"]["hint"]
