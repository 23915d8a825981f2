"""The rules of repositories: refs only, so that stream, follower and rebuild give one verdict at any size.

Read are the rows of `branches` of the repository and of each branch, and the row of `commits` of a commit that is
named; objects and the graph of commits are never read. What is older than the repository's own creation is of an
earlier repository of its name, and does not count. Branches of transactions (`_tx/…`) are rows of `branches` alone: no
entities, no members, no precondition.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...rules.admission import refusal, stale
from ...rules.entity import At, EntityRow, Reads, RowReader, excess
from ...rules.outcome import UNCHANGED, Accepted, Outcome, Rejected
from ...rules.plain import ended_row, entity_row, live, origin
from ...schemas.header import Header
from ...schemas.limits import MAX_ENTITY_BYTES
from ...schemas.urn import Urn
from .events import (
    RESOLVE,
    BranchCreated,
    BranchDeleted,
    BranchEvent,
    BranchReset,
    BranchReverted,
    Committed,
    Entry,
    Merged,
    ObjectsDeleted,
    ObjectsRegistered,
    ObjectsUnregistered,
    ObjectsWritten,
    PathsEvent,
    RepositoryCreated,
    RepositoryDeleted,
)
from .rows import (
    NOTHING_STAGED,
    BranchKey,
    BranchRow,
    CommitKey,
    CommitRow,
    ObjectRow,
    ResetRow,
    commit_id,
    content_of,
    staged_digest,
)
from .urns import branch_urn, commit_urn, is_transaction

MAX_MEMBERS: Final = 10_000
"""Most branches and registered objects of a repository: its deletion, which ends them all, is one event."""
_ENDING: Final = ("branch", "object")
_new: Final = tuple.__new__


class _Refs:
    """An event, and the refs that it is judged by."""

    def __init__(self, header: Header, event: Any, at: At, rows: RowReader) -> None:
        self.header, self.event, self.at, self.rows = header, event, at, rows
        self.repository: Urn = event.aggregate
        repo: BranchRow | None = rows.fact(BranchKey(self.repository))
        self.repo = None if repo is None or repo.deleted else repo
        self._entities: list[EntityRow] = []
        self._refs: list[BranchRow] = []

    # What stands.

    def branch(self, urn: Urn) -> BranchRow | None:
        """A branch's row, while it and its repository live."""
        row: BranchRow | None = self._of_this(self.rows.fact(BranchKey(urn)))
        return row

    def commit(self, urn: Urn) -> CommitRow | None:
        """The row of a commit that is named."""
        row: CommitRow | None = self._of_this(self.rows.fact(CommitKey(urn)))
        return row

    def _of_this(self, row: Any) -> Any:
        if row is None or row.deleted or self.repo is None or row.logical_timestamp < self.repo.created:
            return None
        return row

    def unknown(self, urn: Urn) -> Rejected | None:
        """That a branch, and so perhaps its repository, is not there."""
        if self.repo is None:
            return Rejected("unknown-entity", {"entity": str(self.repository)})
        return Rejected("unknown-entity", {"entity": str(urn)}) if self.branch(urn) is None else None

    # What an event makes.

    def ref(self, urn: Urn, **values: Any) -> None:
        """A row of a branch, or of the repository; what is not given stays as it was."""
        before = self.repo if urn == self.repository else self.branch(urn)
        kept = (None,) * len(_OWN) if before is None else tuple(getattr(before, name) for name in _OWN)
        deleted = values.pop("deleted", False)
        where = origin(self.header, self.at, seq=len(self._refs), deleted=deleted)
        self._refs.append(BranchRow._make((self.header.tenant, urn, *where, *kept))._replace(**values))

    def moved(self, urn: Urn, head: str | None) -> Rejected | None:
        """A branch is at a head, and nothing is staged on it; also its entity says so, if it is one."""
        self.ref(
            urn, head=head, staging=self.at.position, staging_digest=NOTHING_STAGED, staged_events=0, staged_rows=0
        )
        return None if is_transaction(urn) else self.entity(urn, {"head": head}, live(self.rows.entity(urn)))

    def counted(self, more: int) -> None:
        """The repository has so many members more."""
        if more and self.repo is not None:
            self.ref(self.repository, members=(self.repo.members or 0) + more)

    def entity(self, urn: Urn, record: Mapping[str, Any], before: EntityRow | None = None) -> Rejected | None:
        """An entity begins (before: None) or changes; refused where it would become too large."""
        row = entity_row(self.header, self.at, urn, before, record=record, seq=len(self._entities))
        self._entities.append(row)
        if before is None or (size_bytes := excess(row)) is None:
            return None
        detail = {"entity": str(urn), "size_bytes": size_bytes, "limit_bytes": MAX_ENTITY_BYTES}
        return Rejected("too-large", detail)

    def ended(self, row: EntityRow) -> None:
        """An entity ends."""
        self._entities.append(ended_row(self.header, self.at, row, seq=len(self._entities)))

    def committed(
        self, urn: Urn, parents: tuple[str, ...], held: BranchRow, strategy: str | None
    ) -> tuple[CommitRow, Rejected | None]:
        """A commit of what is staged on a branch, which becomes its head."""
        header, event, digest = self.header, self.event, held.staging_digest or NOTHING_STAGED
        made = commit_id(header.tenant, self.repository.name, parents, digest, self.at.digest)
        commit = commit_urn(self.repository.name, made)
        metadata = dict(sorted(event.metadata.items()))
        staging = held.staging if held.staged_events else None
        row = CommitRow._make((
            header.tenant, commit, *origin(header, self.at), urn, [*parents], staging, strategy, event.message,
            metadata, digest, self.at.digest.hex(),
        ))  # fmt: skip
        refused = self.moved(urn, made)
        record = {"branch": urn, "parents": list(parents), "message": event.message, "metadata": metadata}
        return row, refused or self.entity(commit, record)

    def outcome(self, *facts: Any) -> Outcome:
        """All of it."""
        return Accepted(tuple(self._entities), (*self._refs, *facts))


