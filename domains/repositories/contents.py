"""What a ref contains: the levels of its commit, and of a branch what is staged on it.

The layers of a commit stand in `commit_trees` once they are made. Until then a plain commit is its parent with its
staging area laid over it; what a merge contains is known only once it is made. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from ...schemas.errors import NotYetVisibleError
from ...schemas.positions import behind
from .layers import OBJECTS, Layer
from .levels import Level
from .merging.staging import Reset
from .moment import MOST_NEWER, Moment, newest_by
from .urns import commit_urn

_MOST_STEPS: Final = 8
"""Commits between two contents that are looked through: each is a look-up, which the paths compared less are worth."""


_MOST_PENDING: Final = 256
"""Commits in a line that are not made yet, of which each is looked up twice: some seconds."""


class Area(NamedTuple):
    """A staging area.

    Attributes:
        number: the position at which it began: its name.
        events: how many stand in it.
    """

    number: int
    events: int


class KnownLayers(NamedTuple):
    """The layers of a commit that is made, and the position of the event that made the commit."""

    position: int
    layers: tuple[Layer, ...]


class Made(NamedTuple):
    """What `commit_trees` says of a commit.

    Attributes:
        position: of the event that made the commit.
        layers: the oldest first.
        objects, size_bytes: how much it holds.
        added, changed, removed: what it changed.
        conflicts: of a merge; `conflicting` has the first 100 of them as JSON.
        root, content_id: of its content.
    """

    position: int
    layers: tuple[Layer, ...]
    objects: int
    size_bytes: int
    added: int
    changed: int
    removed: int
    conflicts: int
    conflicting: str
    root: str
    content_id: str


def made_of(moment: Moment, ids: Sequence[str]) -> dict[str, Made]:
    """What `commit_trees` says of some commits, by their ids; of those that are not made yet nothing."""
    urns = {str(commit_urn(moment.repo, one)): one for one in ids}
    rows = moment.rows("commit_trees", {"commit": [*urns]}, f"logical_timestamp < {moment.derived_below}")
    return {
        urns[row["commit"]]: Made(
            row["logical_timestamp"], tuple(map(Layer.of, row["layers"], row["layer_rows"])), row["objects"],
            row["bytes"], row["added"], row["changed"], row["removed"], row["conflicts"], row["conflicting"],
            row["root"], row["content_id"],
        )
        for row in rows.iter_rows(named=True)
    }  # fmt: skip


class Contents:
    """Finds what refs contain.

    Args:
        moment: what is seen.
        kept: positions and layers of commits that were found before, which never change; more are added. Whoever shares
            it may see more than this moment does, so what stands behind that is not taken.
    """

    def __init__(self, moment: Moment, kept: dict[Any, KnownLayers]) -> None:
        self._moment = moment
        self._kept = kept

    def levels(self, commit: str | None, area: Area | None) -> tuple[Level, ...]:
        """The levels of a commit, the lowest first, and over them those of a staging area.

        Args:
            commit: its id; None: nothing.
            area: what is staged; None, or without events: nothing.
        Raises:
            NotYetVisibleError: what the commit contains is not known yet.
        """
        pending: list[int] = []
        layers: tuple[Layer, ...] = ()
        looked_at = 0
        while commit is not None:
            held = self._layers(commit)
            if held is not None:
                layers = held
                break
            looked_at += 1
            if looked_at > _MOST_PENDING:
                raise self.not_made(commit)
            commit, staging = self._plain(commit)
            pending += [] if staging is None else [staging]
        areas = [*reversed(pending), *([area.number] if area is not None and area.events else [])]
        if len(pending) > 1:
            self._check(areas)
        resets = self._resets(areas)
        over = [Level(OBJECTS, number, tuple(resets.get(number, ()))) for number in areas]
        return (*map(Level.of, layers), *over)

    def _layers(self, commit: str) -> tuple[Layer, ...] | None:
        key = (self._moment.tenant, self._moment.repo, commit)
        known = self._kept.get(key)
        if known is not None:
            return known.layers if known.position < self._moment.derived_below else None
        for made in made_of(self._moment, [commit]).values():
            self._kept[key] = KnownLayers(made.position, made.layers)
            return made.layers
        return None

    def changed(self, older: str | None, newer: str | None) -> list[Level] | None:
        """The staging areas that plain commits took from one commit to another: every path that they changed is there.

        Returns:
            None where the newer one does not come from the older one by some few plain commits.
        """
        levels: list[Level] = []
        for _ in range(_MOST_STEPS):
            if newer == older:
                return levels
            row = None if newer is None else self._row(newer)
            if row is None or row["strategy"] is not None:
                return None
            levels += [] if row["staging"] is None else [Level(OBJECTS, row["staging"])]
            newer = row["parents"][0] if row["parents"] else None
        return None

    def _plain(self, commit: str) -> tuple[str | None, int | None]:
        """The parent of a commit that is not made yet, and the staging area that it takes."""
        row = self._row(commit)
        if row["strategy"] is not None:
            raise self._behind(row["logical_timestamp"], f"what the merge {commit[:12]} contains")
        parents = row["parents"]
        return (parents[0] if parents else None), row["staging"]

    def _row(self, commit: str) -> dict[str, Any]:
        """What `commits` says of a commit."""
        rows = self._moment.rows("commits", {"commit": [str(commit_urn(self._moment.repo, commit))]})
        (row,) = newest_by(rows, "commit").iter_rows(named=True)
        return row

    def not_made(self, commit: str) -> NotYetVisibleError:
        """The error of a commit of which `commit_trees` says nothing yet."""
        rows = self._moment.rows("commits", {"commit": [str(commit_urn(self._moment.repo, commit))]})
        return self._behind(int(rows["logical_timestamp"][-1]), f"what the commit {commit[:12]} contains")

    def _check(self, areas: Sequence[int]) -> None:
        """Refuse a long line of commits that are not made. Raises: NotYetVisibleError."""
        rows = self._moment.rows("branches", {}, f"staging in ({', '.join(map(str, areas))})")
        of_areas = rows.filter(pl.col("staging").is_in(list(areas)))
        count = int(of_areas.group_by("staging").agg(pl.col("staged_rows").max())["staged_rows"].sum())
        if count > MOST_NEWER:
            raise self._behind(self._moment.below - 1, f"what commits of {count:,} objects contain")

    def _behind(self, position: int, what: str) -> NotYetVisibleError:
        moment = self._moment
        key = (moment.bounds.topic, moment.partition)
        marks = {key: moment.derived_below} if moment.derived_below else {}
        lacking = behind(marks, {key: position + 1}) or {key: 1}
        error = NotYetVisibleError(
            lacking,
            f"It is not worked out yet {what}: {lacking[key]:,} positions of {key[0]}/{key[1]} come first. "
            "Nothing is lost.",
        )
        error.advise("Ask again in a moment, or wait for longer; `metajournal status` shows how far it is.")
        return error

    def _resets(self, areas: Sequence[int]) -> dict[int, list[Reset]]:
        found: dict[int, list[Reset]] = {}
        if areas:
            for row in self._rows_of_resets(areas):
                reset = Reset(row["path"].encode(), row["is_prefix"], row["logical_timestamp"])
                found.setdefault(row["staging"], []).append(reset)
        return found

    def _rows_of_resets(self, areas: Sequence[int]) -> Iterator[dict[str, Any]]:
        rows = self._moment.rows("resets", {"repo": [self._moment.repo], "staging": [*areas]})
        return rows.iter_rows(named=True)
