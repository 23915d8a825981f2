"""`why`: where an event is, and what came of it. Thin: `tracing.py` of the root follows it, here it is worded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..schemas.errors import MissingExtraError
from ..terminal.options import Options, json_option, options
from ..terminal.rendering import console, print_json
from ..values import trace_json

if TYPE_CHECKING:
    from ..lake.views.views import View
    from ..producers.topics import Epochs
    from ..schemas.settings import Settings
    from ..tracing import Trace


@click.command(short_help="Show where an event is and what became of it.")
@click.argument("event", metavar="EVENT_ID|POSITION")
@json_option
@options
def why(given: Options, /, event: str, as_json: bool) -> None:
    """Show where an event is and what became of it: its place in the journal, its outcome, the rows that it produced,
    and whether the index shows it.

    EVENT_ID is the event's id in receipts, tables and change records (`emit` and `history` with --json); POSITION is
    what `metajournal emit` and `metajournal history` print: TOPIC/PARTITION/VALUE.
    """
    from ..tracing import read_event
    from .trace_views import trace_view

    read_event(event)  # what is neither is said first
    way = trace_json(_followed(given.settings, event))
    print_json(way) if as_json else console().print(trace_view(way))


def _followed(settings: Settings, event: str) -> Trace:
    """An event's way. Kafka is asked only where the lake does not know the event, or where it is of a domain that is
    not known yet, and so not its tables: connecting takes most of a second."""
    from ..tracing import is_known, trace

    way = trace(settings, lambda: _topics(settings), _lake(settings), event)
    if all(is_known(settings, step.position) for step in way.steps):
        return way
    epochs = _topics(settings)  # takes in the domains that the journal serves
    return trace(settings, lambda: epochs, _lake(settings), event)


def _topics(settings: Settings) -> Epochs:
    from ..producers.topics import check_topics

    return check_topics(settings)


def _lake(settings: Settings) -> View | None:
    try:
        from ..lake.tables import Lake
        from ..lake.views.views import Views, whole_view
    except ModuleNotFoundError as error:
        raise MissingExtraError("lake", "Following an event") from error
    return whole_view(Views(Lake(settings.lake.path, settings.lake.storage_options)))


TRACING: tuple[click.Command, ...] = (why,)