_OWN: Final = BranchRow._fields[BranchRow._fields.index("deleted") + 1 :]
_Decision = Callable[[_Refs, Any], Outcome]


def _rule(decide: _Decision) -> Callable[[Header, Any, At, RowReader], Outcome]:
    """The rule of an event: its form and its precondition come first."""

    def judged(header: Header, event: Any, at: At, rows: RowReader) -> Outcome:
        refused = refusal(header, event) or _refusal(header, event, rows)
        return decide(_Refs(header, event, at, rows), event) if refused is None else refused

    return judged


def _refusal(header: Header, event: Any, rows: RowReader) -> Rejected | None:
    if header.expected is None:
        return None
    first = event.entities[0]
    if first.kind == "branch" and is_transaction(first):
        message = "a transaction's branch is no entity, so nothing is known that it could be expected to be"
        return Rejected("invalid", [{"field": "header.expected", "message": message}])
    return stale(header, first, live(rows.entity(first)))


def _of_branch(decide: Callable[[_Refs, Any, BranchRow], Outcome]) -> Callable[[Header, Any, At, RowReader], Outcome]:
    """The rule of an event about one branch, which must be there."""

    def decided(refs: _Refs, event: Any) -> Outcome:
        held = refs.branch(event.branch)
        if held is None:
            return refs.unknown(event.branch) or UNCHANGED
        return decide(refs, event, held)

    return _rule(decided)


# Repositories and branches


def _repository_created(refs: _Refs, event: RepositoryCreated) -> Outcome:
    if refs.repo is not None:
        return _exists(refs.repository)
    record = {"default_branch": event.default_branch, "storage_namespace": event.storage_namespace}
    refs.entity(refs.repository, record)
    refs.ref(refs.repository, created=refs.at.position, members=1)
    refs.moved(event.branch, None)
    return refs.outcome()


