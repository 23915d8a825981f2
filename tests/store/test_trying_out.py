"""The store of the how-to: it serves from a folder, prints settings that reach it, and keeps its objects."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from metajournal.config import load_settings
from metajournal.lake.storage.store import read_object, replace_object, store_files
from metajournal.schemas.settings import LakeSettings

pytestmark = pytest.mark.services
ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to" / "put-the-lake-in-an-object-store.md"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The store as the how-to starts it; gives what it prints."""
    command = [sys.executable, "-m", "metajournal.stack.s3proxy", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("# export"):
            lines.append(process.stdout.readline())
            assert lines[-1], "it ended"
        try:
            yield "".join(lines)
        finally:
            process.terminate()
            assert process.wait(60) == 0


def reached(printed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LakeSettings:
    """The settings of the lake, as a reader of the how-to has them."""
    file = tmp_path / "lake.toml"
    file.write_text(printed, "utf-8")
    exported = re.search(r"^# export (\w+)=\$\(cat '(.+)'\)$", printed, re.M)
    assert exported
    monkeypatch.setenv(exported[1], Path(exported[2]).read_text("ascii"))
    monkeypatch.setenv("METAJOURNAL_CONFIG", str(file))
    return load_settings().settings.lake


def test_it_prints_settings_that_reach_it_without_the_secret_and_keeps_its_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a store"
    with serving(folder) as printed:
        lake = reached(printed, monkeypatch, tmp_path)
        assert lake.storage_options["AWS_SECRET_ACCESS_KEY"] not in printed
        replace_object(store_files(lake.path, lake.storage_options), "kept", b"some")
    with serving(folder) as printed:
        lake = reached(printed, monkeypatch, tmp_path)
        assert read_object(store_files(lake.path, lake.storage_options), "kept") == b"some"


def test_the_settings_of_the_how_to_are_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```", HOW_TO.read_text("utf-8"), re.M | re.S)
    shown: dict[str, Any] = tomllib.loads(block)
    file = tmp_path / "lake.toml"
    file.write_text(block, "utf-8")
    monkeypatch.setenv("METAJOURNAL_CONFIG", str(file))
    for key, value in re.findall(r"^export (\w+)=([\w]+)$", HOW_TO.read_text("utf-8"), re.M):
        monkeypatch.setenv(key, value)
    lake = load_settings().settings.lake
    assert lake.path == shown["lake"]["path"]
    assert lake.storage_options["AWS_ACCESS_KEY_ID"] == "metajournal"
