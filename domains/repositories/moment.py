"""What one question about a repository sees: a view of the lake up to a bound, and the rows that the lake lacks.

The newer rows are those that a follower has of the repository's events: the stream will write the same ones. Every row
of a repository stands in one journal partition, so one position bounds what is seen of the lake, and what is newer
begins there. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import polars as pl

from ...lake import scan
from ...lake.cuts import Bounds
from ...lake.declared import SPECS, made_arrow
from ...lake.derived import derived_mark
from ...lake.lookup import possible_files
from ...lake.ranges import literal
from ...lake.table import quoted
from ...lake.views.table import TableView
from ...lake.views.views import View
from ...schemas.errors import UnknownEntityError
from ...schemas.positions import Position
from .layers import as_frame
from .questions import NOT_FINAL
from .urns import repository_urn

MOST_NEWER: Final = 50_000
"""Most objects that a question lays over the lake; above that it waits for the lake."""
_NEWEST_FIRST: Final = "order by logical_timestamp desc, seq desc"
_US: Final = 1_000


class NewerRows(Protocol):
    """The rows that a follower has of an aggregate's events.

    Attributes:
        begin: the position from which on they are complete.
        end: the position before which they are.
        rows: of each table, in the order of positions.
    """

    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> Position: ...
    @property
    def rows(self) -> Mapping[str, Sequence[Any]]: ...


@dataclass(frozen=True, eq=False)
class Moment:
    """What one question sees.

    Attributes:
        view: the lake's tables.
        bounds: how much of them; `final` as of the answer to the question.
        tenant, repo: whose; the repository's name.
        partition: the journal partition of the repository.
        newer: rows that stand at or above the bound, of the tables that have such.
    """

    view: View
    bounds: Bounds
    tenant: str
    repo: str
    partition: int
    newer: Mapping[str, pl.DataFrame] = field(default_factory=dict)

    @property
    def aggregate(self) -> str:
        """The repository's URN."""
        return str(repository_urn(self.repo))

    @property
    def below(self) -> int:
        """The position before which the lake is seen."""
        return self.bounds.below[self.partition]

    @property
    def until_us(self) -> int | None:
        """The system time up to which the lake is seen, microseconds UTC; None: whatever it holds."""
        until_ms = self.bounds.until_ms.get(self.partition)
        return None if until_ms is None else until_ms * _US

    def has_passed(self, time_ms: int) -> bool:
        """Whether what is known of the journal has passed a time: no event that arrives later can be of it.

        Args:
            time_ms: milliseconds UTC.
        """
        newer = self.newer.get("branches")  # every event that was accepted has a row there
        if newer is not None and (newer["system_time"].dt.epoch("ms") > time_ms).any():
            return True
        return self.view.journal.clock((self.bounds.topic, self.partition)) > time_ms

    def unknown(self, urn: str, message: str | None = None, *, hint: str, of_time: bool = False) -> UnknownEntityError:
        """The error of what is not there; it says whether that is final.

        Args:
            of_time: it was asked for as at a time; so it was where the lake is seen up to one.
        """
        return UnknownEntityError(urn, message, hint=self.advice(hint, of_time=of_time), final=self.bounds.final)

    def advice(self, hint: str, *, of_time: bool = False) -> str:
        """The next step after an error, in front of it that it is not final where that is so."""
        is_open = not self.bounds.final and (of_time or self.until_us is not None)
        return f"{NOT_FINAL} {hint}" if is_open else hint

    @property
    def derived_below(self) -> int:
        """The position before which the derived tables are complete, as far as they are seen."""
        key = (self.bounds.topic, self.partition)
        return min(self.below, *(derived_mark(self.view, name, key) for name in ("trees", "commit_trees")))

    def table(self, name: str) -> TableView | None:
        """A table's version; None for a derived table that nobody has made yet."""
        return self.view.tables.get(name)

    def rows(
        self, name: str, among: Mapping[str, Sequence[Any]], where: str = "true", *, newest: str | None = None,
        since: int = 0,
    ) -> pl.DataFrame:  # fmt: skip
        """Rows of a table that are seen, with the newer ones.

        Args:
            among: only rows with one of the values (texts or whole numbers) in each of these columns.
            where: a condition of the lake's rows besides, as SQL.
            newest: of the lake's rows only the newest of each value of this column.
            since: only rows at or above this position.
        """
        held = self.lake_rows(name, among, where, newest=newest, since=since)
        newer = self.newer.get(name)
        if newer is None:
            return held
        return pl.concat([held, newer.filter(*[pl.col(one).is_in(list(some)) for one, some in among.items()])])

    def lake_rows(
        self, name: str, among: Mapping[str, Sequence[Any]], where: str = "true", *, newest: str | None = None,
        since: int = 0,
    ) -> pl.DataFrame:  # fmt: skip
        """As `rows`, without the newer ones."""
        table = self.table(name)
        if table is None:
            return as_frame(SPECS[name].schema.empty_table())
        key = {"tenant": [self.tenant], **among}
        paths = possible_files(table, key) if all(key.values()) else []
        if since:
            late = {file["path"] for file in table.listed if (file.get("max.logical_timestamp") or since) >= since}
            paths = [path for path in paths if path in late]
            where += f" and logical_timestamp >= {since}"
        if not paths:
            return as_frame(table.schema.empty_table())
        among_sql = " and ".join(f"{one} in ({', '.join(map(literal, some))})" for one, some in key.items())
        own = f"aggregate = {quoted(self.aggregate)}"
        with scan.cursor() as cursor:
            source = scan.source(cursor, table, paths)
            statement = f"select * from {source} where {among_sql} and {own} and {self.bounds.sql()} and {where}"
            if newest is not None:
                statement += f" qualify row_number() over (partition by {newest} {_NEWEST_FIRST}) = 1"
            found = cursor.sql(statement).to_arrow_table()
        return as_frame(found.cast(table.schema))


def newer_frames(ahead: NewerRows, below: int, domain: str, partition: int) -> dict[str, pl.DataFrame]:
    """The rows of a follower at or above a position, as the tables have them."""
    frames = {}
    for name, rows in ahead.rows.items():
        fresh = [(row, domain, partition) for row in rows if row.logical_timestamp >= below]
        if fresh:
            frames[name] = as_frame(made_arrow(name, fresh))
    return frames


def newest_by(rows: pl.DataFrame, key: str) -> pl.DataFrame:
    """The newest row of each value of a key column."""
    return rows.sort("logical_timestamp", "seq").unique(key, keep="last", maintain_order=True)