def _repository_deleted(refs: _Refs, _: RepositoryDeleted) -> Outcome:
    if refs.repo is None:
        return Rejected("unknown-entity", {"entity": str(refs.repository)})
    members = [row for row in refs.rows.members(refs.repository, _ENDING) if not row.deleted]
    refs.ref(refs.repository, deleted=True, members=0)
    before = live(refs.rows.entity(refs.repository))
    for row in (*(() if before is None else (before,)), *sorted(members, key=lambda row: row.urn)):
        refs.ended(row)
    return refs.outcome()


def _branch_created(refs: _Refs, event: BranchCreated) -> Outcome:
    if refs.repo is None:
        return Rejected("unknown-entity", {"entity": str(refs.repository)})
    if event.commit is not None and refs.commit(event.commit) is None:
        return Rejected("unknown-entity", {"entity": str(event.commit)})
    if refs.branch(event.branch) is not None:
        return _exists(event.branch)
    if not is_transaction(event.branch):
        if too_many := _too_many(refs, 1):
            return too_many
        refs.counted(1)
    return refs.moved(event.branch, None if event.commit is None else event.commit.parts[1]) or refs.outcome()


def _branch_deleted(refs: _Refs, event: BranchDeleted, held: BranchRow) -> Outcome:
    repository = refs.rows.entity(refs.repository)
    default = None if repository is None or repository.record is None else repository.record["default_branch"]
    if event.branch.parts[1] == default:
        return Rejected("protected", {"branch": str(event.branch)})
    if stale_head := _stale_head(event.branch, event.expected_head, held):
        return stale_head
    refs.ref(event.branch, deleted=True, staged_events=0, staged_rows=0, staging_digest=NOTHING_STAGED)
    before = live(refs.rows.entity(event.branch))
    if before is not None:
        refs.ended(before)
        refs.counted(-1)
    return refs.outcome()


def _exists(urn: Urn) -> Rejected:
    return Rejected("exists", {"entity": str(urn)})


def _too_many(refs: _Refs, more: int) -> Rejected | None:
    """That a repository would have more members than a deletion can end."""
    members = 0 if refs.repo is None else refs.repo.members or 0
    if members + more <= MAX_MEMBERS:
        return None
    return Rejected("too-many", {"repository": str(refs.repository), "members": members, "limit": MAX_MEMBERS})


# What is staged


def _written(refs: _Refs, event: ObjectsWritten, held: BranchRow) -> Outcome:
    """(By place, and past the tuple's own constructor: this is the fold's hot loop.)"""
    header, at, repo, branch = refs.header, refs.at, refs.repository.name, event.branch
    aggregate, position, _, system_time, event_time, event_id, actor, _ = origin(header, at)
    tenant, staging = header.tenant, held.staging
    rows = []
    for seq, entry in enumerate(event.entries):
        path, size, checksum, address, _, content_type, metadata, mtime = entry
        rows.append(_new(ObjectRow, (
            tenant, repo, staging, path, aggregate, position, seq, system_time, event_time, event_id, actor, False,
            branch, size, checksum, address, _blocks(entry), content_type, metadata, mtime,
            content_of(checksum, size, content_type, metadata),
        )))  # fmt: skip
    return _staged(refs, held, len(rows)).outcome(*rows)


def _blocks(entry: Entry) -> list[list[Any]] | None:
    return [[*block] for block in entry.blocks] if entry.blocks else None


def _objects_deleted(refs: _Refs, event: ObjectsDeleted, held: BranchRow) -> Outcome:
    nothing = (None,) * 8
    rows = [
        ObjectRow._make((
            refs.header.tenant, refs.repository.name, held.staging, path,
            *origin(refs.header, refs.at, seq=seq, deleted=True), event.branch, *nothing,
        ))
        for seq, path in enumerate(event.paths)
    ]  # fmt: skip
    return _staged(refs, held, len(rows)).outcome(*rows)


