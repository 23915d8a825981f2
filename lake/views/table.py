"""One version of a Delta table as values: its files with their statistics, its schema; of the journal table its marks.

A handle of delta-rs moves on when somebody refreshes it, so what two looks at it tell may belong to two versions. These
values never change; whoever holds one reads one version. Look-ups take either (`Readable`) and freeze a handle first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import pyarrow as pa

from .files import FileColumns

if TYPE_CHECKING:
    from deltalake import DeltaTable

PartitionKey: TypeAlias = tuple[str, int]
CLOCK: Final = "system_time/"
"""What stands before a partition in the app id of its clock."""
RULES: Final = "metajournal.rules"
"""Under what a commit names the rules that judged its rows."""


@dataclass(frozen=True, eq=False)
class TableView:
    """A version of a table.

    Attributes:
        name: as the lake calls it; empty where a handle was frozen.
        uri: its folder or URL.
        version: of the Delta log.
        files: the files that it consists of: path, size, statistics.
    """

    name: str
    uri: str
    version: int
    files: pa.Table = field(repr=False)
    schema: pa.Schema = field(repr=False)
    partition_columns: tuple[str, ...] = field(repr=False)
    storage_options: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, table: DeltaTable, name: str = "", uri: str = "", **more: Any) -> Self:
        """The version that a handle is at."""
        return cls(
            name,
            uri or table.table_uri,
            table.version(),
            pa.table(table.get_add_actions(flatten=True)),
            pa.schema(table.schema().to_arrow()),
            tuple(table.metadata().partition_columns),
            dict(table._storage_options or {}),
            **more,
        )

    @cached_property
    def listed(self) -> list[dict[str, Any]]:
        """The files, one dict each."""
        files: list[dict[str, Any]] = self.files.to_pylist()
        return files


@dataclass(frozen=True, eq=False)
class MarkedView(TableView):
    """A version of a table, with what its log says of the journal's partitions.

    Attributes:
        columns: what is told of each of its files; None before the first commit.
        transactions: version by app id (see `table`).
        rules: by domain the digest of the rules that made its newest share of the rows.
    """

    columns: FileColumns | None = field(repr=False, default=None)
    transactions: Mapping[str, int] = field(repr=False, default_factory=dict)
    rules: Mapping[str, str] = field(repr=False, default_factory=dict)

    def mark(self, key: PartitionKey) -> int:
        """The next position of a journal partition that is not held; 0 when nothing of it was."""
        return self.transactions.get(f"{key[0]}/{key[1]}", 0)

    def clock(self, key: PartitionKey) -> int:
        """The running system_time at the mark, milliseconds UTC; 0 before the first record."""
        return self.transactions.get(f"{CLOCK}{key[0]}/{key[1]}", 0)


Readable: TypeAlias = "DeltaTable | TableView"


def frozen(table: Readable) -> TableView:
    """A version of a table, whether it is given as one or as a handle."""
    return table if isinstance(table, TableView) else TableView.of(table)
