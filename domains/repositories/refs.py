"""Repositories, branches and commits as a question sees them, and what a ref names among them.

A branch or a commit counts only if it is not older than its repository: what is older is of an earlier repository of
that name. Source: docs/concepts.md.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson
import polars as pl

from ...lake.cuts import to_come
from ...schemas.errors import InputError, NotYetVisibleError, UnknownEntityError
from ...schemas.positions import Position
from ...schemas.urn import Urn
from .answers import BranchInfo, CommitInfo, RepositoryInfo
from .contents import Area
from .graph import Graph, Graphs
from .moment import Moment, newest_by
from .questions import Ref
from .urns import branch_urn, commit_urn, repository_urn


class Target(NamedTuple):
    """What a ref names.

    Attributes:
        commit: id; None: a branch without commit.
        area: what is staged there, where the ref is a branch.
    """

    commit: str | None
    area: Area | None


MOST_KEPT: Final = 100_000
MOST_SHOWN: Final = 100
"""Commits that the error of an ambiguous ref has; it tells how many there are."""


class KeptRows:
    """The newest rows of branches and repositories that were read: of the lake only later ones are read again.

    Threads share them: each row is kept with the position that it was read to, so an older one is only read on.

    Args:
        most: rows that are kept.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._held: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}

    def rows(self, moment: Moment, urns: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The newest row of each URN, an empty one where there is none."""
        held = {urn: self._held.get((moment.tenant, urn), (0, {})) for urn in urns}
        since = min(below for below, _ in held.values())
        is_past = moment.until_us is not None or any(below > moment.below for below, _ in held.values())
        if is_past:
            held, since = dict.fromkeys(urns, (0, {})), 0
        found = moment.lake_rows("branches", {"urn": urns}, newest="urn", since=since)
        rows = {urn: row for urn, (_, row) in held.items()} | {row["urn"]: row for row in found.iter_rows(named=True)}
        if not is_past:
            if len(self._held) > self._most:
                self._held.clear()
            self._held |= {(moment.tenant, urn): (moment.below, row) for urn, row in rows.items()}
        newer = moment.newer.get("branches")
        if newer is not None:
            later = newest_by(newer.filter(pl.col("urn").is_in(list(urns))), "urn")
            rows |= {row["urn"]: row for row in later.iter_rows(named=True)}
        return rows


class Refs:
    """The refs of one repository.

    Args:
        moment: what is seen.
        graphs: the graphs that were read before.
        kept: rows of branches that were read before; None: none.
    """

    def __init__(self, moment: Moment, graphs: Graphs, kept: KeptRows | None = None) -> None:
        self._moment = moment
        self._graphs = graphs
        self._kept = kept or KeptRows()
        self._graph: Graph | None = None
        self._rows: dict[str, dict[str, Any]] = {}

    @property
    def graph(self) -> Graph:
        """The repository's commits; read when they are first asked for."""
        if self._graph is None:
            self._graph = self._graphs.of(self._moment)
        return self._graph

    @property
    def created(self) -> int:
        """The position at which the repository was created. Raises: UnknownEntityError: it does not exist."""
        urn = repository_urn(self._moment.repo)
        row = self._row(urn)
        if row is None:
            raise self._moment.unknown(str(urn), hint="`metajournal repo list` lists the repositories.")
        return int(row["created"])

    def info(self, newer: Mapping[str, Any] | None = None) -> RepositoryInfo:
        """The repository.

        Args:
            newer: its record, where the lake does not have it yet.
        Raises:
            UnknownEntityError: it does not exist.
            NotYetVisibleError: the lake does not have its record yet, and nobody gives it.
        """
        created, urn = self.created, str(repository_urn(self._moment.repo))
        rows = newest_by(self._moment.rows("entities", {"urn": [urn]}, newest="urn"), "urn")
        is_held = rows.height and rows["logical_timestamp"][0] >= created
        record = orjson.loads(rows["record"][0]) if is_held else newer
        if record is None:
            key = (self._moment.bounds.topic, self._moment.partition)
            raise NotYetVisibleError({key: created + 1 - self._moment.below}, f"The lake is behind {key[0]}/{key[1]}.")
        members = self._rows[urn]["members"]
        name = self._moment.repo
        return RepositoryInfo(
            urn, name, record["default_branch"], record["storage_namespace"], created, members, self.final
        )

    def load(self, *branches: str) -> None:
        """Read the rows of the repository and of some branches at once."""
        urns = [repository_urn(self._moment.repo), *(branch_urn(self._moment.repo, name) for name in branches)]
        wanted = [str(urn) for urn in urns if str(urn) not in self._rows]
        if wanted:
            self._rows |= self._kept.rows(self._moment, wanted)

    def _row(self, urn: Urn) -> dict[str, Any] | None:
        """What stands of a branch or a repository; None where it is deleted, or never was."""
        if str(urn) not in self._rows:
            self.load(*(() if urn.kind == "repo" else (urn.parts[1],)))
        row = self._rows[str(urn)]
        return row if row and not row["deleted"] else None

    def branch(self, name: str) -> BranchInfo | None:
        """A branch, or None. Raises: UnknownEntityError: there is no such repository."""
        self.load(name)
        created = self.created
        row = self._row(branch_urn(self._moment.repo, name))
        return None if row is None or row["logical_timestamp"] < created else _branch(row, self.final)

    def existing_branch(self, name: str) -> BranchInfo:
        """A branch. Raises: UnknownEntityError: there is no such branch, or repository."""
        found = self.branch(name)
        if found is None:
            hint = f"`metajournal repo branches {self._moment.repo}` lists its branches."
            raise self._moment.unknown(str(branch_urn(self._moment.repo, name)), hint=hint)
        return found

    def branches(self) -> list[BranchInfo]:
        """All branches, also those of transactions, by name. Raises: as `branch`."""
        created = self.created
        rows = newest_by(self._moment.rows("branches", {}, "starts_with(urn, 'branch:')", newest="urn"), "urn")
        there = rows.filter(pl.col("urn").str.starts_with("branch:") & ~pl.col("deleted"))
        since = there.filter(pl.col("logical_timestamp") >= created)
        return sorted((_branch(row, self.final) for row in since.iter_rows(named=True)), key=lambda one: one.name)

    @property
    def final(self) -> bool:
        """Whether no event that arrives later can change what is asked."""
        return self._moment.bounds.final

    # What a ref names

    def target(self, ref: Ref) -> Target:
        """What a ref names: a whole id, then a branch, then the beginning of an id.

        Raises:
            UnknownEntityError: the repository or the ref does not exist.
            InputError: the ref is ambiguous; or it goes on from a branch without commit.
        """
        if ref.until_ms is not None:
            return Target(self._walked(self._then(ref), ref), None)
        if ref.is_id and not ref.committed and self._has_commit(ref.named):
            return Target(self._walked(ref.named, ref), None)
        branch = self.branch(ref.named)
        if branch is None:
            return Target(self._walked(self._begun_so(ref), ref), None)
        if branch.head is None and ref.steps:
            raise self.no_commit(ref.named)
        if not ref.steps and not ref.committed:
            return self.contents_of(ref.named)
        return Target(None if branch.head is None else self._walked(branch.head, ref), None)

    def contents_of(self, branch: str) -> Target:
        """What a branch has, with what is staged on it. Raises: UnknownEntityError: as `existing_branch`."""
        head = self.existing_branch(branch).head
        row = self._row(branch_urn(self._moment.repo, branch))
        assert row is not None  # the branch is there
        return Target(head, Area(row["staging"], row["staged_events"]))

    def commit(self, ref: Ref) -> str:
        """The id of the commit that a ref names. Raises: as `target`; InputError: a branch without commit."""
        commit = self.target(ref).commit
        if commit is None:
            raise self.no_commit(ref.named)
        return commit

    def no_commit(self, branch: str) -> InputError:
        """The error of a branch without commit."""
        name = self._moment.repo
        error = InputError(
            f"The branch {branch} of {name} has no commit yet.", code="no-commit",
            hint=f"Write to it, then: metajournal repo commit {name} {branch} --message TEXT", final=self.final,
        )  # fmt: skip
        error.advise(self._moment.advice(error.hint))
        return error

    def _has_commit(self, commit: str) -> bool:
        rows = self._moment.rows("commits", {"commit": [str(commit_urn(self._moment.repo, commit))]})
        created = self.created
        return bool((rows["logical_timestamp"] >= created).any())

    def _then(self, ref: Ref) -> str:
        """The commit that a branch was at at a time."""
        moment, until_ms = self._moment, ref.until_ms
        assert until_ms is not None  # who asks knows
        if until_ms > time.time() * 1_000:
            raise to_come(until_ms, Position(moment.bounds.topic, moment.partition, moment.below))
        least = min(until_ms, moment.bounds.until_ms.get(moment.partition, until_ms))
        bounds = replace(moment.bounds, until_ms={**moment.bounds.until_ms, moment.partition: least})
        newer = {
            name: rows.filter(pl.col("system_time").dt.epoch("us") <= until_ms * 1_000)
            for name, rows in moment.newer.items()
        }
        then = Refs(replace(moment, bounds=bounds, newer=newer), self._graphs, self._kept)
        created = self.created
        row = then._row(branch_urn(moment.repo, ref.named))
        if row is None or row["logical_timestamp"] < created:
            hint = f"There was no branch {ref.named} in {moment.repo} at that time."
            raise moment.unknown(ref.text, hint=hint, of_time=True)
        if row["head"] is None:
            error = InputError(
                f"The branch {ref.named} of {moment.repo} had no commit at that time.", code="no-commit",
                hint=f"`metajournal repo log {moment.repo} {ref.named}` lists its commits.", final=self.final,
            )  # fmt: skip
            error.advise(moment.advice(error.hint, of_time=True))
            raise error
        return str(row["head"])

    def _walked(self, commit: str, ref: Ref) -> str:
        """The commit that the steps of a ref lead to."""
        if not ref.steps:
            return commit
        number = self.graph.number_of(commit)
        assert number is not None  # it is there
        for of_merge, count in ref.steps:
            for _ in range(1 if of_merge else count):
                if of_merge and count == 0:
                    continue
                parents = self.graph.parents_of(number)
                place = count - 1 if of_merge else 0
                if place >= len(parents):
                    commit = self.graph.id_of(number)
                    raise self._beyond(ref, commit, len(parents))
                number = parents[place]
        return self.graph.id_of(number)

    def _beyond(self, ref: Ref, commit: str, parents: int) -> UnknownEntityError:
        """The error of steps that lead beyond a commit."""
        has = {0: "no parent", 1: "one parent"}.get(parents, f"{parents} parents")
        name = self._moment.repo
        return self._moment.unknown(
            ref.text, f"{name} has no commit {ref.text}: {commit[:12]} has {has}.",
            hint=f"`metajournal repo log {name} {ref.named}` lists the commits that lead there.",
        )  # fmt: skip

    def _begun_so(self, ref: Ref) -> str:
        """The only commit whose id begins so."""
        name, created = self._moment.repo, self.created
        numbers = self.graph.numbers(ref.named.lower(), since=created) if ref.may_be_id else []
        found = sorted({self.graph.id_of(number) for number in numbers})
        if len(found) == 1:
            return found[0]
        if not found:
            raise self._moment.unknown(
                ref.named, f"{name} has no branch and no commit {ref.named}.",
                hint=f"`metajournal repo branches {name}` lists its branches, `metajournal repo log {name} BRANCH` the "
                "commits of one.",
            )  # fmt: skip
        shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise InputError(
            f"{ref.named} is the beginning of {len(found):,} commits.", code="ambiguous-ref", hint=f"They are {shown}",
            number=len(found), commits=tuple(found[:MOST_SHOWN]),
        )  # fmt: skip

    def commits(self, ids: Sequence[str]) -> tuple[CommitInfo, ...]:
        """Commits by their ids, in that order; each is there."""
        if not ids:
            return ()
        urns = [str(commit_urn(self._moment.repo, one)) for one in ids]
        rows = newest_by(self._moment.rows("commits", {"commit": urns}), "commit")
        timed = rows.with_columns(pl.col("event_time").dt.epoch("ms"))
        found = {row["commit"]: _commit(row, self.final) for row in timed.iter_rows(named=True)}
        return tuple(found[urn] for urn in urns)


def _branch(row: dict[str, Any], final: bool) -> BranchInfo:
    return BranchInfo(
        row["urn"], _last(row["urn"]), row["head"], row["staged_events"], row["staged_rows"], row["staging_digest"],
        row["logical_timestamp"], final,
    )  # fmt: skip


def _commit(row: dict[str, Any], final: bool) -> CommitInfo:
    metadata = orjson.loads(row["metadata"])
    return CommitInfo(
        row["commit"], _last(row["commit"]), _last(row["branch"]), tuple(row["parents"]), row["strategy"],
        row["message"], metadata, row["actor"], row["event_time"], row["logical_timestamp"], final,
    )  # fmt: skip


def _last(urn: str) -> str:
    """The last part of a URN, decoded."""
    return Urn.parse(urn).parts[-1]