def _staged(refs: _Refs, held: BranchRow, rows: int) -> _Refs:
    """One more event stands in a branch's staging area, with so many rows."""
    refs.ref(
        refs.event.branch,
        staging_digest=staged_digest(held.staging_digest or NOTHING_STAGED, refs.at.digest),
        staged_events=(held.staged_events or 0) + 1,
        staged_rows=(held.staged_rows or 0) + rows,
    )
    return refs


def _reset(refs: _Refs, event: BranchReset, held: BranchRow) -> Outcome:
    refused = _stale_head(event.branch, event.expected_head, held) or _stale_staging(event, event.branch, held)
    if refused is not None:
        return refused
    if not held.staged_events:
        return UNCHANGED
    path = event.prefix if event.path is None else event.path
    if path is None:
        refs.ref(event.branch, staging=refs.at.position, staging_digest=NOTHING_STAGED, staged_events=0, staged_rows=0)
        return refs.outcome()
    key = (refs.repository.name, held.staging, path, event.path is None)
    reset = ResetRow._make((refs.header.tenant, *key, *origin(refs.header, refs.at)))
    return _staged(refs, held, 0).outcome(reset)


# Commits


def _committed(refs: _Refs, event: Committed, held: BranchRow) -> Outcome:
    refused = _stale_head(event.branch, event.expected_head, held) or _stale_staging(event, event.branch, held)
    if refused is not None:
        return refused
    if not held.staged_events and not event.allow_empty:
        return Rejected("nothing-staged", {"branch": str(event.branch)})
    commit, refused = refs.committed(event.branch, () if held.head is None else (held.head,), held, None)
    return refused or refs.outcome(commit)


def _reverted(refs: _Refs, event: BranchReverted, held: BranchRow) -> Outcome:
    if refs.commit(event.commit) is None:
        return Rejected("unknown-entity", {"entity": str(event.commit)})
    refused = _stale_head(event.branch, event.expected_head, held) or _dirty(event.branch, held)
    if refused is not None:
        return refused
    head = event.commit.parts[1]
    if head == held.head:
        return UNCHANGED
    return refs.moved(event.branch, head) or refs.outcome()


def _merged(refs: _Refs, event: Merged) -> Outcome:
    destination, source = event.destination, event.source
    into, taken = refs.branch(destination), refs.branch(source)
    if into is None or taken is None:
        return refs.unknown(destination) or refs.unknown(source) or UNCHANGED
    refused = (
        _stale_head(destination, event.destination_head, into)
        or _stale_head(source, event.source_head, taken)
        or _stale_staging(event, destination, into)
        or (None if event.staged == RESOLVE else _dirty(destination, into))
        or _dirty(source, taken)
    )
    if refused is not None:
        return refused
    if taken.head is None or taken.head == into.head:
        return Rejected("nothing-to-merge", {"source": str(source), "destination": str(destination)})
    parents = (taken.head,) if into.head is None else (into.head, taken.head)
    commit, refused = refs.committed(destination, parents, into, event.strategy)
    return refused or refs.outcome(commit)


def _stale_head(branch: Urn, expected: str | None, held: BranchRow) -> Rejected | None:
    """That a branch is at another commit than an event says; the empty text stands for none."""
    found = held.head or ""
    if expected is None or expected == found:
        return None
    return Rejected("stale-head", {"branch": str(branch), "expected": expected, "found": found})


def _stale_staging(event: Any, branch: Urn, held: BranchRow) -> Rejected | None:
    """That something else is staged on a branch than an event says."""
    expected, found = event.staging_digest, held.staging_digest
    if expected is None or expected == found:
        return None
    return Rejected("stale-staging", {"branch": str(branch), "expected": expected, "found": found})


