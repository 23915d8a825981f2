"""The files that a version of a Delta table consists of, as columns: path, size, rows, statistics, partition.

Source: Delta transaction log protocol, "Per-file Statistics", "Partition Value Serialization", "Schema Serialization
Format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import orjson
import pyarrow as pa

_WITH_STATISTICS: Final = "delta.dataSkippingStatsColumns"
_PRIMITIVE: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_OF_FILE: Final = (
    pa.field("path", pa.string(), nullable=False),
    pa.field("size_bytes", pa.int64(), nullable=False),
    pa.field("num_records", pa.int64()),
)


@dataclass(frozen=True)
class FileColumns:
    """What is told of each file of a table.

    Attributes:
        schema: of the table.
        partition_columns: names of those of its columns that stand in no file.
        with_statistics: names of those whose least and greatest values its log keeps.
    """

    schema: pa.Schema
    partition_columns: tuple[str, ...]
    with_statistics: tuple[str, ...]

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Self:
        """Those that a `metaData` action tells.

        Raises:
            ValueError: its schema has a type that is not known.
        """
        schema = schema_of(metadata["schemaString"])
        named = metadata["configuration"].get(_WITH_STATISTICS, "").split(",")
        return cls(schema, tuple(metadata["partitionColumns"]), tuple(name for name in named if name in schema.names))

    @cached_property
    def of_files(self) -> pa.Schema:
        """The columns of `table`: `path`, `size_bytes`, `num_records`, `min.` and `max.` those with statistics,
        `partition.` those of partitions; what a file does not tell is null.
        """
        bounds = [
            pa.field(f"{end}.{name}", self.schema.field(name).type)
            for end in ("min", "max") for name in self.with_statistics
        ]  # fmt: skip
        own = [self.schema.field(name).with_name(f"partition.{name}") for name in self.partition_columns]
        return pa.schema([*_OF_FILE, *bounds, *own])

    def table(self, added: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Some `add` actions as rows, in their order."""
        told = [orjson.loads(one["stats"]) if one.get("stats") else {} for one in added]
        values: dict[str, list[Any]] = {
            "path": [one["path"] for one in added],
            "size_bytes": [one["size"] for one in added],
            "num_records": [one.get("numRecords") for one in told],
        }
        for end, named in (("min", "minValues"), ("max", "maxValues")):
            ends = [one.get(named) or {} for one in told]
            values |= {f"{end}.{name}": [one.get(name) for one in ends] for name in self.with_statistics}
        for name in self.partition_columns:
            values[f"partition.{name}"] = [one["partitionValues"].get(name) for one in added]
        return pa.table([_typed(values[field.name], field) for field in self.of_files], schema=self.of_files)


def _typed(values: list[Any], field: pa.Field) -> pa.Array:
    """Values of JSON as a column; times, dates and what stands for a partition are texts there."""
    if any(isinstance(one, str) for one in values) and not pa.types.is_string(field.type):
        return pa.array(values, pa.string()).cast(field.type)
    return pa.array(values, field.type)


def schema_of(text: str) -> pa.Schema:
    """The schema of a table, from the JSON of its `metaData` action.

    Raises:
        ValueError: a type is not known.
    """
    return pa.schema([_field(one) for one in orjson.loads(text)["fields"]])


def _field(told: Mapping[str, Any]) -> pa.Field:
    return pa.field(told["name"], _type(told["type"]), told["nullable"])


def _type(told: Any) -> pa.DataType:
    if isinstance(told, str) and told in _PRIMITIVE:
        return _PRIMITIVE[told]
    kind = told.get("type") if isinstance(told, Mapping) else None
    if kind == "struct":
        return pa.struct([_field(one) for one in told["fields"]])
    if kind == "array":
        return pa.list_(pa.field("element", _type(told["elementType"]), told["containsNull"]))
    if kind == "map":
        value = pa.field("value", _type(told["valueType"]), told["valueContainsNull"])
        return pa.map_(_type(told["keyType"]), value)
    raise ValueError(f"a column has the type {told!r:.80}, which is not known")
