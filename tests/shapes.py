"""What a command printed with `--json`, held against its documented shape by each test that runs one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import click

from docs.json_shapes import SHAPES, faults
from metajournal.cli import main
from metajournal.schemas.shapes import ERROR


def command_of(words: Sequence[str]) -> str:
    """The words of the command itself, among its options and arguments."""
    command: click.Command = main
    path: list[str] = []
    for word in words:
        if isinstance(command, click.Group) and word in command.commands:
            command = command.commands[word]
            path.append(word)
    return " ".join(path)


def check_json(words: Sequence[str], printed: str) -> None:
    """Hold what was printed against its shape. Raises: AssertionError: it has another one."""
    shape = SHAPES.get(command_of(words))
    if "--json" not in words or shape is None:
        return
    values = [json.loads(line) for line in printed.splitlines()]
    assert shape.lines or len(values) <= 1, f"{words} prints {len(values)} values"
    for value in values:
        wrong = faults((shape.shape, ERROR), value)
        assert not wrong, f"{' '.join(words)}: {wrong}"


def with_json() -> Iterator[str]:
    """Every command of ours that has `--json`."""

    def walk(path: str, command: click.Command) -> Iterator[str]:
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                yield from walk(f"{path} {name}".strip(), inner)
        if any("--json" in option.opts for option in command.params):
            yield path

    yield from walk("", main)
