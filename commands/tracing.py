"""`why`: where an event is, and what came of it. Thin: `tracing.py` of the root follows it, here it is worded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from ..schemas.errors import MissingExtraError
from ..terminal.options import Options, json_option, options
from ..terminal.rendering import console, fields, plain, print_json, safe, shortened, table, time_text, verdict
from ..terminal.views import detail_text

if TYPE_CHECKING:
    from ..lake.views.views import View
    from ..producers.topics import Epochs
    from ..schemas.settings import Settings
    from ..tracing import Step, Trace


_ROWS = 30  # of those that one event made; a bulk event makes up to a thousand


@click.command(short_help="Say where an event is and what came of it.")
@click.argument("event", metavar="EVENT_ID|POSITION")
@json_option
@options
def why(given: Options, /, event: str, as_json: bool) -> None:
    """Say where an event is and what came of it: its place in the journal, its outcome, the rows that it made, and
    whether the index shows it.

    EVENT_ID is what receipts, tables and change records call it (`emit` and `history` with --json); POSITION is what
    `metajournal emit` and `metajournal history` print: TOPIC/PARTITION/VALUE.
    """
    from ..tracing import read_event, trace

    read_event(event)  # what is neither is said first
    # Kafka is asked only where the lake does not know the event: connecting to it takes most of a second.
    found = trace_json(trace(given.settings, lambda: _topics(given.settings), _lake(given.settings), event))
    print_json(found) if as_json else console().print(trace_view(found))


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


def trace_json(found: Trace) -> dict[str, Any]:
    """An event's way as a JSON value."""
    return {"event_id": found.event_id, "made_at": found.made_at, "places": [_step_json(one) for one in found.steps]}


def _step_json(one: Step) -> dict[str, Any]:
    said = one._asdict()
    place = said.pop("position")
    where = {"topic": place.topic, "partition": place.partition, "offset": place.offset, "position": str(place)}
    said["index"] = said.pop("seen")._asdict()
    return {**where, "logical_timestamp": place.value, **plain(said), "detail": one.detail}


def trace_view(found: dict[str, Any]) -> RenderableType:
    """The same for people; an event that was sent again stands there once for each time."""
    head = fields({"event": found["event_id"] or "-", "made at": time_text(found["made_at"])})
    return Group(head, *(part for one in found["places"] for part in _step_view(one)))


def _step_view(one: dict[str, Any]) -> list[RenderableType]:
    rows = {
        "type": one["type"],
        "about": ", ".join(one["entities"]) or one["aggregate"] or "-",
        "tenant": one["tenant"] or "-",
        "actor": one["actor"] or "-",
        "journal": f"{one['topic']}, partition {one['partition']}, offset {one['offset']}",
        "position": one["position"],
        "appended at": time_text(one["append_time"]),
        "outcome": _outcome(one),
        "index": _index(one["index"]),
    }
    parts: list[RenderableType] = [Text(), fields(rows)]
    if one["rows"]:
        made: list[tuple[object, ...]] = [
            (row["table"], _key(row["key"]), row["logical_timestamp"], row["seq"], "yes" if row["deleted"] else "")
            for row in one["rows"][:_ROWS]
        ]
        if more := len(one["rows"]) - _ROWS:
            made += [(f"and {more:,} more; --json lists all", "", "", "", "")] if more > 0 else []
        right = ["logical timestamp", "seq"]
        parts += [Text(), table(["table", "key", "logical timestamp", "seq", "deleted"], made, right=right)]
    elif one["behind"] == 0:
        parts.append(Text("It made no row."))
    return parts


def _outcome(one: dict[str, Any]) -> Text:
    word = one["outcome"]
    if one["behind"]:
        said = f", {one['behind']:,} positions before the stream is through with it"
        return Text.assemble((safe(word), "yellow"), said)
    text = verdict(word)
    if one["reason"]:
        text.append(f": {safe(one['reason'])} {shortened(detail_text(one['detail']), 160)}".rstrip(), style="default")
    if one["original"]:
        text.append(f" of {one['original']}, which counts", style="default")
    return text


def _index(seen: dict[str, Any]) -> str:
    return seen["said"] if seen["name"] is None else f"{seen['said']} in {seen['name']} (next: {seen['shows']})"


def _key(key: dict[str, Any]) -> str:
    values = list(key.values())
    return str(values[0]) if len(values) == 1 else ", ".join(f"{name} {value}" for name, value in key.items())


TRACING: tuple[click.Command, ...] = (why,)
