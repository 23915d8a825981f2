"""Commands that read: `show`, `history`; `search` and `suggest` stand in `searching.py`, `tail` in `tailing.py`.

Thin: options become values, the client or the index answers, `values.py` gives it its shape and `views.py` words it.
Invariant: each has `--json`, which prints one JSON value (`tail`, that goes on: one on each line).
"""

from __future__ import annotations

import click

from ..terminal.completion import complete_urn
from ..terminal.options import Options, json_option, options
from ..terminal.rendering import NOT_FINAL, console, note, print_json, print_line
from .journals import journal_of
from .searching import SEARCHING
from .tailing import tail

_AT_LEAST = click.option(
    "--at-least",
    metavar="POSITIONS",
    help="Wait until the lake contains this position (or these, separated by commas).",
)
_AS_OF = click.option("--as-of", metavar="TIME", help="What was true then, whenever it was recorded (event time).")


@click.command()
@click.argument("urn", shell_complete=complete_urn)
@click.option(
    "--as-at", metavar="POSITIONS|TIME", help="What the journal had recorded by then (system time), instead of now."
)
@_AS_OF
@_AT_LEAST
@json_option
@options
def show(
    given: Options, /, urn: str, as_at: str | None, as_of: str | None, at_least: str | None, as_json: bool
) -> None:
    """Show an entity: its metadata in both scopes."""
    from ..domains.lineage.client import WRITTEN_KINDS
    from ..schemas.urn import Urn
    from ..terminal.views import entity_view
    from ..values import entity_json, moment, point, positions

    entity, asked_point = Urn.parse(urn), None if as_at is None else point(as_at)
    after = None if at_least is None else positions(at_least)
    of = None if as_of is None else moment(as_of)
    with journal_of(given) as journal:
        answer = journal.answer(entity, as_at=asked_point, as_of=of, at_least=after)
        shown = entity_json(answer.row)
        if entity.kind in WRITTEN_KINDS:
            shown["latest_write"] = journal.lineage.latest_write(entity, as_at=asked_point, as_of=of)
    if as_json:
        print_json(shown if asked_point is None and of is None else {**shown, "final": answer.final})
        return
    console().print(entity_view(shown))
    if asked_point is not None and not answer.final:
        note(NOT_FINAL)


@click.command()
@click.argument("urn", shell_complete=complete_urn)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most this many of the newest changes.")
@click.option(
    "--before",
    type=click.IntRange(0),
    metavar="TIMESTAMP",
    help="Only changes below this logical timestamp (the number of a row's position).",
)
@_AS_OF
@_AT_LEAST
@json_option
@options
def history(
    given: Options, /, urn: str, limit: int | None, before: int | None, as_of: str | None, at_least: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Show the changes of an entity, oldest first: all of them, or a page with --limit.

    A row's position, for --as-at and `metajournal why`, is TOPIC/PARTITION/LOGICAL_TIMESTAMP; with --json it is in
    each row. With --as-of, changes are in the order of their event times.
    """
    from ..schemas.urn import Urn
    from ..terminal.views import history_view
    from ..values import entity_json, moment, positions

    entity, after = Urn.parse(urn), None if at_least is None else positions(at_least)
    of = None if as_of is None else moment(as_of)
    most = None if limit is None else limit + 1  # the row before a page says what the page's first row changed
    with journal_of(given) as journal:
        entity_rows = journal.history(entity, limit=most, before=before, as_of=of, at_least=after)
        rows = [{**entity_json(row), "position": str(journal.lake.position_of(row))} for row in entity_rows]
    earlier, page = (rows[0], rows[1:]) if most is not None and len(rows) == most else (None, rows)
    if as_json:
        print_json(page)
        return
    if not page:
        note(f"The journal has no earlier change of {entity}.")
        return
    console().print(history_view(page, earlier, by="system_time" if of is None else "event_time"))
    last = page[-1]["position"]
    as_at = f"as at the last: --as-at {last}; its event:" if of is None else "the last one's event:"
    print_line(f"{as_at} metajournal why {last}", "dim")
    if earlier is not None:
        note(f"There are earlier ones: --limit {limit} --before {page[0]['logical_timestamp']}")


READING: tuple[click.Command, ...] = (show, history, *SEARCHING, tail)
