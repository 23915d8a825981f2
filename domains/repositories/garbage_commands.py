"""`metajournal repo gc --dry-run`: what of a repository no live branch needs. It tells, and never deletes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from ...schemas.wording import many
from ...terminal.exits import FINE
from ...terminal.options import Options, json_option, options
from ...terminal.rendering import console, is_plain, note, print_json, print_line, print_plain, table, time_text
from .command_parts import repository_named

if TYPE_CHECKING:
    from .garbage import GarbagePlan

_AGE: Final = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LISTS: Final = ("addresses", "commits", "layers", "branches")


class _Age(click.ParamType[int]):
    """A whole number with a unit: 90m, 24h, 7d; given as seconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _AGE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value} is not an age: give a whole number and s, m, h or d, such as 24h.", param, ctx)
        return int(found[1]) * _UNITS[found[2]]


@click.command()
@click.argument("repository")
@click.option("--dry-run", "is_dry", is_flag=True, help="Required: this command only reports.")
@click.option(
    "--older-than", "older_than_s", type=_Age(), default="24h", show_default=True, metavar="AGE",
    help="Only blocks that nothing has named for this long, and transactions without an event for this long.",
)  # fmt: skip
@click.option(
    "--list",
    "listed",
    type=click.Choice(_LISTS),
    help="List these instead of counting, one per line; with --json all that is known of each. Addresses that do not "
    "print exactly as they are, such as those with a line end, are listed with --json alone.",
)
@json_option
@options
def gc(
    given: Options, /, repository: str, is_dry: bool, older_than_s: int, listed: str | None, as_json: bool
) -> int:  # fmt: skip
    """Report what no live branch of a repository needs; nothing is ever deleted.

    Counted are commits that no live branch descends from, layers that only such commits name, branches that
    transactions left behind, and blocks (addresses of objects or of their parts) in no net row that a reachable commit
    took or a live branch holds. Other repositories that may name the same addresses are not looked at.

    \b
    metajournal repo gc sales --dry-run
    metajournal repo gc sales --dry-run --older-than 7d --list addresses > unused.txt
    """
    if not is_dry:
        _refuse(repository)
    with given.journal() as journal:
        plan = repository_named(journal, repository).gc_plan(older_than_s=older_than_s)
        if listed is not None:
            return _told(plan, listed, as_json)
        return _counted(plan, as_json)


def _refuse(repository: str) -> None:
    from ...schemas.errors import InputError

    raise InputError(
        "Without --dry-run there is nothing to do: the journal keeps every commit, so metajournal deletes nothing.",
        code="only-dry-run",
        hint=f"`metajournal repo gc {repository} --dry-run --list addresses` lists what you may delete in your store.",
    )


def _counted(plan: GarbagePlan, as_json: bool) -> int:
    from .values import garbage_json

    counts = garbage_json(plan.counts())
    if as_json:
        print_json(counts)
        return FINE
    rows = [
        ("commits", counts["commits"], counts["unreached_commits"]),
        ("layers", counts["layers"], counts["unreached_layers"]),
        ("blocks", counts["blocks"], counts["unused_blocks"]),
        ("branches", counts["branches"], counts["old_transactions"]),
    ]
    shown = [(name, f"{number:,}", f"{unneeded:,}") for name, number, unneeded in rows]
    console().print(table(["", "in all", "not needed"], shown, right=["in all", "not needed"]), crop=False)
    print_line(f"before {time_text(counts['before'])}, as of {counts['position']}", "dim")
    if counts["pending_commits"]:
        print_line(f"layers of {many(counts['pending_commits'], 'commit')} are not known yet", "dim")
    return FINE


def _told(plan: GarbagePlan, listed: str, as_json: bool) -> int:
    """Each of a kind on one line, as it is found."""
    from .values import garbage_item_json

    found: Iterable[Any] = getattr(plan, listed)()
    if not as_json and listed == "addresses":
        return _addresses(block.address for block in found)
    for one in found:
        print_json(garbage_item_json(one)) if as_json else print_line(_line(listed, one))
    return FINE


def _addresses(addresses: Iterable[str]) -> int:
    """Addresses, one per line, each exactly as it is: whoever deletes what is listed here deletes nothing else."""
    left_out = 0
    for address in addresses:
        if is_plain(address):
            print_plain(address)
        else:
            left_out += 1
    if left_out:
        note(f"Left out, since a line cannot show them exactly as they are: {left_out:,}. Use --json, which lists all.")
    return FINE


def _line(listed: str, one: Any) -> str:
    if listed == "layers":
        return f"{one.layer}  {many(one.rows, 'path')}  named by {many(one.commits, 'reachable commit')}"
    if listed == "commits":
        return f"{one.id}  {time_text(one.time)}{'  of an earlier repository' if one.earlier else ''}"
    return f"{one.name}  last event {time_text(one.time)}"
