"""Entities, outcomes, changes and search hits as people see them.

Left to whom: `values.py` has their JSON shapes, `rendering.py` makes text safe and draws; here only what stands where.
Invariant: a table and its `--json` come from the same value, so they cannot disagree.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..schemas.errors import UnknownEntityError
from ..schemas.limits import RESERVED_PROPERTIES
from ..schemas.rejections import detail_in_words
from .differences import changed_fields, changed_value, field_text, listed
from .here import as_typed_here
from .rendering import fields, many, safe, shortened, table, time_text, verdict

WHY_WIDTH = 56  # characters of the text around a match
DESCRIPTION_WIDTH = 72  # characters of a description below the reasons for a hit
_REASONS = 2  # reasons for a hit in a table
VALUE_WIDTH = 100  # characters of a property value in a table
NAME_WIDTH = 120  # characters of the name or type of a schema's column
MOST_COLUMNS = 200  # of a schema
MOST_LINES = 30  # of a property value
MOST_TEXTS = 30  # of a list in a record
TEXT_WIDTH = 500  # characters of one of them
CHANGE_WIDTH = 100  # characters of what a row of a history changed
_OWN_TIMES = ("creation_time", "last_update_time")  # among the SYSTEM properties


def entity_view(entity: Mapping[str, Any], *, width: int = VALUE_WIDTH, most_lines: int = MOST_LINES) -> RenderableType:
    """One entity, both scopes apart.

    Args:
        width: most characters of a line of a property's value.
        most_lines: of a property's value; if 1, its lines are separated by spaces.
    """
    head = {
        "entity": entity["urn"],
        "written at": f"{time_text(entity['system_time'])} by {entity['actor'] or '(no actor given)'}",
        "logical timestamp": entity["logical_timestamp"],
    }
    head |= {name: _field(value, width, most_lines) for name, value in _record(entity).items()}
    written = entity.get("latest_write")
    if written is not None:
        who = written["program"] or f"{written['source']} (external)"
        head["data last written"] = f"{time_text(written['at'])} by {shortened(who, width)}"
    parts: list[RenderableType] = [fields(head)]
    for scope in ("user", "system"):
        annotations = entity[scope]
        properties = dict(annotations["properties"])
        columns = _columns(properties) if scope == "system" else None
        if columns is not None:
            properties.pop("schema")
        rows = [(key, _value(scope, key, value, width, most_lines)) for key, value in properties.items()]
        rows += [("tags", shortened(", ".join(annotations["tags"]), width))] if annotations["tags"] else []
        if rows:
            parts += [Text(f"{scope} metadata", style="bold"), fields(rows, indent=2)]
        parts += [] if columns is None else columns
    return Group(*parts)


def _record(entity: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entity's record, and of the document `metadata` in it, where it has one."""
    record = dict(entity.get("record") or {})
    document = record.pop("metadata", None)
    return {**record, **(document or {})}


def _field(value: Any, width: int, most_lines: int) -> str:
    """A field of a record: a list of texts whole, where it may take several lines, so that each can be copied."""
    is_texts = isinstance(value, list | tuple) and value and all(isinstance(one, str) for one in value)
    if not is_texts or most_lines == 1:
        return shortened(field_text(value), width)
    shown = ", ".join(shortened(one, TEXT_WIDTH) for one in value[:MOST_TEXTS])
    more = len(value) - MOST_TEXTS
    return f"{shown} and {more:,} more; --json prints them all" if more > 0 else shown


def _columns(properties: Mapping[str, str]) -> list[RenderableType] | None:
    """An entity's schema as a table of its columns, nested ones after their parent; None if none can be read."""
    from ..indexer.schema_fields import schema_fields

    columns = schema_fields(properties.get("schema", ""))
    if not columns:
        return None
    rows = [
        (f"  {shortened(column.path, NAME_WIDTH)}", shortened(column.type, NAME_WIDTH))
        for column in columns[:MOST_COLUMNS]
    ]
    parts: list[RenderableType] = [Text("schema", style="bold"), table(["  column", "type"], rows)]
    if more := max(0, len(columns) - MOST_COLUMNS):
        parts.append(Text(f"  and {more:,} more; --json prints them all", style="dim"))
    return parts


