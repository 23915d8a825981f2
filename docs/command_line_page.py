"""The reference page of the command line: every command with its help."""

from __future__ import annotations

from collections.abc import Iterator

import click

from metajournal.cli import main as command_line

from .markdown import prose, table


def command_line_page() -> list[str]:
    """The lines of the page."""
    lines = [
        "# Command line",
        "",
        *prose(
            "Exit codes: 0 fine, 1 found a problem, 2 usage or configuration, 3 cannot reach a service, 4 not allowed,",
            "130 interrupted, 141 the reader of a pipe went away.",
            "`tail` and `status --watch` are stopped with Ctrl-C, and then exit with 0; so do `stream` and `index`.",
        ),
        "Before every command:",
        "",
        *_options(command_line),
    ]
    for path, command in _commands("metajournal", command_line):
        lines += [f"## {path}", "", *_help(path, command), *_options(command)]
    return lines


def _commands(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if type(command) is not click.Group or command.invoke_without_command:  # one that does something by itself
            yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(f"{path} {name}", command)


def _help(path: str, command: click.Command) -> list[str]:
    usage = " ".join([path, *command.collect_usage_pieces(click.Context(command))])
    lines = [f"    {usage}", ""]
    for part in (command.help or "").split("\n\n"):
        example = "\b" in part
        text = part.replace("\b", "").strip()
        shown = [f"    {line.strip()}" for line in text.splitlines()] if example else [" ".join(text.split())]
        lines += [*shown, ""]
    return lines


def _options(command: click.Command) -> list[str]:
    rows = []
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            name = ", ".join(f"`{text}`" for text in param.opts)
            default = (
                "" if param.default in (None, (), False) or not param.show_default else f" Default: {param.default}."
            )
            rows.append((f"{name} {'' if param.is_flag else _metavar(param)}", (param.help or "") + default))
    return table(["option", "meaning"], rows) if rows else []


def _metavar(option: click.Option) -> str:
    return option.metavar or (
        "|".join(option.type.choices) if isinstance(option.type, click.Choice) else option.type.name.upper()
    )
