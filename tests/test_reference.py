"""The reference pages say what the code says: every key, command, code, event, topic and column stands there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import click
import pytest
import yaml

import metajournal
from metajournal.cli import main
from metajournal.config import load_settings
from metajournal.lake.declared import SPECS
from metajournal.producers.topics import wanted_topics
from metajournal.schemas.errors import MetajournalError
from metajournal.schemas.events import event_types
from metajournal.schemas.settings import Settings

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"


def generate(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "docs.generate", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def page(name: str) -> str:
    return (PAGES / name).read_text("utf-8")


def test_the_pages_are_those_that_the_code_gives() -> None:
    done = generate("--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_key_of_the_settings_is_explained(tmp_path: Path) -> None:
    text = page("configuration.md")
    loaded = load_settings(environ={"METAJOURNAL_HOME": str(tmp_path)}, folder=tmp_path)
    for line in loaded.shown():
        section, _, key = line.key.partition(".")
        assert f"## [{section}]" in text
        assert f"`{key}`" in text, line.key
        if section != "kafka":
            [row] = [one for one in text.splitlines() if f"`METAJOURNAL__{section.upper()}__{key.upper()}`" in one]
            assert not row.endswith("|  |"), f"{line.key} has no explanation"


NOTHING_BY_ITSELF = (
    "metajournal",
    "metajournal access",
    "metajournal config",
    "metajournal rebuild",
    "metajournal repo",
    "metajournal restore",
)
"""Groups whose commands alone do something."""


def test_every_command_and_option_is_listed() -> None:
    text = page("command-line.md")

    def check(path: str, command: click.Command) -> None:
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                check(f"{path} {name}", inner)
        if path in NOTHING_BY_ITSELF:
            return
        part = text.partition(f"## {path}\n")[2].partition("\n## ")[0]
        assert part, path
        options = [one.opts[0] for one in command.params if isinstance(one, click.Option)]
        assert [one for one in options if f"`{one}`" not in part] == [], path

    check("metajournal", main)


def test_every_class_of_errors_stands_there_with_its_code() -> None:
    text = page("errors.md")
    kinds = [MetajournalError]
    for kind in kinds:
        kinds += [one for one in kind.__subclasses__() if one.__module__.startswith("metajournal.")]
    for kind in kinds[1:]:
        assert f"| `{kind.__name__}` | `{kind.CODE}` |" in text, kind.__name__
    for code in ("no-lake", "unknown-then", "given-twice"):
        assert f"| `{code}` |" in text


@pytest.mark.parametrize("name", event_types())
def test_every_event_type_stands_there(name: str) -> None:
    assert f"## {name}\n" in page("events.md")


def test_every_public_name_stands_there_with_what_is_said_of_it() -> None:
    text = page("python.md")
    for name in metajournal.__all__:
        held = getattr(metajournal, name)
        if isinstance(held, type) and issubclass(held, MetajournalError):
            assert f"`{name}`" in page("errors.md"), name
        elif name not in ("Cut", "Fault", "Settings"):  # aliases, and what has a page of its own
            assert f"### {name}\n" in text, name
    assert "### Journal.emit\n\n    Journal.emit(event: Event, *, actor: str | None = None" in text
    assert "### Receipt.position\n" in text
    assert "hash`: 32 hex digits: blake2b" in text


def test_every_topic_table_and_column_stands_there() -> None:
    text = page("topics-and-tables.md")
    for topic in wanted_topics(Settings()):
        assert f"| `{topic.topic}` | {topic.partitions} |" in text
    for name, schema in ((name, spec.schema) for name, spec in SPECS.items()):
        part = text.partition(f"### {name}\n")[2].partition("\n### ")[0]
        assert [one for one in schema.names if f"| `{one}` |" not in part] == []
        assert [row for row in part.splitlines() if row.endswith("|  |")] == [], f"columns of {name} without a meaning"


@pytest.mark.parametrize("guide", sorted((ROOT / "docs" / "how-to").glob("*.md")), ids=lambda path: path.stem)
def test_what_a_how_to_page_shows_can_be_read_and_its_links_lead_somewhere(guide: Path, tmp_path: Path) -> None:
    text = guide.read_text("utf-8")
    for language, block in FENCE.findall(text):
        if language == "toml":
            file = tmp_path / "metajournal.toml"
            file.write_text(re.sub(r'= "/run/secrets/\w+"', f'= "{__file__}"', block), "utf-8")
            named = {"METAJOURNAL_CONFIG": str(file)} if "--config" in text else {}
            load_settings(environ={"METAJOURNAL_HOME": str(tmp_path / "home"), **named}, folder=tmp_path)
            continue
        if language == "bash":
            subprocess.run(["bash", "-n"], input=block, text=True, check=True)
            continue
        if language == "yaml":
            assert yaml.safe_load(block)
            continue
        if language == "ini":
            ConfigParser(interpolation=None).read_string(block)
            continue
        if language == "properties":
            assert all(len(line.split(maxsplit=1)) == 2 for line in block.splitlines())
            continue
        assert language == "python"
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module == "metajournal":
                assert [one.name for one in node.names if not hasattr(metajournal, one.name)] == []
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (guide.parent / target).exists(), target
    if guide.name != "README.md":
        assert f"({guide.name})" in (guide.parent / "README.md").read_text("utf-8")
