"""Commands about lineage: `lineage URN`, `lineage import`, `lineage export`, `runs PROGRAM`, `run URN`.

Thin: options become values, the client answers, `lineage_views.py` words it.
Invariant: each has `--json`, which prints one JSON value (`export`: one OpenLineage event on each line, always).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from ...schemas.errors import EventTooLargeError, UnknownEntityError
from ...terminal.completion import complete_urn
from ...terminal.exits import FINE, PROBLEM
from ...terminal.inputs import LineFile
from ...terminal.options import Options, json_option, options
from ...terminal.rendering import console, note, print_json, time_text

if TYPE_CHECKING:
    from ...lake_client import ConnectedJournal
    from ...schemas.urn import Urn
    from .client import LineageClient, WithLineage


class _Lineage(click.Group):
    """A group whose first word may be a URN instead of a command: then it is asked about."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        known = {*self.commands, *context.help_option_names}
        return super().parse_args(context, args if not args or args[0] in known else ["of", *args])


@click.group(
    cls=_Lineage,
    short_help="Show which programs accessed data, and what else they accessed.",
    subcommand_metavar="URN|COMMAND [ARGS]...",
)
def lineage() -> None:
    """Show which programs accessed data, and what else they accessed; or exchange lineage as OpenLineage events.

    \b
    metajournal lineage dataset:shop/orders --levels 2
    metajournal lineage dataset:shop/orders --direction upstream --from 2026-01-01 --json
    metajournal lineage import events.jsonl
    metajournal lineage export dataset:shop/orders
    """


_FROM = click.option("--from", "start", metavar="TIME", help="Only runs that had not stopped before this.")
_TO = click.option("--to", "end", metavar="TIME", help="Only runs that started before this.")
_AS_AT = click.option(
    "--as-at", metavar="POSITIONS|TIME", help="What the journal had recorded by then (system time), instead of now."
)
_AS_OF = click.option(
    "--as-of",
    metavar="TIME",
    help="Only facts about this time or an earlier one, whenever they were recorded (event time).",
)
_LIMIT = click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, metavar="N")
_NODES = click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, metavar="N",
    help="Maximum number of nodes.",
)  # fmt: skip
_CURSOR = click.option("--cursor", metavar="TEXT", help="Continue where an earlier answer ended.")


