"""What a change of metadata was, in words: `+budget numeric`, `owner: alice → bob`.

Left to whom: the callers know which properties came, went or changed; here each gets its text.
Invariant: a list that does not fit ends with how many more there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..indexer.schema_fields import schema_fields
from .rendering import shortened

VALUE_WIDTH = 20  # characters of an old or a new value
COLUMN_WIDTH = 40  # characters of the name or type of a schema's column
SCHEMA_WIDTH = 80  # characters of what changed in a schema


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
