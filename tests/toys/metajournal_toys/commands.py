"""The command of toys: `players URN`."""

from __future__ import annotations

import click

from metajournal.terminal.options import Options, json_option, options
from metajournal.terminal.rendering import console, print_json, table


@click.command(short_help="Show who played with a toy.")
@click.argument("urn")
@json_option
@options
def players(given: Options, /, urn: str, as_json: bool) -> None:
    """Show who played with a toy, the longest first."""
    with given.journal() as journal:
        found = journal.domain("toys").players(urn)
    if as_json:
        print_json([one._asdict() for one in found])
    else:
        console().print(table(["player", "minutes"], found, right=["minutes"]))


COMMANDS = (players,)
