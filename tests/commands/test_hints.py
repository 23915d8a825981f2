"""Whatever hints, docstrings and pages tell their reader to type is there: commands and options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from metajournal.cli import main
from metajournal.commands import services
from metajournal.config import FILE_NAME, HOME_VARIABLE
from metajournal.schemas.settings import Settings
from metajournal.stack import jars, supervisor
from metajournal.terminal import views

ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"`(metajournal [^`]+)`")
OUTSIDE = {"tests", "bench", "build", "docker"}


def told() -> Iterator[tuple[str, str]]:
    """(file, command line) for each that stands in backticks."""
    tops = [top for top in ROOT.iterdir() if top.name not in OUTSIDE and not top.name.startswith(".")]
    for path in [one for top in tops for one in (top, *top.rglob("*")) if one.suffix in (".py", ".md")]:
        text = path.read_text("utf-8")
        for one in strings(text) if path.suffix == ".py" else [text]:
            yield from ((str(path.relative_to(ROOT)), line) for line in QUOTED.findall(one))


def strings(source: str) -> Iterator[str]:
    """Every text of a module, as its readers get it (split literals joined)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def missing(line: str) -> list[str]:
    """Words of a command line that the command line does not know; capitals stand for anything."""
    command: click.Command = main
    unknown = []
    for word in shlex.split(line)[1:]:
        if word.startswith("-") and word != "-":  # that one is standard input
            known = {option for one in command.get_params(click.Context(command)) for option in one.opts}
            unknown += [] if word in known else [word]
        elif isinstance(command, click.Group) and not word.isupper():
            if word not in command.commands:
                return [*unknown, word]
            command = command.commands[word]
    return unknown


@pytest.mark.thorough
def test_every_command_that_is_named_can_be_typed() -> None:
    named = set(told())
    assert len(named) > 10
    assert [(place, line) for place, line in named if missing(line)] == []


def test_a_command_that_is_not_there_would_be_noticed() -> None:
    assert missing("metajournal whence") == ["whence"]
    assert missing("metajournal status --wach") == ["--wach"]
    assert missing("metajournal config set X") == ["set"]
    assert missing("metajournal -v COMMAND") == []


@pytest.mark.parametrize(("wanted", "port"), [(8080, 8080), (0, 39981), (8080, 39981)])
def test_up_says_where_the_gateway_is_not_at_the_port_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: int, port: int
) -> None:
    """Though the settings name the port that it has once everything runs."""
    (tmp_path / FILE_NAME).write_text(f"[gateway]\nport = {wanted}\n")

    def up(home: Path, settings: Settings, **_: Any) -> Any:
        (home / FILE_NAME).write_text(f"[gateway]\nport = {port}\n")
        return SimpleNamespace(components={"gateway": SimpleNamespace(ports=(port,), endpoint=f"127.0.0.1:{port}")})

    monkeypatch.setattr(supervisor, "up", up)
    monkeypatch.setattr(jars, "ensure_all", lambda **_: None)
    monkeypatch.setattr(views, "status_view", lambda report: report)
    for name in ("_look", "print_way_in", "_check_packages_of_stream"):
        monkeypatch.setattr(services, name, lambda *_: "")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    done = CliRunner().invoke(main, ["up"])
    assert done.exit_code == 0, done.output
    said = f"Port {wanted} was taken, so the gateway has port {port}."
    assert (said in done.output.replace("\n", " ")) == (wanted not in (0, port))
