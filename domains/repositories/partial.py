"""Partial commits: a staging area that becomes large is made in parts, each a layer ahead of the commit.

After the event with which an area reaches a further 262,144 rows these become a layer, as if they were committed. The
area's commit takes that over and has only the rest to do, unless a partial reset came later. So no piece has more to do
than that, however much is staged. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl
import pyarrow as pa

from ...fold.derived import Earlier
from .layers import as_frame

PARTIAL_ROWS: Final = 262_144
_OF_AREA: Final = ["tenant", "urn", "staging"]


def partial_key(repo: str, staging: int) -> str:
    """What stands for the commit in the rows of `commit_trees` that a staging area has: no commit is called so."""
    return f"commit:{repo}/staged-{staging}"


def partials_of(branches: pa.Table, earlier: Earlier) -> Sequence[Mapping[str, Any]]:
    """The rows of branches with which a staging area reaches a further PARTIAL_ROWS rows.

    Args:
        branches: of a piece, by position.
        earlier: the rows in front of it.
    """
    rows = as_frame(branches).filter(pl.col("staging").is_not_null() & ~pl.col("deleted"))
    rows = rows.with_columns(before=pl.col("staged_rows").shift(1).over(_OF_AREA))
    large = rows.filter(pl.col("staged_rows") >= PARTIAL_ROWS)
    if not large.height:
        return []
    known = _before(large.filter(pl.col("before").is_null()), earlier)
    large = large.with_columns(
        pl.when(pl.col("before").is_null())
        .then(pl.Series(list(map(known.get, large.select(_OF_AREA).rows())), dtype=pl.Int64))
        .otherwise("before")
        .fill_null(0)
        .alias("before")
    )
    return large.filter(pl.col("staged_rows") // PARTIAL_ROWS > pl.col("before") // PARTIAL_ROWS).to_dicts()


def _before(rows: pl.DataFrame, earlier: Earlier) -> dict[tuple[Any, ...], int]:
    """How many rows stood in some areas in front of the piece."""
    if not rows.height:
        return {}
    keys = rows.select("tenant", "urn").unique().to_arrow()
    keys = keys.cast(pa.schema([(name, pa.string()) for name in keys.column_names]))
    found = earlier.newest("branches", keys).select([*_OF_AREA, "staged_rows"]).to_pylist()
    return {(row["tenant"], row["urn"], row["staging"]): row["staged_rows"] for row in found}
