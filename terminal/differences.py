"""What a change was, in words: `+budget numeric`, `owner: alice → bob`; of a record's field `head 3f0c… → 81d2…`.

Left to whom: the callers know which properties came, went or changed; here each gets its text.
Invariant: a list that does not fit ends with how many more there are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..indexer.schema_fields import schema_fields
from .rendering import shortened

VALUE_WIDTH = 20  # characters of an old or a new value
COLUMN_WIDTH = 40  # characters of the name or type of a schema's column
SCHEMA_WIDTH = 80  # characters of what changed in a schema
FIELD_WIDTH = 32  # characters of an old or a new value of a record's field
_HASH = re.compile(r"(?<![0-9A-Za-z])([0-9a-f]{12})[0-9a-f]{20,}(?![0-9A-Za-z])")
"""A hash in hexadecimal digits: so many tell it from its like."""


def listed(parts: Sequence[str], width: int, separator: str = ", ") -> str:
    """As many parts as fit, at least the first, and how many more there are."""
    text = ""
    for number, part in enumerate(parts):
        more = f"{separator}and {len(parts) - number:,} more"
        longer = f"{text}{separator}{part}" if text else shortened(part, width)
        rest = 0 if number + 1 == len(parts) else len(more)
        if text and len(longer) + rest > width:
            return text + more
        text = longer
    return text


def changed_value(key: str, old: str, new: str) -> str:
    """How a property's value changed; of a schema, its columns."""
    columns = _changed_columns(old, new) if key == "schema" else None
    if columns is not None:
        return f"{key}: {columns}"
    return f"{key}: {shortened(old, VALUE_WIDTH)} → {shortened(new, VALUE_WIDTH)}"


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The fields of a record that differ: `name before → after`; `name changed` where both look the same when cut."""
    names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
    return [_changed_field(name, old.get(name), new.get(name)) for name in names]


def _changed_field(name: str, old: Any, new: Any) -> str:
    before, after = (shortened(_HASH.sub(r"\1", field_text(value)), FIELD_WIDTH) for value in (old, new))
    return _short(name) + (" changed" if before == after else f" {before} → {after}")


def field_text(value: Any) -> str:
    """A value of a record's field: `-` where there is none, a list of texts as these, what is nested as JSON."""
    if value in (None, -1, "", [], {}):
        return "-"
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _changed_columns(old: str, new: str) -> str | None:
    """The columns that differ between two schemas; None where either cannot be read."""
    before, after = _types(old), _types(new)
    if before is None or after is None:
        return None
    parts = [f"+{_short(path)} {_short(kind)}".rstrip() for path, kind in after.items() if path not in before]
    parts += [f"-{_short(path)} {_short(kind)}".rstrip() for path, kind in before.items() if path not in after]
    parts += [
        f"{_short(path)} {_short(before[path])} → {_short(kind)}"
        for path, kind in after.items()
        if path in before and before[path] != kind
    ]
    if parts:
        return listed(parts, SCHEMA_WIDTH)
    return "columns in another order" if list(before) != list(after) else "no column added, removed or of another type"


def _types(schema: str) -> Mapping[str, str] | None:
    """The types of a schema's columns by their paths, in order; None where it cannot be read."""
    columns = schema_fields(schema)
    if columns is None:
        return None
    types: dict[str, str] = {}
    for column in columns:  # branches of a union may have fields of one name
        types[column.path] = f"{types[column.path]}|{column.type}" if column.path in types else column.type
    return types


def _short(text: str) -> str:
    return shortened(text, COLUMN_WIDTH)
