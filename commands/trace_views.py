"""What `why` shows of an event to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..schemas.rejections import detail_in_words
from ..terminal.rendering import fields, safe, shortened, table, time_text, verdict


def trace_view(trace: dict[str, Any]) -> RenderableType:
    """The same for people; an event that was sent again stands there once for each time."""
    head = fields({"event": trace["event_id"] or "-", "created at": time_text(trace["made_at"])})
    return Group(head, *(part for step in trace["places"] for part in _step_view(step)))


def _step_view(step: dict[str, Any]) -> list[RenderableType]:
    rows = {
        "type": step["type"],
        "entities": ", ".join(step["entities"]) or step["aggregate"] or "-",
        "tenant": step["tenant"] or "-",
        "actor": step["actor"] or "-",
        "journal": f"{step['topic']}, partition {step['partition']}, offset {step['offset']}",
        "position": step["position"],
        "event time": time_text(step["event_time"]),
        "appended at": time_text(step["append_time"]),
        "outcome": _outcome(step),
        "index": _index(step["index"]),
    }
    parts: list[RenderableType] = [Text(), fields(rows)]
    if step["rows"]:
        right = ["logical timestamp", "seq"]
        made = [row for name, count in step["row_counts"].items() for row in _made(step["rows"], name, count)]
        parts += [Text(), table(["table", "key", "logical timestamp", "seq", "deleted"], made, right=right)]
    elif step["behind"] == 0:
        parts.append(Text("It produced no row."))
    return parts


def _made(rows: Sequence[dict[str, Any]], name: str, count: int) -> Iterator[tuple[object, ...]]:
    """The rows of one table that are shown, and how many more there are."""
    shown = [row for row in rows if row["table"] == name]
    for row in shown:
        yield name, _key(row["key"]), row["logical_timestamp"], row["seq"], "yes" if row["deleted"] else ""
    if more := count - len(shown):
        yield name, f"and {more:,} more of {count:,}", "", "", ""


def _outcome(step: dict[str, Any]) -> Text:
    word = step["outcome"]
    if step["behind"]:
        events = "event" if step["behind"] == 1 else "events"
        waits = f": the stream is {step['behind']:,} {events} behind"
        return Text.assemble(("pending", "yellow"), waits)
    text = verdict(word)
    if step["reason"]:
        why = shortened(detail_in_words(step["detail"]), 160)
        text.append(f": {safe(step['reason'])} {why}".rstrip(), style="default")
    if step["original"]:
        text.append(f" of {step['original']}, which counts", style="default")
    return text


def _index(seen: dict[str, Any]) -> str:
    return seen["said"] if seen["name"] is None else f"{seen['said']} in {seen['name']} (next: {seen['shows']})"


def _key(key: dict[str, Any]) -> str:
    values = list(key.values())
    return str(values[0]) if len(values) == 1 else ", ".join(f"{name} {value}" for name, value in key.items())
