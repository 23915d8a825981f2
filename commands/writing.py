"""The command that writes: `emit`.

Left to whom: `parsing.py` makes events of options and lines, `emitting.py` sends them, `views.py` words the results.
"""

from __future__ import annotations

from typing import Any, TextIO

import click

from ..terminal.completion import complete_event, complete_urn
from ..terminal.exits import FINE, PROBLEM
from ..terminal.inputs import LineFile, standard_input
from ..terminal.options import SECONDS, Options, json_option, options
from ..terminal.rendering import console, note, print_json
from .journals import journal_of

_NOTHING = "Standard input contained no event, so nothing was emitted."
_NO_URN = "There was no URN to emit the event for, so nothing was emitted."


@click.command()
@click.argument("type_", metavar="TYPE|-", shell_complete=complete_event)
@click.argument("entity", metavar="[URN]", required=False, shell_complete=complete_urn)
@click.option(
    "--each", metavar="FILE|-", type=LineFile(), help="Emit the event for each URN of this file, one per line."
)
@click.option("--data", metavar="JSON", help="All fields of the event as one JSON object.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; may be repeated.")
@click.option("--property", "properties", metavar="KEY=VALUE", multiple=True, help="A property; may be repeated.")
@click.option("--key", "keys", metavar="KEY", multiple=True, help="A property to remove; may be repeated.")
@click.option("--all", "everything", is_flag=True, help="Remove all properties or tags of the scope.")
@click.option("--scope", type=click.Choice(["USER", "SYSTEM", "BOTH"], case_sensitive=False), help="Default: USER.")
@click.option("--description", metavar="TEXT", help="Description of a registered entity.")
@click.option("--schema", metavar="AVRO", help="Schema of a registered entity: Avro JSON.")
@click.option("--actor", metavar="NAME", help="Who is making the change.")
@click.option(
    "--expected",
    type=int,
    metavar="N",
    help="Apply only if the entity's logical timestamp is still N (as `show` prints it); 0: only if it does not exist.",
)
@click.option("--event-time", metavar="TIME", help="When it happened: ISO 8601, or (milli)seconds since 1970.")
@click.option("--unit", "as_unit", is_flag=True, help="Emit all lines as one unit: all or nothing.")
@click.option("--unit-id", metavar="ID", help="Send this unit again; each line must have its event_id.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the outcome, only until Kafka has stored the event.")
@click.option("--timeout", "timeout_s", type=SECONDS, metavar="SECONDS", help="How long to wait for an outcome.")
@json_option
@options
def emit(
    given: Options,
    /,
    type_: str,
    entity: str | None,
    each: TextIO | None,
    as_unit: bool,
    unit_id: str | None,
    no_wait: bool,
    timeout_s: float | None,
    as_json: bool,
    **typed: Any,
) -> int:
    """Emit an event, the same event for each of many URNs (--each), or JSON lines from standard input (TYPE is "-").

    \b
    metajournal emit EntityRegistered dataset:default/purchases --property owner=alice
    metajournal emit TagsAdded dataset:default/purchases --tag pii --actor alice
    echo '{"type": "TagsAdded", "entity": "dataset:default/purchases", "tags": ["pii"]}' | metajournal emit -
    metajournal emit --unit - < events.jsonl
    metajournal search tags:pii --limit 1000 --urns | metajournal emit TagsAdded --each - --tag gdpr
    """
    from ..schemas.urn import Urn
    from ..terminal.parsing import typed_event, typed_options
    from ..terminal.views import result_line, unit_view
    from .emitting import Sending, about_each

    if type_ == "-" and (entity is not None or each is not None or any(map(_is_given, typed.values()))):
        raise click.UsageError("With '-', everything is in the JSON lines; omit the other arguments.")
    if each is not None and (entity is not None or unit_id is not None):
        raise click.UsageError("With --each the URNs are read from the file; omit URN, and --unit-id.")
    if type_ != "-" and each is None and (as_unit or unit_id is not None):
        raise click.UsageError("A unit is read from lines (metajournal emit --unit - < FILE, or --each FILE).")
    typed_of = typed_event if each is None else about_each(type_, typed)
    event = typed_options(type_, entity, **typed) if type_ != "-" and each is None else None
    if entity is not None:
        Urn.parse(entity)  # before connecting: what is no URN is said at once
    lines = standard_input() if type_ == "-" else each
    ok, out, nothing = True, console(), _NOTHING if each is None else _NO_URN
    with journal_of(given) as journal:
        send = Sending(journal, outcome=not no_wait, timeout_s=timeout_s)
        if lines is not None and (as_unit or unit_id is not None):
            unit = send.unit(lines, unit_id, typed_of)
            if not unit["events"]:
                note(nothing)
            print_json(unit) if as_json else out.print(unit_view(unit), soft_wrap=True)
            return FINE if unit["ok"] else PROBLEM
        any_result = False
        for result in [send.event(event)] if event is not None else send.lines(lines or [], typed_of):
            ok, any_result = ok and result["ok"], True
            print_json(result) if as_json else out.print(result_line(result), soft_wrap=True)
    if not any_result:
        note(nothing)
    return FINE if ok else PROBLEM


def _is_given(value: Any) -> bool:
    """Whether an option was typed; a text may be empty and a number 0."""
    return value is not None and value is not False and value != ()


WRITING: tuple[click.Command, ...] = (emit,)
