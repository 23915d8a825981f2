"""The commits of a repository as the pass needs them for the bases of merges: kept from piece to piece.

Commits never change, so only those that are new are read. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from ...fold.derived import Earlier, Piece
from .graph import Graph, graph_rows
from .layers import as_frame
from .merging.bases import Graph as Parents

_MOST_COMMITS: Final = 500_000
"""Of all graphs that are kept: 40 MB; one is kept whatever its size."""
_COLUMNS: Final = ("commit", "parents", "logical_timestamp", "system_time")


class _Kept(NamedTuple):
    """A graph, and the position before which it has all commits."""

    graph: Graph
    below: int


class Counted:
    """Parents of commits, and how many were asked for.

    Args:
        parents: of each commit.
    """

    def __init__(self, parents: Parents) -> None:
        self._parents = parents
        self.count = 0

    def __getitem__(self, commit: int, /) -> Iterable[int]:
        self.count += 1
        return self._parents[commit]


def graph_of(piece: Piece, earlier: Earlier, tenant: str, aggregate: str) -> Graph:
    """The commits of a repository up to the end of a piece.

    Args:
        piece: has its own commits.
        earlier: has those in front of it; the graph is kept there.
        tenant, aggregate: whose; the repository's URN.
    """
    key = tenant, aggregate
    graphs: OrderedDict[tuple[str, str], _Kept] = earlier.kept.setdefault("graphs", OrderedDict())
    kept = graphs.pop(key, _Kept(Graph.empty(), 0))
    if kept.below > piece.start:  # it was made of a piece that did not count, or that ended sooner
        kept = _Kept(kept.graph.up_to(int(np.searchsorted(kept.graph.places, piece.start))), piece.start)
    of = {"tenant": [tenant], "aggregate": [aggregate]}
    between: dict[str, tuple[Any, Any]] = {"logical_timestamp": (kept.below, piece.start - 1)}
    rows = as_frame(earlier.rows("commits", of, columns=_COLUMNS, between=between, in_order=False))
    own = as_frame(piece.rows["commits"].select(["tenant", "aggregate", *_COLUMNS]))
    own = own.filter((pl.col("tenant") == tenant) & (pl.col("aggregate") == aggregate)).select(_COLUMNS)
    graph = kept.graph.with_rows(graph_rows(pl.concat([rows, own])))
    graphs[key] = _Kept(graph, piece.end)
    while len(graphs) > 1 and sum(len(one.graph) for one in graphs.values()) > _MOST_COMMITS:
        graphs.popitem(last=False)
    return graph
