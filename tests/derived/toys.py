"""Derived tables with all that a function may do: its own rows as state, two tables in a pass, a file for each row.

`toy_counts` numbers the rows of each entity and names a file by its digest; `toy_sizes` sums the payloads of a
partition's accepted events. What they must hold is also told by `told`, one row after the other in plain Python.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from metajournal.fold.derived import Derived, Earlier, File, Piece, Rows
from metajournal.lake.columns import TableSpec, history
from metajournal.lake.declared import SPECS
from metajournal.lake.tables import Lake
from metajournal.streaming.derived.functions import DERIVED, Owned

_COMMON = ("tenant", "aggregate", "domain", "journal_partition", "logical_timestamp", "seq", "system_time",
           "event_time", "event_id", "actor", "deleted")  # fmt: skip
_PLACE = ("journal_partition", "logical_timestamp", "system_time")
COUNTS = TableSpec(
    "toy_counts",
    history([pa.field("urn", pa.string(), nullable=False)], [pa.field("n", pa.int64()), pa.field("file", pa.string())]),
    sorted_by=("tenant", "urn", "logical_timestamp", "seq"),
    statistics=("tenant", "urn", *_PLACE),
    version=1,
)
SIZES = TableSpec(
    "toy_sizes",
    history([pa.field("of", pa.string(), nullable=False)], [pa.field("total", pa.int64())]),
    sorted_by=("tenant", "of", "logical_timestamp", "seq"),
    statistics=("tenant", "of", *_PLACE),
    version=1,
)
FAULT = "TOY_FAULT"
"""The environment's variable that names the position from which on the function fails."""
HANG = "TOY_HANG"
"""That names a file; while it is there, the function waits."""
TABLES = ("toy_counts", "toy_sizes")


def derive(piece: Piece, earlier: Earlier) -> Iterator[Rows | File]:
    """What both tables get of a piece."""
    while os.environ.get(HANG) and Path(os.environ[HANG]).exists():
        pass
    if piece.end > int(os.environ.get(FAULT, 1 << 62)):
        raise LookupError("the toy is broken")
    yield from _counts(piece, earlier)
    rows = piece.rows["journal"].to_pylist()
    held = earlier.newest("toy_sizes", pa.table({"of": ["all"]})).to_pylist()
    total, made = held[0]["total"] if held else 0, []
    for row in rows:
        if row["outcome"] == "accepted":
            total += len(row["event_payload"])
            made.append({**_common(row, piece), "deleted": False, "of": "all", "total": total})
    yield Rows("toy_sizes", pa.Table.from_pylist(made, schema=SIZES.schema))


def _counts(piece: Piece, earlier: Earlier) -> Iterator[Rows | File]:
    rows = piece.rows["entities"]
    step = SPECS["toy_counts"].version
    keys = rows.select(["tenant", "urn"])
    held = earlier.newest("toy_counts", keys.group_by(["tenant", "urn"]).aggregate([])).to_pylist()
    numbers = Counter({(row["tenant"], row["urn"]): row["n"] for row in held})
    made = []
    for row in rows.to_pylist():
        key = row["tenant"], row["urn"]
        numbers[key] += step
        file = file_of(*key, numbers[key])
        yield file
        made.append({**_common(row, piece), "urn": row["urn"], "n": numbers[key], "file": file.name})
    yield Rows("toy_counts", pa.Table.from_pylist(made, schema=COUNTS.schema))


def _common(row: dict[str, Any], piece: Piece) -> dict[str, Any]:
    return {**{name: row.get(name) for name in _COMMON}, "seq": row.get("seq", 0), "domain": piece.domain}


def file_of(tenant: str, urn: str, number: int) -> File:
    content = f"{tenant} {urn} {number}".encode()
    return File(tenant, f"notes/{hashlib.blake2b(content, digest_size=8).hexdigest()}.txt", content)


TOY = Derived(
    "toy",
    TABLES,
    {"entities": (*_COMMON, "urn"), "journal": (*(name for name in _COMMON if name not in ("domain", "seq", "deleted")),
                                                "event_payload")},
    derive,
)  # fmt: skip


def declare(version: int = 1, put: Callable[[dict[str, Any], str, Any], None] = dict.__setitem__) -> None:
    """Declare the toy beside whatever is declared."""
    for spec in (COUNTS, SIZES):
        put(SPECS, spec.name, replace(spec, version=version))
    put(DERIVED, "toy", Owned(TOY, "catalog", "catalog"))


def declared(patch: pytest.MonkeyPatch, version: int = 1) -> None:
    declare(version, patch.setitem)


def told(lake: Lake, *, version: int = 1) -> dict[str, list[tuple[Any, ...]]]:
    """What the tables must hold, up to the journal table's end: (tenant, key, partition, position, seq, values)."""
    counted: Counter[tuple[str, str]] = Counter()
    counts, sizes, totals = [], [], Counter[int]()
    below = {}
    for row in lake.journal.query("*", "true order by journal_partition, logical_timestamp"):
        partition, place = row["journal_partition"], row["logical_timestamp"]
        below[partition] = place
        if row["outcome"] == "accepted":
            totals[partition] += len(row["event_payload"])
            sizes.append((row["tenant"], "all", partition, place, 0, totals[partition]))
    for row in lake.tables["entities"].query("*", "true order by journal_partition, logical_timestamp, seq"):
        key = row["tenant"], row["urn"]
        if row["logical_timestamp"] <= below.get(row["journal_partition"], -1):
            counted[key] += version
            place = row["journal_partition"], row["logical_timestamp"], row["seq"]
            counts.append((*key, *place, counted[key], file_of(*key, counted[key]).name))
    return {"toy_counts": counts, "toy_sizes": sizes}


def held(lake: Lake) -> dict[str, list[tuple[Any, ...]]]:
    """What they hold, in the same form and order."""
    order = "true order by journal_partition, logical_timestamp, seq"
    place = ("journal_partition", "logical_timestamp", "seq")
    columns = {"toy_counts": ("tenant", "urn", *place, "n", "file"), "toy_sizes": ("tenant", "of", *place, "total")}
    return {
        name: [tuple(row[one] for one in named) for row in lake.tables[name].query("*", order)]
        for name, named in columns.items()
    }


def files_held(lake: Lake) -> None:
    """Every row's file is there and says what it must."""
    for row in held(lake)["toy_counts"]:
        tenant, urn, number, name = row[0], row[1], row[5], row[6]
        assert (Path(lake.path) / "catalog" / tenant / name).read_bytes() == file_of(tenant, urn, number).content