def _value(scope: str, key: str, value: str, width: int, most_lines: int) -> str:
    """A property's value for people: the journal's own times as times, lines as lines, each at most `width` long."""
    if scope == "system" and key in _OWN_TIMES and value.isdecimal():
        with suppress(ValueError, OverflowError, OSError):  # no calendar has it
            return time_text(int(value))
    if most_lines == 1:
        return shortened(value, width)
    lines = safe(value).strip("\n").split("\n")
    shown = [line if len(line) <= width else line[: width - 1] + "…" for line in map(str.rstrip, lines[:most_lines])]
    more = len(lines) - len(shown)
    return "\n".join([*shown, f"… and {more:,} more lines; --json prints them all"] if more else shown)


_TIMES = {"system_time": "written at", "event_time": "happened at"}


def history_view(
    entities: Sequence[Mapping[str, Any]], before: Mapping[str, Any] | None = None, *, by: str = "system_time"
) -> RenderableType:
    """Rows of one entity in their order, each with what it changed.

    Args:
        before: the row before the first of them; None where there is none.
        by: the time that they are ordered by, system_time or event_time.
    """
    rows = []
    for entity in entities:
        change = "deleted" if entity["deleted"] else listed(_changes(before, entity), CHANGE_WIDTH) or _quiet(before)
        rows.append((time_text(entity[by]), entity["logical_timestamp"], entity["actor"] or "-", change))
        before = entity
    return table([_TIMES[by], "logical timestamp", "actor", "what changed"], rows)


def _quiet(before: Mapping[str, Any] | None) -> str:
    """What a row that changed neither metadata nor record did."""
    return "registered" if before is None or before["deleted"] else "no metadata"


