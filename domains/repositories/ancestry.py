"""The commits of a repository, as the pass needs them for the bases of merges: numbered by their positions.

Kept from piece to piece: only commits that are new are read. Source: docs/concepts.md.
"""

from __future__ import annotations

import polars as pl

from ...schemas.urn import Urn
from .merging.bases import ParentColumns
from .urns import commit_urn


class Ancestry:
    """The commits of a repository, numbered by their positions.

    Args:
        rows: `commit` and `parents` of each, the oldest first.
        aggregate: the repository's URN.
    """

    def __init__(self, rows: pl.DataFrame, aggregate: str) -> None:
        repo = Urn.parse(aggregate).parts[0]
        self.urns: list[str] = rows["commit"].to_list()
        self.ids = [Urn.parse(one).parts[-1] for one in self.urns]
        # Of one id the first commit: its parents stand before it, whatever comes later.
        self.numbers = {urn: number for number, urn in reversed([*enumerate(self.urns)])}
        parents = [[self.numbers[str(commit_urn(repo, one))] for one in some] for some in rows["parents"].to_list()]
        self.parents = ParentColumns(
            [some[0] if some else -1 for some in parents], [some[1] if len(some) > 1 else -1 for some in parents]
        )
