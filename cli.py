"""The command line: `metajournal`.

Thin: options become values, a room does the work, `views.py` words the result. How commands end stands in `exits.py`.
Heavy parts are imported by the command that needs them, so `metajournal --help` and the light client stay quick.
Invariant: every reading command has `--json`, which prints one JSON value (following commands: one on each line).
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import click

from .cli_options import Options, json_option, options
from .cli_services import SERVICES
from .exits import PROBLEM, Commands
from .render import console, print_json, start_logging
from .schemas.errors import MissingExtraError


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="metajournal")
@click.option("--config", "file", metavar="FILE", help="Settings file (default: metajournal.toml, where it exists).")
@click.option("--set", "overrides", metavar="SECTION.KEY=VALUE", multiple=True, help="Set one setting.")
@click.option("-v", "--verbose", is_flag=True, help="Show the log on standard error.")
@click.pass_context
def main(context: click.Context, file: str | None, overrides: tuple[str, ...], verbose: bool) -> None:
    """Metadata as a journal: every change is an event in Kafka, kept in Delta tables, found in Elasticsearch."""
    context.obj = Options(file, overrides)
    if verbose:
        start_logging()
    else:  # without a handler Python would print warnings of its own accord
        logging.basicConfig(handlers=[logging.NullHandler()])


@main.command()
@click.argument("type_", metavar="TYPE|-")
@click.argument("entity", metavar="[URN]", required=False)
@click.option("--data", metavar="JSON", help="All fields of the event as one JSON object.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; may be repeated.")
@click.option("--property", "properties", metavar="KEY=VALUE", multiple=True, help="A property; may be repeated.")
@click.option("--key", "keys", metavar="KEY", multiple=True, help="A property to remove; may be repeated.")
@click.option("--all", "everything", is_flag=True, help="Remove all properties or tags of the scope.")
@click.option("--scope", type=click.Choice(["USER", "SYSTEM", "BOTH"], case_sensitive=False), help="Default: USER.")
@click.option("--description", metavar="TEXT", help="Description of a registered entity.")
@click.option("--schema", metavar="AVRO", help="Schema of a registered entity: Avro JSON.")
@click.option("--actor", metavar="NAME", help="Who does this.")
@click.option("--expected", type=int, metavar="N", help="Only if the entity's logical timestamp is N; 0: not there.")
@click.option("--event-time", metavar="TIME", help="When it happened: ISO 8601, or milliseconds since 1970.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the outcome, only until Kafka has the event.")
@click.option("--timeout", "timeout_s", type=float, metavar="SECONDS", help="How long to wait for an outcome.")
@json_option
@options
def emit(
    given: Options,
    /,
    type_: str,
    entity: str | None,
    no_wait: bool,
    timeout_s: float | None,
    as_json: bool,
    **typed: Any,
) -> int:
    """Emit an event, or JSON lines from standard input (TYPE is "-").

    \b
    metajournal emit EntityRegistered dataset:default/purchases --property owner=alice
    metajournal emit TagsAdded dataset:default/purchases --tag pii --actor alice
    echo '{"type": "TagsAdded", "entity": "dataset:default/purchases", "tags": ["pii"]}' | metajournal emit -
    """
    from .emitting import Sending
    from .parsing import typed_options
    from .views import result_line

    if type_ == "-" and (entity or any(typed.values())):
        raise click.UsageError("With '-' everything stands in the JSON lines; leave the other arguments away.")
    event = None if type_ == "-" else typed_options(type_, entity, **typed)
    ok, out = True, console()
    with given.journal() as journal:
        send = Sending(journal, outcome=not no_wait, timeout_s=timeout_s)
        for result in send.lines(sys.stdin) if event is None else [send.one(event)]:
            ok = ok and result["ok"]
            print_json(result) if as_json else out.print(result_line(result), soft_wrap=True)
    return 0 if ok else PROBLEM


@main.command()
@click.argument("domain", default="catalog")
@click.option("--since", metavar="POSITION", help="Begin after this event instead of now: <topic>/<partition>/<value>.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after N changes.")
@json_option
@options
def tail(given: Options, /, domain: str, since: str | None, limit: int | None, as_json: bool) -> None:
    """Print changes as they happen, until interrupted."""
    from .schemas.positions import Position
    from .views import change_json, change_line

    out, after = console(), Position.parse(since) if since else None
    with given.journal() as journal:
        for change in journal.changes(domain, since=after, limit=limit):
            print_json(change_json(change)) if as_json else out.print(change_line(change), soft_wrap=True)


@main.command()
@click.argument("urn")
@click.option("--as-at", metavar="POSITION|TIME", help="As the journal told it then, instead of now.")
@json_option
@options
def show(given: Options, /, urn: str, as_at: str | None, as_json: bool) -> None:
    """Show an entity: its metadata in both scopes."""
    from .parsing import point
    from .schemas.urn import Urn
    from .views import entity_json, entity_view

    entity, at = Urn.parse(urn), point(as_at) if as_at else None
    with given.journal() as journal:
        shown = entity_json(journal.show(entity, as_at=at))
    print_json(shown) if as_json else console().print(entity_view(shown))


@main.command()
@click.argument("urn")
@json_option
@options
def history(given: Options, /, urn: str, as_json: bool) -> None:
    """Show every change of an entity, oldest first."""
    from .schemas.urn import Urn
    from .views import entity_json, history_view

    entity = Urn.parse(urn)
    with given.journal() as journal:
        rows = [entity_json(row) for row in journal.history(entity)]
    print_json(rows) if as_json else console().print(history_view(rows))


@main.command()
@click.argument("query", default="")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Only this kind; may be repeated.")
@click.option("--namespace", metavar="NAME", help="Only this namespace.")
@click.option("--scope", type=click.Choice(["USER", "SYSTEM"], case_sensitive=False), help="Which metadata may match.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N", help="Hits to show.")
@click.option("--cursor", metavar="TEXT", help="Go on where an earlier answer ended.")
@click.option("--at-least", metavar="POSITION", help="Wait until the index shows this position.")
@json_option
@options
def search(given: Options, /, query: str, at_least: str | None, as_json: bool, **asked: Any) -> None:
    """Search names, tags, properties, descriptions and schemas; best match first.

    \b
    metajournal search 'noaa owner:ali*'
    metajournal search tags:pii --kind dataset
    """
    from .indexer.search import Search
    from .schemas.positions import Position
    from .views import results_json, results_view

    after = Position.parse(at_least) if at_least else None
    with Search(given.settings) as catalog:  # asks nothing of Kafka
        found = catalog.search(query, at_least=after, **{key: one for key, one in asked.items() if one})
    print_json(results_json(found)) if as_json else console().print(results_view(found))


@main.group()
def config() -> None:
    """Settings: what they are and where they come from."""


@config.command("show")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@json_option
@options
def config_show(given: Options, /, origin: bool, as_json: bool) -> None:
    """Show every setting; secrets are masked."""
    from .views import config_json, config_view

    shown = config_json(given.loaded.shown(), origin=origin)
    print_json(shown) if as_json else console().print(config_view(shown))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def demo(as_json: bool) -> int:
    """Start everything in a temporary folder, publish this Python environment, search it, end everything."""
    try:
        from .demo import run_demo
    except ModuleNotFoundError as error:
        raise MissingExtraError("all", "The demo") from error
    return run_demo(as_json=as_json)


for _command in SERVICES:
    main.add_command(_command)

if __name__ == "__main__":
    main()
