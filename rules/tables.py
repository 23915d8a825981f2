"""The history tables beside `entities`: which class of rows goes where, and by which columns a row is found.

A row of any of them is a NamedTuple that begins with `tenant` and its key, then has the fields of COMMON in their
order, then its own. The newest row of a key is what stands. A key column is never null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .files_rows import FileRecordRow
from .lineage_rows import AccessRow, ExternalWriteRow, RelationRow, RunRow

COMMON: Final = (
    "aggregate",
    "logical_timestamp",
    "seq",
    "system_time",
    "event_time",
    "event_id",
    "actor",
    "deleted",
)
"""Fields of every row: as those of `entity.EntityRow`."""

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "runs": ("run",),
    "accesses": ("run", "data", "access", "component"),
    "relations": ("data", "program"),
    "external_writes": ("stream", "source", "day"),
    "file_records": ("urn", "bucket"),
}
"""Key columns of each table, without the tenant."""

TABLE_OF: Final[Mapping[type, str]] = {
    RunRow: "runs",
    AccessRow: "accesses",
    RelationRow: "relations",
    ExternalWriteRow: "external_writes",
    FileRecordRow: "file_records",
}
"""The table of each class of rows."""