def _dirty(branch: Urn, held: BranchRow) -> Rejected | None:
    """That something is staged on a branch."""
    if not held.staged_events:
        return None
    detail = {"branch": str(branch), "staged_events": held.staged_events, "staged_rows": held.staged_rows}
    return Rejected("dirty", detail)


# Registered objects


def _registered(refs: _Refs, event: ObjectsRegistered) -> Outcome:
    if refs.repo is None:
        return Rejected("unknown-entity", {"entity": str(refs.repository)})
    named = zip(event.entities[1:], event.paths, strict=True)
    new = [(urn, path) for urn, path in named if live(refs.rows.entity(urn)) is None]
    if not new:
        return UNCHANGED
    if too_many := _too_many(refs, len(new)):
        return too_many
    for urn, path in new:
        refs.entity(urn, {"path": path})
    refs.counted(len(new))
    return refs.outcome()


def _unregistered(refs: _Refs, event: ObjectsUnregistered) -> Outcome:
    if refs.repo is None:
        return Rejected("unknown-entity", {"entity": str(refs.repository)})
    ending = [row for urn in event.entities[1:] if (row := live(refs.rows.entity(urn))) is not None]
    for row in ending:
        refs.ended(row)
    refs.counted(-len(ending))
    return refs.outcome() if ending else UNCHANGED


RULES: Final = {
    RepositoryCreated.TYPE: _rule(_repository_created),
    RepositoryDeleted.TYPE: _rule(_repository_deleted),
    BranchCreated.TYPE: _rule(_branch_created),
    BranchDeleted.TYPE: _of_branch(_branch_deleted),
    ObjectsWritten.TYPE: _of_branch(_written),
    ObjectsDeleted.TYPE: _of_branch(_objects_deleted),
    Committed.TYPE: _of_branch(_committed),
    Merged.TYPE: _rule(_merged),
    BranchReset.TYPE: _of_branch(_reset),
    BranchReverted.TYPE: _of_branch(_reverted),
    ObjectsRegistered.TYPE: _rule(_registered),
    ObjectsUnregistered.TYPE: _rule(_unregistered),
}
"""What judges the events of each type."""


def _reads_of_branch(_: Header, event: BranchEvent) -> Reads:
    return Reads((BranchKey(event.branch), BranchKey(event.aggregate)))


def _reads_of_commit(_: Header, event: BranchCreated | BranchReverted) -> Reads:
    named = () if event.commit is None else (CommitKey(event.commit),)
    return Reads((BranchKey(event.branch), BranchKey(event.aggregate), *named))


def _reads_of_merge(_: Header, event: Merged) -> Reads:
    return Reads((BranchKey(event.destination), BranchKey(event.source), BranchKey(event.aggregate)))


def _reads_of_created(_: Header, event: RepositoryCreated) -> Reads:
    return Reads((BranchKey(event.repository), BranchKey(branch_urn(event.repository.name, event.default_branch))))


def _reads_of_deleted(_: Header, event: RepositoryDeleted) -> Reads:
    return Reads((BranchKey(event.repository),), _ENDING)


def _reads_of_paths(_: Header, event: PathsEvent) -> Reads:
    return Reads((BranchKey(event.repository),))


READS: Final[Mapping[str, Callable[[Header, Any], Reads]]] = {
    RepositoryCreated.TYPE: _reads_of_created,
    RepositoryDeleted.TYPE: _reads_of_deleted,
    BranchCreated.TYPE: _reads_of_commit,
    BranchDeleted.TYPE: _reads_of_branch,
    ObjectsWritten.TYPE: _reads_of_branch,
    ObjectsDeleted.TYPE: _reads_of_branch,
    Committed.TYPE: _reads_of_branch,
    Merged.TYPE: _reads_of_merge,
    BranchReset.TYPE: _reads_of_branch,
    BranchReverted.TYPE: _reads_of_commit,
    ObjectsRegistered.TYPE: _reads_of_paths,
    ObjectsUnregistered.TYPE: _reads_of_paths,
}
"""What events of a type may ask for besides their entities."""
