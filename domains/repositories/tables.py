"""The tables of repositories, also those that are derived: columns and order. What a row means stands in `rows`."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from ...lake.columns import OF_HISTORIES, TableSpec, history
from ...lake.plain import from_dict, to_arrow
from .rows import BranchRow, CommitRow, ObjectRow, ResetRow

BRANCHES = history(
    [pa.field("urn", pa.string(), nullable=False)],
    [
        pa.field("head", pa.string()),
        pa.field("staging", pa.int64()),
        pa.field("staging_digest", pa.string()),
        pa.field("staged_events", pa.int64()),
        pa.field("staged_rows", pa.int64()),
        pa.field("created", pa.int64()),
        pa.field("members", pa.int64()),
    ],
)
"""Branches and repositories: one row for each event that touches one. `staging` names the branch's staging area, by the
position at which that began; `created` and `members` are a repository's."""

COMMITS = history(
    [pa.field("commit", pa.string(), nullable=False)],
    [
        pa.field("branch", pa.string(), nullable=False),
        pa.field("parents", pa.list_(pa.string()), nullable=False),
        pa.field("staging", pa.int64()),
        pa.field("strategy", pa.string()),
        pa.field("message", pa.string(), nullable=False),
        pa.field("metadata", pa.string(), nullable=False),
        pa.field("staging_digest", pa.string(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
    ],
)
"""Commits and merges. `staging` names the staging area that the commit takes (null where nothing was staged);
`metadata` is canonical JSON."""

OF_OBJECT: Final = (
    "branch", "size", "checksum", "address", "blocks", "content_type", "metadata", "mtime_ms", "content",
)  # fmt: skip
"""Columns of an object, wherever it stands."""
OBJECTS = history(
    [
        pa.field("repo", pa.string(), nullable=False),
        pa.field("staging", pa.int64(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
    ],
    [
        pa.field("branch", pa.string(), nullable=False),
        pa.field("size", pa.int64()),
        pa.field("checksum", pa.string()),
        pa.field("address", pa.string()),
        pa.field("blocks", pa.string()),
        pa.field("content_type", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("mtime_ms", pa.int64()),
        pa.field("content", pa.binary()),
    ],
)
"""What was written to and deleted from staging areas: one row for each path of each event. `blocks` and `metadata` are
canonical JSON; `content` is equal where two objects are."""

RESETS = history(
    [
        pa.field("repo", pa.string(), nullable=False),
        pa.field("staging", pa.int64(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("is_prefix", pa.bool_(), nullable=False),
    ],
    [],
)
"""Partial resets: what was staged before them of a path, or of all paths with a prefix, is dropped."""

TREES = history(
    [
        pa.field("repo", pa.string(), nullable=False),
        pa.field("layer", pa.int64(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
    ],
    [field for field in OBJECTS if field.name in OF_OBJECT],
)
"""Net rows of the layers that are no staging area: of merges, of areas with resets, of joins. `layer` is the position
of the commit that made it; `deleted` hides what an older layer has of the path."""

COMMIT_TREES = history(
    [pa.field("commit", pa.string(), nullable=False)],
    [
        pa.field("layers", pa.list_(pa.string()), nullable=False),
        pa.field("layer_rows", pa.list_(pa.int64()), nullable=False),
        pa.field("added", pa.int64(), nullable=False),
        pa.field("changed", pa.int64(), nullable=False),
        pa.field("removed", pa.int64(), nullable=False),
        pa.field("objects", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("conflicts", pa.int64(), nullable=False),
        pa.field("conflicting", pa.string(), nullable=False),
        pa.field("root", pa.string(), nullable=False),
        pa.field("lanes", pa.binary(), nullable=False),
        pa.field("content_id", pa.string(), nullable=False),
    ],
)
"""What each commit contains: its layers, the oldest first, as `objects/<staging area>` or `trees/<layer>`, with the
rows of each; what it changed, and how much it holds; conflicts of a merge, and the first 100 of them as canonical JSON
[path, base, destination, source]; root, lanes and id of its content."""

_JSON: Final = frozenset({"metadata", "blocks"})
_PLACE: Final = ("journal_partition", "logical_timestamp", "system_time")
_ORDER: Final = ("logical_timestamp", "seq")
_OBJECT_GROUP_ROWS: Final = 4_096


def _spec(
    name: str,
    row: type[Any],
    schema: pa.Schema,
    *,
    key: tuple[str, ...],
    few: frozenset[str] = frozenset(),
    **more: Any,
) -> TableSpec:
    return TableSpec(
        name,
        schema,
        sorted_by=("tenant", *key, *_ORDER),
        statistics=("tenant", *key, *_PLACE),
        row=row,
        to_arrow=to_arrow(row, schema, json=_JSON),
        from_dict=from_dict(row, json=_JSON),
        repeating=OF_HISTORIES | few,
        **more,
    )


TABLES: Final = (
    _spec("branches", BranchRow, BRANCHES, key=("urn",)),
    _spec("commits", CommitRow, COMMITS, key=("commit",), few=frozenset({"branch", "strategy"})),
    _spec(
        "objects", ObjectRow, OBJECTS, key=("repo", "staging", "path"),
        few=frozenset({"repo", "branch", "content_type"}), group_rows=_OBJECT_GROUP_ROWS, read_by_rules=False,
        sorts_files=True,
    ),
    _spec(
        "resets", ResetRow, RESETS, key=("repo", "staging", "path", "is_prefix"), few=frozenset({"repo", "is_prefix"}),
        read_by_rules=False,
    ),
    TableSpec(
        "trees",
        TREES,
        sorted_by=("tenant", "repo", "layer", "path", *_ORDER),
        statistics=("tenant", "repo", "layer", "path", *_PLACE),
        repeating=OF_HISTORIES | {"repo", "branch", "content_type"},
        group_rows=_OBJECT_GROUP_ROWS,
        version=2,
    ),
    TableSpec(
        "commit_trees",
        COMMIT_TREES,
        sorted_by=("tenant", "commit", *_ORDER),
        statistics=("tenant", "commit", *_PLACE),
        repeating=OF_HISTORIES,
        version=2,
    ),
)  # fmt: skip
