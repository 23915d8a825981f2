"""Commands that read: `show`, `history`; `search` and `suggest` stand in `searching.py`, `tail` in `tailing.py`.

Thin: options become values, the client or the index answers, `values.py` gives it its shape and `views.py` words it.
Invariant: each has `--json`, which prints one JSON value (`tail`, that goes on: one on each line).
"""

from __future__ import annotations

import click

from ..terminal.completion import complete_urn
from ..terminal.options import Options, json_option, options
from ..terminal.rendering import console, note, print_json, print_line
from .journals import journal_of
from .searching import SEARCHING
from .tailing import tail

_AT_LEAST = click.option(
    "--at-least", metavar="POSITIONS", help="Wait until the lake holds this position (or these, with commas between)."
)
_AS_OF = click.option(
    "--as-of", metavar="TIME", help="By what had happened then, whenever it was told: event times count."
)


@click.command()
@click.argument("urn", shell_complete=complete_urn)
@click.option("--as-at", metavar="POSITIONS|TIME", help="As the journal told it then, instead of now.")
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

    entity, asked_point = Urn.parse(urn), point(as_at) if as_at else None
    after, of = positions(at_least) if at_least else None, moment(as_of) if as_of else None
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
        note("This is not final: the lake has not met a later event there yet, so an earlier one may still come.")


@click.command()
@click.argument("urn", shell_complete=complete_urn)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only so many of the newest changes.")
@click.option("--before", type=click.IntRange(0), metavar="TIMESTAMP", help="Changes below this logical timestamp.")
@_AS_OF
@_AT_LEAST
@json_option
@options
def history(
    given: Options, /, urn: str, limit: int | None, before: int | None, as_of: str | None, at_least: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Show the changes of an entity, oldest first: all of them, or a page with --limit.

    A row's position, for --as-at and `metajournal why`, is TOPIC/PARTITION/LOGICAL_TIMESTAMP; with --json it stands in
    each row. With --as-of the changes stand in the order of their event times.
    """
    from ..schemas.urn import Urn
    from ..terminal.views import history_view
    from ..values import entity_json, moment, positions

    entity, after = Urn.parse(urn), positions(at_least) if at_least else None
    of = moment(as_of) if as_of else None
    most = None if limit is None else limit + 1  # the row before a page says what the page's first row changed
    with journal_of(given) as journal:
        entity_rows = journal.history(entity, limit=most, before=before, as_of=of, at_least=after)
        rows = [{**entity_json(row), "position": str(journal.lake.position_of(row))} for row in entity_rows]
    earlier, page = (rows[0], rows[1:]) if most is not None and len(rows) == most else (None, rows)
    if as_json:
        print_json(page)
        return
    if not page:
        note(f"The journal says nothing of {entity} before that.")
        return
    console().print(history_view(page, earlier, by="system_time" if of is None else "event_time"))
    last = page[-1]["position"]
    as_at = f"as at the last: --as-at {last}; its event:" if of is None else "the last one's event:"
    print_line(f"{as_at} metajournal why {last}", "dim")
    if earlier is not None:
        note(f"There are earlier ones: --limit {limit} --before {page[0]['logical_timestamp']}")


READING: tuple[click.Command, ...] = (show, history, *SEARCHING, tail)
