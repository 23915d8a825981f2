"""What of a repository no live branch needs: commits, layers, blocks, and transactions that were left behind.

It only tells. Nothing is ever deleted here: the journal is the truth, and a commit that none reaches can be reached
again by a revert or a new branch until its blocks are gone. What is older than the repository, of an earlier one of its
name, cannot be. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...lake import scan
from ...lake.table import quoted
from ...schemas.errors import UnknownEntityError
from ...schemas.positions import Position
from ...schemas.urn import Urn
from .garbage_rows import Block, Blocks, seen_rows
from .graph import Graphs
from .moment import Moment
from .partial import partial_key
from .urns import TRANSACTION

__all__ = ["Block", "GarbageCounts", "GarbagePlan", "LayerUse", "OldTransaction", "UnreachedCommit"]

_US: Final = 1_000
_ALL: Final = 2**63 - 1
"""Behind every position: of a repository that is deleted all commits are of an earlier one."""
_BATCH_ROWS: Final = 8_192
_USES: Final = "count(distinct reached.place) + count(distinct staged.commit)"


class GarbageCounts(NamedTuple):
    """How much of a repository no live branch needs.

    Attributes:
        repository: its name.
        position: the position before which the journal was read.
        before: blocks and transactions count as old if nothing named them from this system time on, milliseconds UTC.
        branches: live ones, also those of transactions.
        old_transactions: those of transactions that are old.
        commits, unreached_commits: all that there have been, and those that no live branch descends from.
        earlier_commits: those of the latter that are of an earlier repository of that name.
        layers, unreached_layers: all that commits name, and those that no reached commit names or is going to.
        pending_commits: reached commits whose layers are not known yet; they name no others of the unreached ones.
        blocks, unused_blocks: addresses that the repository has ever named, and those that are old and in no net row
            that a reached commit took or a live branch holds.
    """

    repository: str
    position: str
    before: int
    branches: int
    old_transactions: int
    commits: int
    unreached_commits: int
    earlier_commits: int
    layers: int
    unreached_layers: int
    pending_commits: int
    blocks: int
    unused_blocks: int


class LayerUse(NamedTuple):
    """A layer that commits name.

    Attributes:
        layer: `objects/<staging area>` or `trees/<layer>`.
        rows: how many paths it has.
        commits: how many reached commits name it, or are going to, of what is staged on a live branch; 0: none.
    """

    layer: str
    rows: int
    commits: int


class UnreachedCommit(NamedTuple):
    """A commit that no live branch is at or descends from.

    Attributes:
        id: 64 hexadecimal digits.
        logical_timestamp: of its event.
        time: system time, milliseconds UTC.
        earlier: it is of an earlier repository of that name, so nothing can reach it again.
    """

    id: str
    logical_timestamp: int
    time: int
    earlier: bool


class OldTransaction(NamedTuple):
    """The branch of a transaction that nothing has touched for long.

    Attributes:
        name: the branch's.
        head: id of the commit that it is at; None: it has none.
        logical_timestamp: of the last event that touched it.
        time: system time of that, milliseconds UTC.
    """

    name: str
    head: str | None
    logical_timestamp: int
    time: int


class GarbagePlan:
    """What one moment of a repository tells of it; each list is read as it is asked for, in little memory.

    Args:
        moment: what is seen.
        graphs: the graphs that were read before.
        before_ms: what nothing has named from this system time on is old, milliseconds UTC.

    Raises:
        UnknownEntityError: there has never been such a repository.
    """

    def __init__(self, moment: Moment, graphs: Graphs, before_ms: int) -> None:
        self._moment = moment
        self._before_ms = before_ms
        self._created, self._branches = _live(moment)
        self._graph = graphs.of(moment)

    def counts(self) -> GarbageCounts:
        """How much there is of each. Raises: DamagedTableError, StaleReadError: of the tables."""
        moment, unreached = self._moment, self._unreached
        layers, unreached_layers, pending = self._layer_counts()
        blocks = self._blocks.counts()
        return GarbageCounts(
            moment.repo,
            str(Position(moment.bounds.topic, moment.partition, moment.below)),
            self._before_ms,
            len(self._branches),
            len(self.branches()),
            len(self._graph),
            len(unreached),
            int(np.searchsorted(self._graph.places[unreached], self._since)),
            layers,
            unreached_layers,
            pending,
            *blocks,
        )

    # Commits

    @cached_property
    def _reached(self) -> NDArray[np.bool_]:
        heads = [self._graph.number_of(row["head"]) for row in self._branches if row["head"] is not None]
        return self._graph.reached_from(head for head in heads if head is not None)

    @property
    def _unreached(self) -> NDArray[np.int64]:
        return np.flatnonzero(~self._reached)

    @property
    def _since(self) -> int:
        """The position from which on commits are of the repository that there is now."""
        return _ALL if self._created is None else self._created

    def commits(self) -> Iterator[UnreachedCommit]:
        """The commits that no live branch reaches, the oldest first."""
        graph = self._graph
        for number in self._unreached.tolist():
            place = int(graph.places[number])
            yield UnreachedCommit(graph.id_of(number), place, int(graph.times_us[number]) // _US, place < self._since)

    def branches(self) -> list[OldTransaction]:
        """The branches of transactions that nothing has touched since, by name."""
        named = [(Urn.parse(row["urn"]).parts[1], row) for row in self._branches]
        return [
            OldTransaction(name, row["head"], row["logical_timestamp"], row["time_us"] // _US)
            for name, row in sorted(named, key=lambda one: one[0])
            if name.startswith(TRANSACTION) and row["time_us"] < self._before_ms * _US
        ]

    # Layers

    def layers(self) -> Iterator[LayerUse]:
        """Every layer that a commit names, by its table and position, and how many reached commits name it."""
        with scan.spilling() as cursor:
            found = cursor.sql(f"""
                select layer, max(rows) as rows, {_USES} as commits {self._uses(cursor)}
                group by layer order by split_part(layer, '/', 1), split_part(layer, '/', 2)::bigint""")
            for batch in found.to_arrow_reader(_BATCH_ROWS):
                yield from map(LayerUse, *(column.to_pylist() for column in batch.columns))

    def _layer_counts(self) -> tuple[int, int, int]:
        """How many layers there are and how many of them none needs; reached commits whose layers are not known."""
        with scan.spilling() as cursor:
            uses = f"select {_USES} as commits {self._uses(cursor)} group by layer"
            layers, unreached = cursor.sql(f"select count(*), count(*) filter (commits = 0) from ({uses})").fetchall()[
                0
            ]
            pending = cursor.sql(
                f"select count(*) from reached anti join {self._trees(cursor, '1 as one')} using (place)"
            ).fetchall()[0][0]
        return layers, unreached, pending

    def _uses(self, cursor: scan.Cursor) -> str:
        """Every layer of every commit, with the commit's position where it is reached: what SQL selects from.

        A large staging area has layers before its commit is there, which a live branch's commit is going to take.
        """
        areas = [partial_key(self._moment.repo, area) for area in self._areas]
        cursor.register("staged", pa.table({"commit": pa.array(areas, pa.string())}))
        trees = self._trees(cursor, "commit, unnest(layers) as layer, unnest(layer_rows) as rows")
        joined = "left join reached on trees.place = reached.place left join staged on trees.commit = staged.commit"
        return f"from {trees} trees {joined}"

    @property
    def _areas(self) -> list[int]:
        """Staging areas of live branches."""
        return [row["staging"] for row in self._branches if row["staged_events"]]

    def _trees(self, cursor: scan.Cursor, columns: str) -> str:
        cursor.register("reached", pa.table({"place": self._places}))
        columns = f"logical_timestamp as place, {columns}"
        return seen_rows(cursor, self._moment, "commit_trees", columns, below=self._moment.derived_below)

    @property
    def _places(self) -> pa.Array:
        return pa.array(self._graph.places[self._reached], pa.int64())

    # Blocks

    def addresses(self) -> Iterator[Block]:
        """The old blocks in no net row that a reached commit took or a live branch holds, by address.

        Other repositories that may name them are not looked at.
        """
        return self._blocks.unused()

    @property
    def _blocks(self) -> Blocks:
        return Blocks(self._moment, self._places, pa.array(self._areas, pa.int64()), self._before_ms)


def _live(moment: Moment) -> tuple[int | None, list[dict[str, Any]]]:
    """Where a repository was created (None: it is deleted), and the rows of its live branches.

    Raises: UnknownEntityError: there has never been one of that name.
    """
    repo = quoted(moment.aggregate)
    with scan.spilling() as cursor:
        columns = (
            "urn, head, staging, staged_events, created, deleted, logical_timestamp, seq, "
            "epoch_us(system_time) as time_us"
        )
        rows = seen_rows(cursor, moment, "branches", columns)
        statement = f"""select * from (
                select *, row_number() over (partition by urn order by logical_timestamp desc, seq desc) as age
                from {rows})
            where age = 1 and (urn = {repo} or not deleted)"""
        found = cursor.sql(statement).to_arrow_table().to_pylist()
    repository = next((row for row in found if row["urn"] == moment.aggregate), None)
    if repository is None:
        raise UnknownEntityError(moment.aggregate, hint="`metajournal repo list` lists the repositories.")
    if repository["deleted"]:
        return None, []
    created = int(repository["created"])
    return created, [row for row in found if row is not repository and row["logical_timestamp"] >= created]
