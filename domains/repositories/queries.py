"""What the lake tells of repositories: branches and commits, what refs contain, how they differ.

Every answer is that of one moment. Without `ahead` it is what the lake holds; with it, the rows of a follower are laid
over that, so that an answer has everything up to a position that the lake may not have reached.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import orjson
import polars as pl

from ...lake.cuts import At
from ...lake.queries import KEPT_BYTES, Queries, Seen
from ...lake.selecting import select_rows
from ...lake.tables import Lake
from ...lake.views.views import Views, asked_anew
from ...schemas.errors import NotYetVisibleError, UnavailableError
from ...schemas.hashing import partition_of, record_key
from ...schemas.positions import epoch_of, position
from ...schemas.topics import TopicNames
from .answers import (
    AnswerList,
    BranchInfo,
    CommitInfo,
    Conflict,
    Difference,
    DiffPage,
    ListPage,
    LogPage,
    ObjectInfo,
    PrefixInfo,
    RepositoryInfo,
    TreeInfo,
)
from .apart import Outlook
from .contents import Contents, KnownLayers, Made, made_of
from .differences import Differences
from .garbage import GarbagePlan
from .graph import Graphs
from .kept_layers import KeptLayers
from .layers import HIGHEST, OBJECTS
from .levels import Level, LevelRows
from .listing import ListQuestion, infos_of, listed
from .merging.bases import merge_bases
from .moment import Moment, NewerRows, newer_frames
from .outlook import Outlooks
from .questions import PAGE, Ref, check_delimiter, check_limit, check_prefix
from .refs import KeptRows, Refs, Target
from .urns import TRANSACTION, repository_urn

__all__ = [
    "BranchInfo", "CommitInfo", "Conflict", "DiffPage", "Difference", "ListPage", "LogPage", "ObjectInfo",
    "PrefixInfo", "RepositoryInfo", "RepositoryQueries", "TreeInfo",
]  # fmt: skip

_AGE: Final = "row_number() over (partition by urn order by logical_timestamp desc, seq desc)"
_MOST_KEPT: Final = 10_000
_BYTES_A_COMMIT: Final = 256
_BYTES_A_ROW: Final = 2_560
"""For one commit, and one row of a branch, in memory there are so many bytes of layers."""


class RepositoryQueries(Queries):
    """Reads repositories from the lake; threads share it. Its other arguments are those of `Queries`.

    Args:
        kept_bytes: of layers that stay in memory; commits and rows of branches take less than half as much again.
    """

    TOPIC = "repositories"
    TABLES = ("entities", "branches", "commits", "objects", "resets", "trees", "commit_trees")
    _OF_FOLD = frozenset({"entities", "branches", "commits", "objects", "resets"})

    def __init__(
        self, lake: Lake | Views, names: TopicNames, partitions: Mapping[str, int] | int, *,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:  # fmt: skip
        super().__init__(lake, names, partitions)
        self._graphs = Graphs(kept_bytes // _BYTES_A_COMMIT)
        self._rows = KeptRows(kept_bytes // _BYTES_A_ROW)
        self._kept = KeptLayers(kept_bytes)
        self._layers: dict[Any, KnownLayers] = {}

    # Repositories

    @asked_anew
    def repositories(self, tenant: str, *, as_at: At | None = None) -> AnswerList[RepositoryInfo]:
        """Every repository, by name.

        Args:
            as_at: as the journal recorded it then (see `cuts.At`); None: now.
        Raises:
            NotFinalError: the lake has not reached that position, or the time is in the future.
            UnavailableError: there is no lake, or no repository has joined it.
        """
        seen = self._seen(as_at)
        final = seen.bounds.final
        statement = f"""
            select urn, created, members from (
                select *, {_AGE} as age from rows where {seen.bounds.sql()} and starts_with(urn, 'repo:'))
            where age = 1 and not deleted"""
        rows = select_rows(seen.view, "branches", {"tenant": tenant}, statement)
        refs = {urn: (created, members) for urn, created, members in rows}
        if not refs:
            return AnswerList(final=final)
        statement = f"""select urn, name, record from (
                select urn, name, record, {_AGE} as age from rows where {seen.bounds.sql()})
            where age = 1 order by urn"""
        rows = select_rows(seen.view, "entities", {"tenant": tenant, "urn": [*refs]}, statement)
        made: AnswerList[RepositoryInfo] = AnswerList(final=final)
        for urn, name, text in rows:
            record = orjson.loads(text)
            info = RepositoryInfo(urn, name, record["default_branch"], record["storage_namespace"], *refs[urn], final)
            made.append(info)
        return made

    @asked_anew
    def repository(
        self, tenant: str, name: str, *, as_at: At | None = None, ahead: NewerRows | None = None,
        newer: Mapping[str, Any] | None = None,
    ) -> RepositoryInfo:  # fmt: skip
        """One repository.

        Args:
            as_at: as of `repositories`.
            ahead: what a follower has of its events; only without `as_at`.
            newer: its record, as the follower has it, where the lake does not.
        Raises:
            UnknownEntityError: there is none of that name.
            NotYetVisibleError: the lake lacks more than `ahead` has. Others as `repositories`.
        """
        return self._refs(tenant, name, as_at, ahead).info(newer)

    # Branches and commits

    @asked_anew
    def branches(
        self, tenant: str, name: str, *, transactions: bool = False, as_at: At | None = None,
        ahead: NewerRows | None = None,
    ) -> AnswerList[BranchInfo]:  # fmt: skip
        """The branches of a repository, by name.

        Args:
            transactions: also those of transactions.
            as_at, ahead: as of `repository`, and its errors.
        """
        refs = self._refs(tenant, name, as_at, ahead)
        found = (row for row in refs.branches() if transactions or not row.name.startswith(TRANSACTION))
        return AnswerList(found, final=refs.final)

    @asked_anew
    def branch(
        self, tenant: str, name: str, branch: str, *, as_at: At | None = None, ahead: NewerRows | None = None
    ) -> BranchInfo:
        """One branch. Raises: UnknownEntityError: it, or its repository, does not exist. Others as `repository`."""
        return self._refs(tenant, name, as_at, ahead).existing_branch(branch)

    @asked_anew
    def log(
        self, tenant: str, name: str, ref: Ref, *, limit: int = PAGE, before: int | None = None,
        as_at: At | None = None, ahead: NewerRows | None = None,
    ) -> LogPage:  # fmt: skip
        """The commits that a ref has in its history, itself included: the newest first.

        Args:
            limit: most commits, 1 to 10,000.
            before: of the page before.
            as_at, ahead: as of `repository`.
        Raises:
            UnknownEntityError: the repository or the ref does not exist.
            InputError: the ref is ambiguous or has no commit, or `limit` cannot be. Others as `repository`.
        """
        check_limit(limit)
        refs = self._refs(tenant, name, as_at, ahead, ref)
        graph, head = refs.graph, refs.graph.number_of(refs.commit(ref))
        assert head is not None  # it was found
        numbers = (one for one in graph.history(head) if before is None or graph.places[one] < before)
        found = [graph.id_of(one) for one in islice(numbers, limit + 1)]
        items = refs.commits(found[:limit])
        return LogPage(items, items[-1].logical_timestamp if len(found) > limit else None, refs.final)

    @asked_anew
    def commit(
        self, tenant: str, name: str, ref: Ref, *, as_at: At | None = None, ahead: NewerRows | None = None
    ) -> CommitInfo:
        """The commit that a ref names. Raises: as `log`."""
        refs = self._refs(tenant, name, as_at, ahead, ref)
        (found,) = refs.commits([refs.commit(ref)])
        return found

    @asked_anew
    def committed_at(self, tenant: str, name: str, position: int) -> CommitInfo:
        """The commit that the event at a position made. The lake holds it, as the caller knows."""
        refs = self._refs(tenant, name, None, None)
        numbers = [one for one, place in enumerate(refs.graph.places.tolist()) if place == position]
        (found,) = refs.commits([refs.graph.id_of(one) for one in numbers])
        return found

    @asked_anew
    def merge_bases(
        self, tenant: str, name: str, left: Ref, right: Ref, *, as_at: At | None = None,
        ahead: NewerRows | None = None,
    ) -> AnswerList[str]:  # fmt: skip
        """The best common ancestors of two refs, as git has them: ids, the newest first. Raises: as `log`."""
        refs = self._refs(tenant, name, as_at, ahead, left, right)
        graph = refs.graph
        sides = [graph.number_of(refs.commit(ref)) for ref in (left, right)]
        bases = merge_bases(graph.parents, *[[one] for one in sides if one is not None])
        return AnswerList(map(graph.id_of, bases), final=refs.final)

    # Contents

    @asked_anew
    def get(
        self, tenant: str, name: str, ref: Ref, path: str, *, as_at: At | None = None, ahead: NewerRows | None = None
    ) -> ObjectInfo:
        """One object of a ref; of a branch with what is staged on it.

        Raises:
            UnknownEntityError: there is no such object, ref or repository.
            NotYetVisibleError: what the ref contains is not known yet. Others as `log`.
        """
        moment = self._moment(tenant, name, as_at, ahead, ref)
        rows = LevelRows(moment, self._levels(moment, ref))
        places = rows.at(pl.Series("path", [path]), []).filter(~pl.col("deleted"))
        for info in infos_of(rows, places):
            return info
        raise moment.unknown(
            f"{name}/{ref.text}/{path}",
            f"{name} has no object {path} at {ref.text}.",
            hint=f"`metajournal repo ls {name} {ref.text}` lists its objects.",
            of_time=ref.until_ms is not None,
        )

    @asked_anew
    def existing(
        self, tenant: str, name: str, branch: str, paths: Sequence[str], *, as_at: At | None = None,
        ahead: NewerRows | None = None,
    ) -> set[str]:  # fmt: skip
        """Those of some paths at which a branch has an object, with what is staged on it.

        Raises:
            UnknownEntityError: there is no such branch or repository.
            NotYetVisibleError: what the branch has is not known yet. Others as `repository`.
        """
        moment = self._moment(tenant, name, as_at, ahead)
        there = Refs(moment, self._graphs, self._rows).contents_of(branch)
        rows = LevelRows(moment, Contents(moment, self._layers).levels(there.commit, there.area))
        found = rows.at(pl.Series("path", sorted(set(paths)), pl.String), [])
        return set(found.filter(~pl.col("deleted"))["path"].to_list())

    @asked_anew
    def emptied_by(
        self, tenant: str, name: str, branch: str, path: str | None, prefix: str, *, as_at: At | None = None,
        ahead: NewerRows | None = None,
    ) -> str | None:  # fmt: skip
        """The digest of what is staged on a branch, if a reset of one path or of a prefix leaves nothing of it.

        Args:
            path: of the reset; None: it is of the prefix.
        Returns:
            None where something is left, or nothing is staged.
        Raises:
            UnknownEntityError: there is no such branch or repository. Others as `repository`.
        """
        moment = self._moment(tenant, name, as_at, ahead)
        refs = Refs(moment, self._graphs, self._rows)
        area = refs.contents_of(branch).area
        if area is None or not area.events:
            return None
        rows = LevelRows(moment, Contents(moment, self._layers).levels(None, area))
        others = pl.col("path").ne(path) if path is not None else ~pl.col("path").str.starts_with(prefix)
        for _, window in rows.windows("", HIGHEST):
            if rows.counting(window.filter(others)).height:
                return None
        return refs.existing_branch(branch).staging_digest

    @asked_anew
    def list_objects(
        self, tenant: str, name: str, ref: Ref, *, prefix: str = "", delimiter: str | None = None,
        after: str | None = None, limit: int = PAGE, as_at: At | None = None, ahead: NewerRows | None = None,
    ) -> ListPage:  # fmt: skip
        """Some of what a ref contains, by path; of a branch with what is staged on it.

        Args:
            prefix: only paths that begin so.
            delimiter: paths that have it behind the prefix come as one common prefix.
            after: only items behind this path or common prefix.
            limit: most items, 1 to 10,000.
        Raises:
            InputError: an argument cannot be. Others as `get`.
        """
        asked = ListQuestion(
            check_prefix("prefix", prefix), check_delimiter(delimiter), check_prefix("after", after),
            check_limit(limit),
        )  # fmt: skip
        moment = self._moment(tenant, name, as_at, ahead, ref)
        return listed(LevelRows(moment, self._levels(moment, ref)), asked)

    @asked_anew
    def diff(
        self, tenant: str, name: str, left: Ref, right: Ref, *, prefix: str = "", after: str | None = None,
        limit: int = PAGE, as_at: At | None = None, ahead: NewerRows | None = None,
    ) -> DiffPage:  # fmt: skip
        """Some of the paths that two refs do not have alike, by path: what became of the left one's in the right one.

        Args:
            prefix: only paths that begin so.
            after: only paths behind this one.
            limit: most paths, 1 to 10,000.
        Raises:
            InputError: an argument cannot be. Others as `get`.
        """
        prefix, after = check_prefix("prefix", prefix), check_prefix("after", after)
        check_limit(limit)
        moment = self._moment(tenant, name, as_at, ahead, left, right)
        targets = [self._target(moment, ref) for ref in (left, right)]
        contents = Contents(moment, self._layers)
        between = contents.changed(targets[0].commit, targets[1].commit)
        if between is not None:
            areas = [one.area for one in targets if one.area is not None and one.area.events]
            between += [Level(OBJECTS, area.number) for area in areas]
        sides = [contents.levels(*one) for one in targets]
        differences = Differences(moment, sides[0], sides[1], self._kept, between)
        return differences.page(prefix=prefix, after=after, limit=limit)

    @asked_anew
    def tree(
        self, tenant: str, name: str, ref: Ref, *, as_at: At | None = None, ahead: NewerRows | None = None
    ) -> TreeInfo:
        """What the commit that a ref names contains, in sum.

        Raises:
            NotYetVisibleError: it is not known yet. Others as `log`.
        """
        moment = self._moment(tenant, name, as_at, ahead, ref)
        commit = Refs(moment, self._graphs, self._rows).commit(ref)
        made = made_of(moment, [commit]).get(commit)
        if made is None:
            raise Contents(moment, self._layers).not_made(commit)
        return _tree(commit, made, moment.bounds.final)

    @asked_anew
    def outlook(
        self, tenant: str, name: str, source: str, destination: str, *, resolving: str | None = None,
        ahead: NewerRows | None = None,
    ) -> Outlook:  # fmt: skip
        """What the merge of one commit into another one meets.

        Args:
            source, destination: ids of commits.
            resolving: a branch whose staged paths are laid over the result: they are in no conflict.
            ahead: as of `repository`.
        Raises:
            UnknownEntityError: there is no such commit, branch or repository.
            NotYetVisibleError: what one of the commits contains is not known yet. Others as `repository`.
        """
        moment = self._moment(tenant, name, None, ahead)
        refs = Refs(moment, self._graphs)
        resolved = None if resolving is None else refs.contents_of(resolving).area
        return Outlooks(moment, refs.graph, Contents(moment, self._layers)).of(source, destination, resolved)

    @asked_anew
    def garbage(
        self, tenant: str, name: str, before_ms: int, *, as_at: At | None = None, ahead: NewerRows | None = None
    ) -> GarbagePlan:
        """What of a repository no live branch needs; also of one that is deleted.

        Args:
            before_ms: blocks and transactions that nothing has named from this system time on are old.
            as_at, ahead: as of `repository`.
        Raises:
            UnknownEntityError: there has never been one of that name. Others as `repository`.
        """
        return GarbagePlan(self._moment(tenant, name, as_at, ahead), self._graphs, before_ms)

    def _levels(self, moment: Moment, ref: Ref) -> tuple[Level, ...]:
        target = self._target(moment, ref)
        return Contents(moment, self._layers).levels(target.commit, target.area)

    def _target(self, moment: Moment, ref: Ref) -> Target:
        if len(self._layers) > _MOST_KEPT:
            self._layers.clear()
        return Refs(moment, self._graphs, self._rows).target(ref)

    # What is seen

    def _refs(self, tenant: str, name: str, as_at: At | None, ahead: NewerRows | None, *refs: Ref) -> Refs:
        return Refs(self._moment(tenant, name, as_at, ahead, *refs), self._graphs, self._rows)

    def _moment(self, tenant: str, name: str, as_at: At | None, ahead: NewerRows | None, *refs: Ref) -> Moment:
        """What a question sees.

        Args:
            refs: those that it is about, and nothing else of the repository.
        Raises:
            NotYetVisibleError: the lake lacks more than `ahead` has.
        """
        moment = self._moment_of(tenant, name, as_at, ahead)
        if as_at is None:
            final = bool(refs) and all(ref.until_ms is not None and moment.has_passed(ref.until_ms) for ref in refs)
        else:
            until_ms = moment.bounds.until_ms.get(moment.partition)
            final = until_ms is None or moment.has_passed(until_ms)
        return replace(moment, bounds=replace(moment.bounds, final=final))

    def _moment_of(self, tenant: str, name: str, as_at: At | None, ahead: NewerRows | None) -> Moment:
        seen = self._seen(as_at)
        count = self._partitions if isinstance(self._partitions, int) else self._partitions[self._topic]
        partition = partition_of(record_key(tenant, str(repository_urn(name))), count)
        below = seen.bounds.below[partition]
        moment = Moment(seen.view, seen.bounds, tenant, name, partition)
        if ahead is None or as_at is not None or below >= ahead.end.value:
            return moment
        # A partition without a mark has nothing in the lake, as one has where nothing was ever written.
        if (below or position(epoch_of(ahead.begin), 0)) < ahead.begin:
            key = (self._topic, partition)
            raise NotYetVisibleError({key: ahead.begin - below}, f"The lake is behind {key[0]}/{key[1]}.")
        newer = newer_frames(ahead, below, self.TOPIC, partition)
        return Moment(seen.view, seen.bounds, tenant, name, partition, newer)

    def _seen(self, as_at: At | None, *, final_only: bool = False, names: Collection[str] | None = None) -> Seen:
        """As `Queries._seen`. Raises: UnavailableError: the lake's journal does not serve repositories."""
        seen = super()._seen(as_at, final_only=final_only, names=names)
        if not seen.view.tables.keys() >= self._OF_FOLD:
            raise UnavailableError(
                "This lake has no tables of repositories.",
                code="unserved-domain",
                hint="An earlier version created the journal: start its stream with this one (`metajournal up`).",
            )
        return seen


def _tree(commit: str, made: Made, final: bool) -> TreeInfo:
    conflicts = tuple(Conflict(*one) for one in orjson.loads(made.conflicting))
    return TreeInfo(
        commit, made.objects, made.size_bytes, made.added, made.changed, made.removed, made.conflicts, conflicts,
        made.root, made.content_id, final,
    )  # fmt: skip