@lineage.command("of", short_help="Show the lineage of data (`of` may be omitted).")
@click.argument("urn", shell_complete=complete_urn)
@_FROM
@_TO
@click.option("--levels", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N")
@click.option(
    "--direction", type=click.Choice(["both", "upstream", "downstream"]), default="both", show_default=True,
    help="upstream: the programs that wrote it and what they read; downstream: the reverse.",
)  # fmt: skip
@_NODES
@_AS_AT
@_AS_OF
@json_option
@options
def of(given: Options, /, urn: str, as_at: str | None, as_json: bool, **asked: Any) -> None:
    """Show which programs accessed data, and what else they accessed, as a tree."""
    from ...schemas.urn import Urn
    from .views import lineage_view

    data, question = Urn.parse(urn), _question_options(asked, as_at)
    with given.journal() as journal:
        answer = _lineage(journal).of(data, **question)
        if not answer["relations"] and _is_untouched(journal, data) and (why := _why_not_there(journal, data)):
            note(f"No lineage is known of {data}: {why}.")
    within = asked["start"] is not None or asked["end"] is not None
    view = lineage_view(answer, data, within=within, direction=asked["direction"])
    print_json(answer) if as_json else console().print(view, crop=False)


@lineage.command("import", short_help="Emit the facts of OpenLineage run events.")
@click.argument("file", type=LineFile())
@click.option("--actor", metavar="NAME", help="Who is reporting the facts.")
@json_option
@options
def import_(given: Options, /, file: Any, actor: str | None, as_json: bool) -> int:
    """Emit the facts of OpenLineage run events: JSON objects or one array of them, from a file or "-".

    Importing events again changes nothing. Events other than run events are reported, and the rest is imported.
    """
    from .openlineage import read_events
    from .views import imported_view

    imported: dict[str, Any] = {"events": 0, "facts": 0, "refused": []}
    with given.journal() as journal:
        for line, facts, fault in read_events(file):
            try:
                for fact in facts:
                    journal.emit(fact, actor=actor, block_s=30.0)
                    imported["facts"] += 1
            except EventTooLargeError as error:
                fault = error.message
            imported["events"] += fault is None
            if fault is not None:
                imported["refused"].append({"line": line, "message": fault})
        journal.flush()
    imported["ok"] = not imported["refused"]
    print_json(imported) if as_json else console().print(imported_view(imported))
    return FINE if imported["ok"] else PROBLEM


@lineage.command("export", short_help="Print the lineage of data as OpenLineage run events.")
@click.argument("urn", shell_complete=complete_urn)
@_FROM
@_TO
@click.option("--levels", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N")
@click.option("--direction", type=click.Choice(["both", "upstream", "downstream"]), default="both", show_default=True)
@_NODES
@_AS_AT
@_AS_OF
@options
def export(given: Options, /, urn: str, as_at: str | None, **asked: Any) -> int:
    """Print the runs in the lineage of data as OpenLineage run events, one JSON object per line.

    Where the lineage has more nodes than --limit, those of the nearest ones are printed, and the exit code is 1.
    """
    from ...schemas.urn import Urn
    from .openlineage import run_events

    data, question = Urn.parse(urn), _question_options(asked, as_at)
    with given.journal() as journal:
        found = _lineage(journal).runs_in(data, **question)
    for run, accesses in found:
        for event in run_events(run, accesses):
            print_json(event)
    if found.partial is None:
        return FINE
    note(f"This is not the whole lineage: {found.partial}. --limit says how many to follow.")
    return PROBLEM


@click.command("runs")
@click.argument("program", shell_complete=complete_urn)
@_FROM
@_TO
@_LIMIT
@_CURSOR
@_AS_AT
@_AS_OF
@json_option
@options
def runs(given: Options, /, program: str, as_at: str | None, as_json: bool, **asked: Any) -> None:
    """List the runs of a program, newest first."""
    from ...schemas.urn import Urn
    from .values import runs_json
    from .views import runs_view

    of, question = Urn.parse(program), _question_options(asked, as_at)
    with given.journal() as journal:
        page = _lineage(journal).runs(of, **question)
        if not page.items and _is_without_runs(journal, of) and (why := _why_not_there(journal, of)):
            note(f"No lineage is known of {of}: {why}.")
    shown = runs_json(page)
    print_json(shown) if as_json else console().print(runs_view(shown), crop=False)


def _lineage(journal: ConnectedJournal) -> LineageClient:
    return cast("WithLineage", journal).lineage


def _is_without_runs(journal: ConnectedJournal, program: Urn) -> bool:
    """Whether there is no run of a program at any time."""
    return not _lineage(journal).runs(program, limit=1).items


def _is_untouched(journal: ConnectedJournal, data: Urn) -> bool:
    """Whether lineage does not know data at any time."""
    return not _lineage(journal).of(data, levels=1)["relations"]


def _why_not_there(journal: ConnectedJournal, entity: Urn) -> str | None:
    """Why the catalog says nothing of an entity now; None where it does."""
    try:
        journal.show(entity)
    except UnknownEntityError as error:
        deleted_ms = error.data.get("deleted_at")
        return "check the spelling" if deleted_ms is None else f"it was deleted at {time_text(deleted_ms)}"
    return None


@click.command("run")
@click.argument("urn", shell_complete=complete_urn)
@_LIMIT
@_CURSOR
@_AS_AT
@_AS_OF
@json_option
@options
def run(
    given: Options, /, urn: str, as_at: str | None, as_json: bool, limit: int, cursor: str | None, as_of: str | None
) -> None:
    """Show a run: its times and status, the metadata recorded with it, and the data it accessed."""
    from ...schemas.urn import Urn
    from .values import touched_json
    from .views import run_view

    run_urn, point_options = Urn.parse(urn), _question_options({"as_of": as_of}, as_at)
    with given.journal() as journal:
        page = _lineage(journal).accesses(run_urn, limit=limit, cursor=cursor, **point_options)
        shown = touched_json(_lineage(journal).run(run_urn, **point_options), page)
    print_json(shown) if as_json else console().print(run_view(shown), crop=False)


def _question_options(given: dict[str, Any], as_at: str | None) -> dict[str, Any]:
    """What was said, texts of times as milliseconds."""
    from ...values import moment, point

    asked = {name: value for name, value in given.items() if value is not None}
    for name in ("start", "end", "as_of"):
        if name in asked:
            asked[name] = moment(asked[name])
    return asked if as_at is None else {**asked, "as_at": point(as_at)}


COMMANDS: tuple[click.Command, ...] = (lineage, runs, run)
