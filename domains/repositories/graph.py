"""The commits of a repository as columns, in the order of their positions: read once, and kept on.

Commits never change, so only those that are new are read. A parent stands before its children: its number is lower.
About 70 bytes a commit. Source: docs/concepts.md.
"""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...lake import scan
from ...lake.lookup import possible_files
from ...lake.table import quoted
from .merging.bases import NO_PARENT, ParentColumns
from .moment import Moment

_ID_BYTES: Final = 32
_SCHEMA: Final = pl.Schema(
    {"id": pl.Binary, "first": pl.Binary, "second": pl.Binary, "place": pl.Int64, "time": pl.Int64}
)


class Graph:
    """The commits of a repository up to a position; a value.

    Args:
        ids: of 32 bytes each, as one array of bytes.
        first, second: numbers of the parents; NO_PARENT where there is none.
        places: positions, ascending.
        times_us: system times, microseconds UTC, never falling.
    """

    def __init__(
        self,
        ids: NDArray[np.void],
        first: NDArray[np.int32],
        second: NDArray[np.int32],
        places: NDArray[np.int64],
        times_us: NDArray[np.int64],
    ) -> None:
        self._ids, self.first, self.second, self.places, self.times_us = ids, first, second, places, times_us
        heads = ids.view(">u8").reshape(-1, _ID_BYTES // 8)[:, 0] if len(ids) else np.empty(0, np.uint64)
        self._order = np.argsort(heads, kind="stable")
        self._heads = heads[self._order].astype(np.uint64)

    @classmethod
    def empty(cls) -> Graph:
        """Without commits."""
        none, numbers = np.empty(0, np.int64), np.empty(0, np.int32)
        return cls(np.empty(0, np.dtype(("V", _ID_BYTES))), numbers, numbers, none, none)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def parents(self) -> ParentColumns:
        """As `merging.bases` walks it."""
        return ParentColumns(self.first.data, self.second.data)

    @property
    def ids(self) -> Sequence[str]:
        """The id of each commit, made when it is asked for."""
        return _Ids(self)

    def id_of(self, number: int) -> str:
        """The id of a commit: 64 hexadecimal digits."""
        return bytes(self._ids[number]).hex()

    def numbers(self, beginning: str, since: int = 0, until: int | None = None) -> list[int]:
        """The commits whose ids begin so, those from one position to before another.

        Args:
            beginning: 1 to 64 hexadecimal digits.
        """
        digits = beginning[:16]
        low = int(digits.ljust(16, "0"), 16)
        high = int(digits.ljust(16, "f"), 16)
        left = np.searchsorted(self._heads, np.uint64(low), "left")
        right = np.searchsorted(self._heads, np.uint64(high), "right")
        found = self._order[left:right].tolist()
        return [
            number
            for number in sorted(found)
            if self.places[number] >= since
            and (until is None or self.places[number] < until)
            and self.id_of(number).startswith(beginning)
        ]

    def number_of(self, commit: str) -> int | None:
        """The number of a commit by its whole id; the newest one, were there several."""
        found = self.numbers(commit)
        return found[-1] if found else None

    def parents_of(self, number: int) -> list[int]:
        """The numbers of its parents."""
        return [int(one) for one in (self.first[number], self.second[number]) if one != NO_PARENT]

    def history(self, head: int) -> Iterator[int]:
        """A commit and all that it descends from, the newest first."""
        waiting, seen = [-head], {head}
        while waiting:
            commit = -heapq.heappop(waiting)
            yield commit
            for parent in self.parents_of(commit):
                if parent not in seen:
                    seen.add(parent)
                    heapq.heappush(waiting, -parent)

    def reached_from(self, heads: Iterable[int]) -> NDArray[np.bool_]:
        """Of each commit whether one of some commits descends from it, or is it."""
        first, second = self.first.tolist(), self.second.tolist()
        reached = bytearray(len(self) + 1)  # the last one stands for a parent that there is not
        for head in heads:
            reached[head] = True
        for number in range(len(self) - 1, -1, -1):  # a parent's number is lower
            if reached[number]:
                reached[first[number]] = reached[second[number]] = True
        return np.frombuffer(reached, np.bool_)[:-1]

    def up_to(self, count: int) -> Graph:
        """The first commits of it."""
        if count >= len(self):
            return self
        return Graph(
            self._ids[:count], self.first[:count], self.second[:count], self.places[:count], self.times_us[:count]
        )

    def with_rows(self, rows: pl.DataFrame) -> Graph:
        """With more commits, which are newer than all that are here.

        Args:
            rows: `id`, `first`, `second` (32 bytes each, or null), `place`, `time` (microseconds UTC), by place.
        """
        if not rows.height:
            return self
        ids = np.concatenate([self._ids, _packed(rows["id"])])
        first, second = self._parents_of(rows)
        return Graph(
            ids,
            np.concatenate([self.first, first]),
            np.concatenate([self.second, second]),
            np.concatenate([self.places, rows["place"].to_numpy()]),
            np.concatenate([self.times_us, rows["time"].to_numpy()]),
        )

    def _parents_of(self, rows: pl.DataFrame) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The numbers of new commits' parents: of each the newest commit of that id that stands before its child."""
        before: dict[bytes, int] = {}
        first = len(self)
        made = np.full((2, rows.height), NO_PARENT, np.int32)
        for row, (own, *parents) in enumerate(rows.select("id", "first", "second").iter_rows()):
            for side, parent in enumerate(parents):
                if parent is not None:
                    number = before[parent] if parent in before else self.number_of(parent.hex())
                    made[side, row] = NO_PARENT if number is None else number
            before[own] = first + row
        return made[0], made[1]


class _Ids(Sequence[str]):
    """The ids of a graph's commits by their numbers, made one by one: bases are few."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getitem__(self, number: int) -> str:  # type: ignore[override]  # no slices are asked for
        return self._graph.id_of(number)

    def __len__(self) -> int:
        return len(self._graph)


MOST_COMMITS: Final = 1_000_000
"""Of all repositories in memory: about 70 MB."""


class Graphs:
    """The graphs that were read, by tenant and repository; threads share them.

    Args:
        most_commits: of all graphs that are kept; the one that was asked for last always is.
    """

    def __init__(self, most_commits: int = MOST_COMMITS) -> None:
        self._held: OrderedDict[tuple[str, str], tuple[int, Graph]] = OrderedDict()
        self._most_commits = most_commits
        self._commits = 0
        self._lock = threading.Lock()

    def of(self, moment: Moment) -> Graph:
        """The commits that a question sees, also those of an earlier repository of that name."""
        key = (moment.tenant, moment.repo)
        with self._lock:
            held_to, graph = self._held.get(key, (0, Graph.empty()))
        if held_to < moment.below:
            graph = graph.with_rows(_rows_of_lake(moment, held_to))
            self._keep(key, moment.below, graph)
        newer = moment.newer.get("commits")
        seen = graph if held_to <= moment.below else _before(graph, moment)
        if moment.until_us is not None:
            seen = _before(seen, moment)
        return seen if newer is None else seen.with_rows(graph_rows(newer))

    def _keep(self, key: tuple[str, str], held_to: int, graph: Graph) -> None:
        """Keep a graph, unless another thread has read more of it meanwhile."""
        with self._lock:
            earlier_to, earlier = self._held.get(key, (0, Graph.empty()))
            if earlier_to >= held_to:
                return
            self._commits += len(graph) - len(earlier)
            self._held[key] = held_to, graph
            self._held.move_to_end(key)
            while self._commits > self._most_commits and len(self._held) > 1:
                self._commits -= len(self._held.popitem(last=False)[1][1])


def _before(graph: Graph, moment: Moment) -> Graph:
    """The commits that stand before a question's bound."""
    count = int(np.searchsorted(graph.places, moment.below))
    if moment.until_us is not None:
        count = min(count, int(np.searchsorted(graph.times_us, moment.until_us, "right")))
    return graph.up_to(count)


def _packed(ids: pl.Series) -> NDArray[np.void]:
    return np.frombuffer(b"".join(ids.to_list()), np.dtype(("V", _ID_BYTES)))


def _rows_of_lake(moment: Moment, since: int) -> pl.DataFrame:
    """The commits from a position on that the lake holds, whatever the time, by position."""
    table = moment.table("commits")
    paths = [] if table is None else possible_files(table, {"tenant": [moment.tenant]})
    if table is None or not paths:
        return pl.DataFrame(schema=_SCHEMA)
    new = {file["path"] for file in table.listed if (file.get("max.logical_timestamp") or since) >= since}
    paths = [path for path in paths if path in new]
    if not paths:
        return pl.DataFrame(schema=_SCHEMA)
    with scan.cursor() as cursor:
        statement = f"""
            select unhex(right(commit, 64)) as id, unhex(parents[1]) as first, unhex(parents[2]) as second,
                logical_timestamp as place, epoch_us(system_time) as time
            from {scan.source(cursor, table, paths)}
            where tenant = {quoted(moment.tenant)} and aggregate = {quoted(moment.aggregate)}
                and journal_partition = {moment.partition} and logical_timestamp >= {since}
                and logical_timestamp < {moment.below}
            order by logical_timestamp"""
        frame = pl.from_arrow(cursor.sql(statement).to_arrow_table())
    assert isinstance(frame, pl.DataFrame)
    return frame.cast(_SCHEMA)


def graph_rows(commits: pl.DataFrame) -> pl.DataFrame:
    """Rows of `commits` as the graph takes them."""
    parents = pl.col("parents")
    return commits.sort("logical_timestamp").select(
        id=pl.col("commit").str.slice(-64).str.decode("hex"),
        first=parents.list.get(0, null_on_oob=True).str.decode("hex"),
        second=parents.list.get(1, null_on_oob=True).str.decode("hex"),
        place="logical_timestamp",
        time=pl.col("system_time").dt.epoch("us"),
    )
