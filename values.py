"""Values as JSON and back: the shapes of entities, outcomes, changes, hits and errors, lines of JSON, points in time.

One function for each shape, and one way to read each kind of text: commands and the gateway say the same thing in the
same words. What is true of one domain alone (a file, a lineage) has its shape in `values.py` of the domain's folder;
how a shape looks to people stands in `terminal/`. What a *time* is says `schemas/times.time_ms`.
Invariant: what is read is bounded in length and depth before it is used, and nothing of it is dropped without a word.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from io import TextIOBase
from typing import TYPE_CHECKING, Any, Final

from .schemas.errors import InputError
from .schemas.limits import MAX_EVENT_BYTES
from .schemas.positions import Position
from .schemas.times import time_ms

if TYPE_CHECKING:
    from .consumers.records import Change, State
    from .tracing import Step, Trace

MAX_LINE: Final = 8 * MAX_EVENT_BYTES
"""Longest line of JSON, characters: the largest event, each byte of it written as an escape."""
MAX_DEPTH: Final = 100
"""Deepest nesting of a line's arrays and objects."""
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that is a character only beside its other half."""
_DIGITS: Final = sys.int_info.default_max_str_digits
_LONG_NUMBER: Final = re.compile(rf"[0-9]{{{_DIGITS + 1}}}")
_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"


# --- shapes


def plain(value: Any) -> Any:
    """A value as JSON can say it: named tuples as objects, keys as text (a tuple's parts joined by `/`)."""
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {"/".join(map(str, k)) if isinstance(k, tuple) else str(k): plain(entry) for k, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def error_json(code: str, message: str, hint: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An error: its code, one sentence and the next step, and the values that it carries."""
    return {"ok": False, "error": {**plain(data or {}), "code": code, "message": message, "hint": hint}}


def metadata_json(properties: Mapping[str, str], tags: Iterable[str]) -> dict[str, Any]:
    """What an entity carries in one scope."""
    return {"properties": dict(properties), "tags": list(tags)}


def entity_json(row: Any) -> dict[str, Any]:
    """One row of an entity's history: the shape of its state document."""
    return {
        "tenant": row.tenant,
        "urn": str(row.urn),
        "kind": row.kind,
        "namespace": row.namespace,
        "name": row.name,
        "aggregate": str(row.aggregate),
        "logical_timestamp": row.logical_timestamp,
        "seq": row.seq,
        "system_time": row.system_time,
        "event_time": row.event_time,
        "event_id": row.event_id,
        "actor": row.actor,
        "deleted": row.deleted,
        "record": row.record,
        "user": metadata_json(row.user_properties, row.user_tags),
        "system": metadata_json(row.system_properties, row.system_tags),
    }


def outcome_json(outcome: Any) -> dict[str, Any]:
    """A receipt's outcome: its word and, where it has them, reason and detail; of a duplicate the original's too."""
    shape: dict[str, Any] = {"outcome": outcome.word}
    shape |= {key: getattr(outcome, key) for key in ("reason", "detail") if getattr(outcome, key, None) is not None}
    if (original := getattr(outcome, "of", None)) is not None:
        shape["of"] = original if isinstance(original, int) else str(original)
    if (judged := getattr(outcome, "original", None)) is not None:
        shape["original"] = outcome_json(judged)
    return shape


def change_json(change: Change) -> dict[str, Any]:
    """A change as its subscribers get it, with where it stands."""
    return {
        **_placed_json(change),
        "scope": change.scope,
        "type": change.type,
        "time": change.time,
        "record": change.record,
    }


def state_json(state: State) -> dict[str, Any]:
    """A state as its subscribers get it, with where it stands."""
    return {**_placed_json(state), "deleted": state.deleted, "time": state.time, "document": state.document}


def _placed_json(record: Change | State) -> dict[str, Any]:
    position = str(record.position)
    return {"id": record.id, "urn": record.urn, "tenant": record.tenant, "position": position, "seq": record.seq}


def position_json(position: Position) -> dict[str, Any]:
    """A position with its parts."""
    return {
        "topic": position.topic,
        "partition": position.partition,
        "offset": position.offset,
        "position": str(position),
    }


def cut_json(cut: Mapping[tuple[str, int], int]) -> dict[str, int]:
    """A cut, `{"topic/partition": next position}`."""
    return {f"{topic}/{partition}": position for (topic, partition), position in cut.items()}


def trace_json(trace: Trace) -> dict[str, Any]:
    """An event's way: each place where it stands, and what came of it there.

    `rows` has the first few of each table, `row_counts` how many there are.
    """
    return {"event_id": trace.event_id, "made_at": trace.made_at, "places": [_step_json(step) for step in trace.steps]}


def _step_json(step: Step) -> dict[str, Any]:
    parts = step._asdict()
    position = parts.pop("position")
    parts["index"] = parts.pop("seen")._asdict()
    parts |= {"rows": step.first_rows, "row_counts": step.row_counts}
    return {
        **position_json(position),
        "logical_timestamp": position.value,
        **plain(parts),
        "detail": step.detail,
    }


def results_json(results: Any) -> dict[str, Any]:
    """An answer to a search."""
    return {
        "total": results.total,
        "hits": [hit_json(hit) for hit in results.hits],
        "facets": {name: [count._asdict() for count in counts] for name, counts in results.facets.items()},
        "shows": cut_json(results.position_vector),
        "cursor": results.cursor,
        "note": results.note,
    }


def hit_json(hit: Any) -> dict[str, Any]:
    """One hit with the reasons for it."""
    why = [{**reason._asdict(), "marked": reason.marked()} for reason in hit.why]
    tier = None if hit.tier is None else hit.tier.name.lower().replace("_", " ")
    return {"urn": str(hit.urn), "tier": tier, "why": plain(why), "entity": dict(hit.document)}


def then_json(results: Any, answers: Iterable[Any]) -> dict[str, Any]:
    """The answer to a search, each hit with what it looked like at an earlier point; null: it did not exist then, and
    that is final; `final` alone: it did not exist then as far as is known."""
    shape = results_json(results)
    for hit, answer in zip(shape["hits"], answers, strict=True):
        row = {} if answer is None or answer.row is None else entity_json(answer.row)
        hit["then"] = None if answer is None else {**row, "final": answer.final}
    return shape


# --- JSON of others


def is_text(text: str) -> bool:
    """Whether UTF-8 can carry a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_value(text: str, *, longest: int = MAX_LINE) -> Any:
    """The JSON value of a text.

    Args:
        longest: most characters.
    Raises:
        ValueError: it is longer, not UTF-8, not JSON, nested too deep, or names a member of an object twice.
    """
    if len(text) > longest:
        raise ValueError(f"it is longer than {longest:,} characters")
    if not is_text(text):
        raise ValueError("it is not UTF-8")
    try:
        value = json.loads(text, object_pairs_hook=_each_once)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) > 0 or error.msg.startswith("Unterminated string"):
            raise ValueError("it ends in the middle of a value, as if the rest was cut off") from None
        raise
    except ValueError:
        if _LONG_NUMBER.search(text):
            raise ValueError(f"it has a number of more than {_DIGITS:,} digits") from None
        raise
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    if _HALF.search(text) and not is_text(json.dumps(value, ensure_ascii=False)):
        raise ValueError("it has half of a surrogate pair, which is no character")
    return value


def json_lines(lines: Iterable[str], form: str) -> Iterator[tuple[int, Any]]:
    """The values of JSON lines, each with the line's number, from 1; blank lines count and are passed over.

    Args:
        form: what a line looks like, for the error's hint.
    Raises:
        InputError: a line cannot be read (see `json_value`); names its number.
    """
    for number, line in enumerate(bounded(lines), 1):
        if line.strip():
            try:
                yield number, json_value(line)
            except ValueError as error:
                raise InputError(f"Line {number} is not JSON: {error}.", hint=f"Each line is {form}.") from error


def bounded(lines: Iterable[str]) -> Iterator[str]:
    """Lines; of a file's line that is too long only the first `MAX_LINE + 1` characters, so that no more is held."""
    if not isinstance(lines, TextIOBase):
        yield from lines
        return
    while line := lines.readline(MAX_LINE + 1):
        yield line
        while line and not line.endswith("\n"):
            line = lines.readline(MAX_LINE + 1)


def _check_depth(value: Any) -> None:
    """Refuse a value whose arrays and objects are nested too deep for what works on it later. Raises: ValueError."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [part for whole in level for part in _parts(whole) if isinstance(part, dict | list)]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a name that stands twice, Python would drop all values but the last. Raises: ValueError."""
    mapping = dict(members)
    if len(mapping) < len(members):
        counts = Counter(name for name, _ in members)
        twice = next(name for name in mapping if counts[name] > 1)
        raise ValueError(f"the name {twice!r} occurs twice in an object")
    return mapping


# --- points in time


def moment(text: str) -> int:
    """A time in milliseconds UTC, as `times.time_ms` reads it.

    Raises:
        InputError: the text is none.
    """
    try:
        return time_ms(text)
    except ValueError as error:
        raise InputError(
            f"{error}.",
            code="not-a-time",
            hint="Write ISO 8601 (a time without a zone is UTC), or seconds or milliseconds since 1970.",
        ) from None


def point(text: str) -> Position | list[Position] | int:
    """A position (`topic/partition/value`), several, separated by commas, or a time in milliseconds.

    Raises:
        InvalidPositionError: it has slashes and is not a valid position.
        InputError: it is not a valid time either.
    """
    if "/" not in text:
        return moment(text)
    several = positions(text)
    return several[0] if len(several) == 1 else several


def points_of(query: Mapping[str, str], *, of_facts: bool = True) -> dict[str, Any]:
    """The points that a query of HTTP asks for, as the domains' questions take them.

    Args:
        of_facts: whether it can be asked what was true at a time (`as_of`), too.
    Raises:
        InputError: one is no point, or cannot be asked for.
    """
    asked: dict[str, Any] = {}
    if "as_at" in query:
        asked["as_at"] = point(query["as_at"])
    if "as_of" in query:
        if not of_facts:
            raise InputError("This address takes no 'as_of' in its query.", code="unknown-parameter", hint="Use as_at.")
        asked["as_of"] = moment(query["as_of"])
    return asked


def positions(text: str) -> list[Position]:
    """Positions, separated by commas. Raises: InvalidPositionError: one of them is none."""
    return [Position.parse(part.strip()) for part in text.split(",")]
