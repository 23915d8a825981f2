"""What Delta and Iceberg tables say of themselves: schema, partitions, rows, files and last change, without their data.

A Delta table is read by delta-rs. Of an Iceberg table the metadata file is read, of format version 1 to 3; no catalog
is asked, so its newest metadata file counts (that of `version-hint.text`, else the one with the highest number).

Source: the Iceberg specification, "Table Metadata".
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from ...schemas.times import time_shown
from ..columns import Column, comments_of, schema_of
from ..found import Found
from .listing import HINT, DataFile, Logged
from .places import Place
from .types import of_delta, of_iceberg

TABLE: Final = "table"
_NUMBER: Final = re.compile(r"v?(\d+)")


class UnreadableTableError(Exception):
    """A table's metadata says nothing that makes sense; the text says why."""


def delta_table(place: Place, table: Logged) -> Found:
    """A Delta table.

    Raises:
        deltalake.exceptions.DeltaError, OSError, ValueError: it cannot be read.
    """
    from deltalake import DeltaTable

    opened = DeltaTable(place.uri(table.folder), storage_options=place.storage_options)
    metadata = opened.metadata()
    columns = of_delta(json.loads(opened.schema().to_json()).get("fields"))
    partitioned_by = list(metadata.partition_columns)
    files = pa.table(opened.get_add_actions(flatten=True))
    features = opened.protocol().reader_features or ()
    properties = {
        "name": metadata.name,
        "version": opened.version(),
        "partitioned_by": ", ".join(partitioned_by),
        "partitions": _partitions(files, partitioned_by),
        "files": files.num_rows,
        "bytes": sum(filter(None, files["size_bytes"].to_pylist())) if files.num_rows else 0,
        "rows": None if "deletionVectors" in features else _rows(files),
        "last_change": _changed(opened.history(1)),
    }
    return _found(place, table, metadata.description, columns, properties)


def _partitions(files: pa.Table, columns: list[str]) -> int | None:
    names = [f"partition.{column}" for column in columns]
    if not names or any(name not in files.column_names for name in names):
        return None
    return int(files.group_by(names).aggregate([]).num_rows)


def _rows(files: pa.Table) -> int | None:
    """The sum of the files' rows; None where one does not say."""
    if not files.num_rows:
        return 0
    if "num_records" not in files.column_names or files["num_records"].null_count:
        return None
    return sum(map(int, files["num_records"].to_pylist()))


def _changed(history: list[dict[str, Any]]) -> str | None:
    times = [entry["timestamp"] for entry in history if isinstance(entry.get("timestamp"), int)]
    return changed_text(times[0]) if times else None


def iceberg_table(place: Place, store: fs.FileSystem, table: Logged) -> Found:
    """An Iceberg table.

    Raises:
        OSError: its metadata cannot be read.
        UnreadableTableError: it is not Iceberg's metadata.
    """
    metadata = _metadata(store, current_file(store, table.files))
    columns = of_iceberg(_schema(metadata).get("fields"))
    snapshot = _snapshot(metadata)
    summary = snapshot.get("summary")
    summary = summary if isinstance(summary, Mapping) else {}
    own = metadata.get("properties")
    own = own if isinstance(own, Mapping) else {}
    deletes = (summary.get(f"total-{kind}-deletes", "0") for kind in ("position", "equality"))
    rows = summary.get("total-records") if all(number == "0" for number in deletes) else None
    changed = snapshot.get("timestamp-ms") or metadata.get("last-updated-ms")
    properties = {
        "format_version": metadata.get("format-version"),
        "snapshot": snapshot.get("snapshot-id"),
        "partitioned_by": ", ".join(_spec(metadata, columns_by_id(_schema(metadata)))),
        "files": summary.get("total-data-files") if snapshot else 0,
        "bytes": summary.get("total-files-size") if snapshot else 0,
        "rows": rows if snapshot else 0,
        "last_change": changed_text(changed) if isinstance(changed, int) else None,
    }
    comment = own.get("comment")
    return _found(place, table, comment if isinstance(comment, str) else None, columns, properties)


def current_file(store: fs.FileSystem, files: Iterable[DataFile]) -> DataFile:
    """The metadata file that counts.

    Raises:
        OSError: the hint of the version cannot be read.
    """
    by_name = {file.name: file for file in files}
    if hint := by_name.pop(HINT, None):
        with store.open_input_stream(hint.path) as stream:
            version = stream.read(64).decode("ascii", "replace").strip()
        for name in (version, f"v{version}.metadata.json", f"v{version}.gz.metadata.json"):
            if name in by_name:
                return by_name[name]
    return max(by_name.values(), key=lambda file: (_number(file.name), file.name))


def _number(name: str) -> int:
    found = _NUMBER.match(name)
    return int(found[1]) if found else -1


def _metadata(store: fs.FileSystem, file: DataFile) -> Mapping[str, Any]:
    with store.open_input_stream(file.path, compression=None) as stream:
        text = stream.read()
    try:
        value = json.loads(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text)
    except (ValueError, EOFError, gzip.BadGzipFile) as error:
        raise UnreadableTableError(f"{file.name} is not JSON.") from error
    if not isinstance(value, Mapping) or value.get("format-version") not in (1, 2, 3):
        raise UnreadableTableError(f"{file.name} is not metadata of Iceberg's format version 1, 2 or 3.")
    return value


def _schema(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    current = _listed(metadata, "schemas", "schema-id", metadata.get("current-schema-id"))
    schema = metadata.get("schema") if current is None else current
    if not isinstance(schema, Mapping):
        raise UnreadableTableError("Its metadata has no current schema.")
    return schema


def _snapshot(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The current snapshot; empty: there is none yet."""
    number = metadata.get("current-snapshot-id")
    return {} if number in (None, -1) else _listed(metadata, "snapshots", "snapshot-id", number) or {}


def _spec(metadata: Mapping[str, Any], names: Mapping[int, str]) -> Iterator[str]:
    """Each field that the table is partitioned by now: `day(ordered_at)`."""
    current = _listed(metadata, "partition-specs", "spec-id", metadata.get("default-spec-id"))
    fields = (current or {}).get("fields") if current is not None else metadata.get("partition-spec")
    for field in fields if isinstance(fields, list) else ():
        if not isinstance(field, Mapping) or field.get("transform") == "void":
            continue
        of = names.get(field.get("source-id", -1), str(field.get("name")))
        yield of if field.get("transform") == "identity" else f"{field.get('transform')}({of})"


def columns_by_id(kind: Any, path: str = "") -> dict[int, str]:
    """The names of a schema's columns by their ids, nested ones too."""
    names: dict[int, str] = {}
    for field in kind.get("fields") or () if isinstance(kind, Mapping) else ():
        name = f"{path}{field.get('name')}"
        names[field.get("id")] = name
        names |= columns_by_id(field.get("type"), f"{name}.")
    return names


def _listed(metadata: Mapping[str, Any], name: str, key: str, value: Any) -> Mapping[str, Any] | None:
    listed = metadata.get(name)
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, Mapping) and entry.get(key) == value:
            return entry
    return None


def changed_text(at_ms: int) -> str:
    """The time of a change, in whole seconds."""
    return time_shown(at_ms // 1000 * 1000)


def _found(
    place: Place, table: Logged, description: str | None, columns: tuple[Column, ...], properties: Mapping[str, Any]
) -> Found:
    told = {key: str(value) for key, value in properties.items() if value not in (None, "")}
    return Found(
        place.urn_of(table.folder), description or None, schema_of(columns),
        {"type": TABLE, "format": table.format, **told, **comments_of(columns)},
    )  # fmt: skip