def _changes(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """What a row changed: the metadata, and of the record of an entity that was there before, the fields."""
    changes = differences(before, after)
    if before is None or before["deleted"]:
        return changes
    return changes + changed_fields(_record(before), _record(after))


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """What one row of a history changed: `+tag`, `-tag`, `+key`, `-key`, `key: old → new`, each on one line."""
    changes: list[str] = []
    for scope in ("user", "system"):
        old = before[scope] if before is not None else {"properties": {}, "tags": []}
        new = after[scope]
        changes += [safe(f"+tag {tag}", one_line=True) for tag in new["tags"] if tag not in old["tags"]]
        changes += [safe(f"-tag {tag}", one_line=True) for tag in old["tags"] if tag not in new["tags"]]
        own = RESERVED_PROPERTIES if scope == "system" else ()
        changes += _property_differences(old["properties"], new["properties"], own)
    return changes


def _property_differences(old: Mapping[str, str], new: Mapping[str, str], own: Collection[str]) -> list[str]:
    """What differs, but for the fold's own."""
    changes = [f"+{key}" for key in new if key not in old and key not in own]
    changes += [f"-{key}" for key in old if key not in new and key not in own]
    both = (key for key in new if key in old and new[key] != old[key] and key not in own)
    changes += [changed_value(key, old[key], new[key]) for key in both]
    return [safe(change, one_line=True) for change in changes]


def outcome_line(line: Mapping[str, Any]) -> Text:
    """One emitted event: outcome, position, entity and, where it was refused, why."""
    word = str(line.get("outcome", "acknowledged"))
    text = Text.assemble(verdict(word), f"  {line['position']}  {shortened(line['entity'], 120)}")
    if "reason" in line:
        text.append(f"  {line['reason']}: {why_rejected(line)}")
    if "original" in line:
        text.append(f"  of {line['of']}, which was {line['original']['outcome']}")
    return text


def why_rejected(line: Mapping[str, Any]) -> str:
    """The detail of a rejection; of an entity that is not there, what that means and what to do."""
    detail = line.get("detail")
    if line["reason"] == UnknownEntityError.CODE and isinstance(detail, Mapping) and "entity" in detail:
        error = UnknownEntityError(shortened(detail["entity"], 120))
        return f"{error.message} {error.hint}"
    return shortened(detail_in_words(detail), 160)


def result_line(result: Mapping[str, Any]) -> Text:
    """One result of `emit`, as `emitting.py` gives it."""
    if "error" not in result:
        return outcome_line(result)
    error = result["error"]
    return Text.assemble(
        verdict("unknown" if "event_id" in result else "refused"),
        f"  line {result['line']}  {error['code']}: {shortened(error['message'], 200)}",
    )


def unit_view(unit: Mapping[str, Any]) -> RenderableType:
    """A unit as `emitting.py` gives it: its id, then each event's result."""
    count = len(unit["events"])
    head = Text(f"unit {unit['unit']} is in the journal, {count:,} event{'' if count == 1 else 's'}")
    return Group(head, *map(result_line, unit["events"]))


def config_json(lines: Iterable[Any], *, origin: bool) -> dict[str, Any]:
    """Settings by key; with their origins where these are asked for."""
    return {line.key: {"value": line.value, "from": line.origin} if origin else line.value for line in lines}


def config_view(shown: Mapping[str, Any]) -> RenderableType:
    """Settings, one a line."""
    rows = [
        (key, *(setting.values() if isinstance(setting, Mapping) else (setting,))) for key, setting in shown.items()
    ]
    return table(["setting", "value", "from"][: len(rows[0])], rows)


def status_json(status: Any) -> dict[str, Any]:
    """What `metajournal status` knows."""
    known = asdict(status)
    components, stages = known["components"], known["stages"]
    now_ms = time.time() * 1000
    for component in components:
        component["up_s"] = (
            None
            if component["since_ms"] is None or component["pid"] is None
            else round(now_ms / 1000 - component["since_ms"] / 1000)
        )
    return {
        "ok": status.fine,
        "home": str(status.home),
        "lake": status.lake,
        "components": components,
        "stages": stages,
        "verdicts": known["verdicts"],
        "derived": list(known["derived"]),
        "unserved": list(known["unserved"]),
    }


def status_view(status: Mapping[str, Any]) -> RenderableType:
    """Components, then how many seconds each stage lags behind."""
    rows = [
        (
            component["name"],
            verdict(component["state"]),
            _dash(component["pid"]),
            _age(component["up_s"]),
            _dash(component["endpoint"]),
            _help(component),
        )
        for component in status["components"]
    ]
    stages = [(stage["name"], _seconds(stage["freshness_s"])) for stage in status["stages"]]
    return Group(
        fields({"home": status["home"], "lake": status["lake"] or "-"}),
        Text(),
        table(["service", "state", "pid", "up", "endpoint", "what to do"], rows, right=["pid", "up"]),
        Text(),
        table(["stage", "seconds behind"], stages, right=["seconds behind"]),
        Text(),
        fields({"events in the stream's latest run": _counted(status["verdicts"])}),
        *_derived(status["derived"]),
        *_unserved(status["unserved"]),
        *_way_in(status["components"]),
    )


def _way_in(components: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """How to log in, where a gateway runs."""
    runs = any(one["name"] == "gateway" and one["state"] == "running" for one in components)
    text = "To log in to the pages: metajournal access issue-code PRINCIPAL (metajournal access principals lists them)"
    return [Text(), Text(text, "dim")] if runs else []


def _derived(functions: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Derived tables that lag, with why and what to do where they do not go on."""
    rows = [
        (
            ", ".join(function["tables"]),
            verdict("failed") if "why" in function else "behind",
            _reached(function),
            ". ".join(function[name] for name in ("why", "mend") if name in function),
        )
        for function in functions
        if "why" in function or not function["complete"]
    ]
    return [Text(), table(["derived tables", "state", "at", "what to do"], rows)] if rows else []


def _reached(function: Mapping[str, Any]) -> str:
    """Where a function of derived tables stopped, or how much of the journal it lacks."""
    if "place" in function:
        return f"{function['place']}, positions {function['start']} to {function['end']}"
    return f"{many(function['lacking'], 'position')} behind" if function.get("lacking") else "-"


def _unserved(domains: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Domains of this version that are not served, with why and what to do."""
    rows = [(domain["name"], verdict("failed"), f"{domain['why']} {domain['mend']}") for domain in domains]
    return [Text(), table(["domain not served", "state", "what to do"], rows)] if rows else []


def status_line(status: Mapping[str, Any]) -> str:
    """The same on one line: when, each service's state, how far behind each stage is."""
    states = [f"{component['name']} {component['state']}" for component in status["components"]]
    stages = [f"{stage['name']} {_seconds(stage['freshness_s'])}" for stage in status["stages"]]
    return safe(f"{time_text(int(time.time() * 1000))}  {', '.join(states)}; seconds behind: {', '.join(stages)}")


def _counted(verdicts: Mapping[str, int]) -> str:
    """Events by outcome; shelved ones are copied to the dead-letter topic."""
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(verdicts.items()))
    return counts or "none"


def _help(component: Mapping[str, Any]) -> str:
    return ". ".join(text for text in (shortened(component["message"], 120), as_typed_here(component["mend"])) if text)


def _dash(value: object) -> object:
    return "-" if value is None else value


def _seconds(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1f}"


def _age(seconds: int | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def doctor_json(checks: Iterable[Any]) -> dict[str, Any]:
    """What `metajournal doctor` found."""
    done = list(checks)
    return {"ok": all(check.fine for check in done), "checks": [asdict(check) for check in done]}


def doctor_view(report: Mapping[str, Any]) -> RenderableType:
    """Every part; each remedy is printed once, below the last part that it applies to."""
    shown: list[tuple[object, ...]] = []
    checks = report["checks"]
    mends = [check["mend"] for check in checks]
    for index, check in enumerate(checks):
        shown.append(
            (verdict(check["verdict"]), check["part"], shortened(check["found"], 60), shortened(check["needed"], 60))
        )
        if check["mend"] and check["mend"] not in mends[index + 1 :]:
            shown.append(("", "", Text.assemble(("→ ", "bold"), safe(as_typed_here(check["mend"]))), ""))
    return table(["", "part", "found", "needed"], shown)


def results_view(results: Any) -> RenderableType:
    """Hits, best first, each with the first reasons why it is one."""
    shown = len(results.hits)
    rest = f", the first {shown} shown" if shown < results.total else ""
    head = Text(f"{results.total:,} found{rest}", style="dim")
    if results.note:
        head.append(f". {shortened(results.note, 400)}")
    parts: list[RenderableType] = [head, hits_view(results.hits)] if shown else [head]
    if results.cursor and rest:
        parts.append(
            Text(f"next page: --cursor {results.cursor}", style="dim", no_wrap=True, overflow="ignore")
        )  # to be copied whole
    return Group(*parts)


def hits_view(hits: Iterable[Any]) -> RenderableType:
    """Entities, why they are hits, and the beginning of what is said of them."""
    return table(["entity", "why"], [(str(hit.urn), _with_description(hit, why_line(hit))) for hit in hits])


def _with_description(hit: Any, why: Text) -> Text:
    """The reasons, and below them a piece of the description, where none of them shows one."""
    shows_it = any(reason.key == "description" for reason in hit.why[:_REASONS])
    description = hit.description[: 8 * DESCRIPTION_WIDTH].strip()
    if not description or shows_it:
        return why
    piece = Text(shortened(description, DESCRIPTION_WIDTH), style="dim")
    return Text("\n").join([why, piece] if why.plain else [piece])


def why_line(hit: Any, *, reasons: int = _REASONS) -> Text:
    """The first reasons of a hit, their matches marked."""
    lines = [_reason(reason) for reason in hit.why[:reasons]]
    more = len(hit.why) - len(lines)
    return Text(";  ").join(lines + ([Text(f"{more} more", style="dim")] if more > 0 else []))


def _reason(why: Any) -> Text:
    """`tag [pii]`, `license: [MIT]`: what matched, cut to the surroundings of its first match."""
    label = f"{shortened(why.key, 40)}:" if why.field == "property" else why.field
    text = Text.assemble((label, "dim"), " ")
    if not why.matched:
        return text.append(shortened(why.text, WHY_WIDTH))
    start, end = why.matched[0]
    before, match, after = why.text[:start], why.text[start:end], why.text[end:]
    room = max(WHY_WIDTH - len(match), 10)
    cut = safe(before, one_line=True)[-room // 2 :] if before else ""
    text.append(("…" if len(cut) < len(before.strip()) else "") + cut + _gap(before[-1:]))
    text.append(f"[{shortened(match, WHY_WIDTH)}]", style="bold yellow")
    text.append(_gap(after[:1]) + shortened(after, room - len(cut)))
    return text.append(f" for {shortened(why.instead_of, WHY_WIDTH)}", style="dim") if why.instead_of else text


def _gap(neighbour: str) -> str:
    return " " if neighbour.isspace() else ""
