"""What the lake tells of repositories: which there are, their branches, the log of a ref.

Every answer is that of one cut. A branch or a commit counts only if it is not older than its repository: what is older
is of an earlier repository of that name. Source: docs/concepts.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from ...lake.cuts import At
from ...lake.queries import Queries, Seen
from ...lake.selecting import select_rows
from ...lake.table import quoted
from ...lake.views.views import asked_anew
from ...schemas.errors import InputError, UnavailableError, UnknownEntityError
from ...schemas.urn import Urn
from .questions import PAGE, Ref, check_limit
from .urns import TRANSACTION, branch_urn, commit_urn, repository_urn

_AGE: Final = "row_number() over (partition by urn order by logical_timestamp desc, seq desc)"


class RepositoryInfo(NamedTuple):
    """A repository.

    Attributes:
        urn: its URN.
        name: its name.
        default_branch: name of the branch that it began with.
        storage_namespace: where the objects' bytes lie.
        created: position of its creation.
        members: branches and registered objects, transactions not counted.
    """

    urn: str
    name: str
    default_branch: str
    storage_namespace: str
    created: int
    members: int


class BranchInfo(NamedTuple):
    """A branch.

    Attributes:
        urn: its URN.
        name: its name.
        head: id of the commit that it is at; None: it has none.
        staged_events, staged_rows: what is staged on it; it is dirty while there are any events.
        staging_digest: of that.
        logical_timestamp: of the last event that touched it.
    """

    urn: str
    name: str
    head: str | None
    staged_events: int
    staged_rows: int
    staging_digest: str
    logical_timestamp: int


class CommitInfo(NamedTuple):
    """A commit.

    Attributes:
        urn: its URN.
        id: 64 hexadecimal digits.
        branch: name of the branch that it was made on.
        parents: ids; of a merge the destination's first.
        strategy: of a merge; None of any other commit.
        message, metadata: as they were given.
        actor: who made it.
        event_time: when, in milliseconds UTC, as its emitter says.
        logical_timestamp: of its event.
    """

    urn: str
    id: str
    branch: str
    parents: tuple[str, ...]
    strategy: str | None
    message: str
    metadata: Mapping[str, str]
    actor: str | None
    event_time: int
    logical_timestamp: int


class LogPage(NamedTuple):
    """Commits, the newest first.

    Attributes:
        items: the commits.
        before: asks for the next page; None after the last one.
    """

    items: tuple[CommitInfo, ...]
    before: int | None


class RepositoryQueries(Queries):
    """Reads repositories from the lake; its arguments are those of `Queries`."""

    TOPIC = "repositories"
    TABLES = ("entities", "branches", "commits")

    @asked_anew
    def repositories(self, tenant: str, *, as_at: At | None = None) -> list[RepositoryInfo]:
        """Every repository, by name.

        Args:
            as_at: as the journal recorded it then (see `cuts.At`); None: now.
        Raises:
            NotFinalError: the lake has not reached that point.
            UnavailableError: there is no lake, or no repository has joined it.
        """
        return self._repositories(tenant, self._seen(as_at))

    def _seen(self, as_at: At | None, *, final_only: bool = False, names: Collection[str] | None = None) -> Seen:
        """As `Queries._seen`. Raises: UnavailableError: the lake's journal does not serve repositories."""
        seen = super()._seen(as_at, final_only=final_only, names=names)
        if not seen.view.tables.keys() >= {*self.TABLES}:
            raise UnavailableError(
                "This lake has no tables of repositories.",
                code="unserved-domain",
                hint="An earlier version created the journal: start its stream with this one (`metajournal up`).",
            )
        return seen

    def _repositories(self, tenant: str, seen: Seen, urn: str | None = None) -> list[RepositoryInfo]:
        """Every repository, or the one of a URN; what stands in `branches` tells which rows of `entities` to read."""
        refs = {
            found: (created, members)
            for found, _, _, _, _, created, members, _ in self._newest(tenant, seen, "starts_with(urn, 'repo:')", urn)
        }
        if not refs:
            return []
        statement = f"""select urn, name, record from (
                select urn, name, record, {_AGE} as age from rows where {seen.bounds.sql()})
            where age = 1 order by urn"""
        rows = select_rows(seen.view, "entities", {"tenant": tenant, "urn": [*refs]}, statement)
        made = []
        for urn, name, text in rows:
            record = orjson.loads(text)
            made.append(RepositoryInfo(urn, name, record["default_branch"], record["storage_namespace"], *refs[urn]))
        return made

    @asked_anew
    def repository(self, tenant: str, name: str, *, as_at: At | None = None) -> RepositoryInfo:
        """One repository. Raises: UnknownEntityError: there is none of that name. Others as `repositories`."""
        return self._repository(tenant, name, self._seen(as_at))

    def _repository(self, tenant: str, name: str, seen: Seen) -> RepositoryInfo:
        urn = repository_urn(name)
        for found in self._repositories(tenant, seen, urn):
            return found
        raise UnknownEntityError(str(urn), hint="`repo list` lists the repositories.")

    @asked_anew
    def branches(
        self, tenant: str, name: str, *, transactions: bool = False, as_at: At | None = None
    ) -> list[BranchInfo]:
        """The branches of a repository, by name.

        Args:
            transactions: also those of transactions.
        Raises:
            UnknownEntityError: there is no such repository. Others as `repositories`.
        """
        seen = self._seen(as_at)
        repository = self._repository(tenant, name, seen)
        which = f"aggregate = {quoted(repository.urn)} and starts_with(urn, 'branch:')"
        rows = []
        for urn, head, events, paths, digest, _, _, place in self._newest(tenant, seen, which):
            if place >= repository.created:
                rows.append(BranchInfo(urn, _last(urn), head, events, paths, digest, place))
        kept = [row for row in rows if transactions or not row.name.startswith(TRANSACTION)]
        return sorted(kept, key=lambda row: row.name)

    @asked_anew
    def branch(self, tenant: str, name: str, branch: str, *, as_at: At | None = None) -> BranchInfo:
        """One branch. Raises: UnknownEntityError: it, or its repository, does not exist. Others as `repositories`."""
        seen = self._seen(as_at)
        found = self._branch(tenant, self._repository(tenant, name, seen), branch, seen)
        if found is None:
            raise UnknownEntityError(str(branch_urn(name, branch)), hint=f"`repo branches {name}` lists its branches.")
        return found

    def _branch(self, tenant: str, repository: RepositoryInfo, branch: str, seen: Seen) -> BranchInfo | None:
        named = branch_urn(repository.name, branch)
        for urn, head, events, paths, digest, _, _, place in self._newest(tenant, seen, "true", named):
            if place >= repository.created:
                return BranchInfo(urn, branch, head, events, paths, digest, place)
        return None

    def _newest(self, tenant: str, seen: Seen, which: str, urn: str | None = None) -> list[Any]:
        """What stands of some rows of `branches`, or of those of one URN."""
        key = {"tenant": tenant} if urn is None else {"tenant": tenant, "urn": urn}
        statement = f"""
            select urn, head, staged_events, staged_rows, staging_digest, created, members, logical_timestamp from (
                select *, {_AGE} as age from rows where {seen.bounds.sql()} and {which})
            where age = 1 and not deleted"""
        return select_rows(seen.view, "branches", key, statement)

    @asked_anew
    def log(
        self, tenant: str, name: str, ref: Ref, *, limit: int = PAGE, before: int | None = None,
        as_at: At | None = None,
    ) -> LogPage:  # fmt: skip
        """The commits that a ref has in its history, itself included: the newest first.

        Args:
            limit: most commits, 1 to 10,000.
            before: of the page before.
        Raises:
            UnknownEntityError: the repository or the ref does not exist.
            InputError: the ref is ambiguous, or `limit` cannot be. Others as `repositories`.
        """
        check_limit(limit)
        seen = self._seen(as_at)
        repository = self._repository(tenant, name, seen)
        graph = self._graph(tenant, repository, seen)
        head = self._resolved(tenant, repository, ref, seen, graph)
        found: list[str] = []
        for commit in _history(graph, head):
            if before is None or graph[commit][0] < before:
                found.append(commit)
                if len(found) > limit:
                    break
        items = self._commits(tenant, name, found[:limit], seen)
        return LogPage(items, items[-1].logical_timestamp if len(found) > limit else None)

    @asked_anew
    def commit(self, tenant: str, name: str, ref: Ref, *, as_at: At | None = None) -> CommitInfo:
        """The commit that a ref names. Raises: as `log`."""
        seen = self._seen(as_at)
        repository = self._repository(tenant, name, seen)
        graph = self._graph(tenant, repository, seen)
        (found,) = self._commits(tenant, name, [self._resolved(tenant, repository, ref, seen, graph)], seen)
        return found

    @asked_anew
    def committed_at(self, tenant: str, name: str, position: int) -> CommitInfo:
        """The commit that the event at a position made. The lake holds it, as the caller knows."""
        seen = self._seen(None)
        of = f"aggregate = {quoted(repository_urn(name))} and logical_timestamp = {int(position)}"
        rows = select_rows(seen.view, "commits", {"tenant": tenant}, f"select commit from rows where {of}")
        (found,) = self._commits(tenant, name, [_last(urn) for (urn,) in rows], seen)
        return found

    def _graph(self, tenant: str, repository: RepositoryInfo, seen: Seen) -> dict[str, tuple[int, list[str]]]:
        """Position and parents of each commit of a repository, by id."""
        statement = f"""select commit, max(logical_timestamp), any_value(parents) from rows
            where {seen.bounds.sql()} and aggregate = {quoted(repository.urn)}
            and logical_timestamp >= {repository.created} group by commit"""
        rows = select_rows(seen.view, "commits", {"tenant": tenant}, statement)
        return {_last(urn): (place, parents) for urn, place, parents in rows}

    def _resolved(
        self, tenant: str, repository: RepositoryInfo, ref: Ref, seen: Seen, graph: Mapping[str, tuple[int, list[str]]]
    ) -> str:
        """The id that a ref names: a whole id, then a branch, then the beginning of an id."""
        commit = ref.named
        if commit not in graph:
            name = repository.name
            branch = self._branch(tenant, repository, ref.named, seen)
            if branch is not None and branch.head is None:
                raise InputError(
                    f"The branch {ref.named} of {name} has no commit yet.",
                    code="no-commit",
                    hint=f"Write to it, then: metajournal repo commit {name} {ref.named} --message TEXT",
                )
            commit = (None if branch is None else branch.head) or self._begun_so(name, ref, graph)
        for of_merge, number in ref.steps:
            for _ in range(1 if of_merge else number):
                parents = graph[commit][1] if commit in graph else []
                place = number - 1 if of_merge else 0
                if of_merge and number == 0:
                    continue
                if place >= len(parents):
                    raise UnknownEntityError(ref.text, hint=f"The commit {commit} has {len(parents)} parents.")
                commit = parents[place]
        return commit

    def _begun_so(self, name: str, ref: Ref, graph: Mapping[str, Any]) -> str:
        """The only commit whose id begins so."""
        found = sorted(commit for commit in graph if commit.startswith(ref.named)) if ref.may_be_id else []
        if len(found) == 1:
            return found[0]
        if not found:
            raise UnknownEntityError(
                ref.named, hint=f"{name} has no branch and no commit of that name; `repo branches {name}` lists them."
            )
        shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise InputError(
            f"{ref.named} is the beginning of {len(found):,} commits.", code="ambiguous-ref", hint=f"They are {shown}"
        )

    def _commits(self, tenant: str, name: str, ids: list[str], seen: Seen) -> tuple[CommitInfo, ...]:
        """Commits by their ids, in that order."""
        if not ids:
            return ()
        urns = [str(commit_urn(name, commit)) for commit in ids]
        statement = f"""
            select commit, branch, parents, strategy, message, metadata, actor, epoch_ms(event_time), logical_timestamp
            from (select *, row_number() over (partition by commit order by logical_timestamp desc) as age
                from rows where {seen.bounds.sql()}) where age = 1"""
        rows = select_rows(seen.view, "commits", {"tenant": tenant, "commit": urns}, statement)
        found = {
            urn: CommitInfo(
                urn, _last(urn), _last(branch), tuple(parents), strategy, message, orjson.loads(metadata), actor,
                time_ms, place,
            )
            for urn, branch, parents, strategy, message, metadata, actor, time_ms, place in rows
        }  # fmt: skip
        return tuple(found[urn] for urn in urns)


def _last(urn: str) -> str:
    """The last part of a URN, decoded."""
    return Urn.parse(urn).parts[-1]


def _history(graph: Mapping[str, tuple[int, list[str]]], head: str) -> Iterator[str]:
    """A commit and all that it descends from, the newest first."""
    waiting, seen = [(-graph[head][0], head)], {head}
    while waiting:
        _, commit = heapq.heappop(waiting)
        yield commit
        for parent in graph[commit][1]:
            if parent not in seen and parent in graph:
                seen.add(parent)
                heapq.heappush(waiting, (-graph[parent][0], parent))
