"""From steps and contents to events, with the ids that the fold will give their commits.

An id follows from the digests of the records sent, so nothing is asked: each commit says at which head and over which
staged events it is made, and one that something came in between of is refused instead of being another one. Branches
that begin and merges wait for their verdict; other commits are asked about later (`unconfirmed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ....schemas.errors import RejectedError
from ....schemas.urn import Urn
from ..events import (
    REFUSE,
    RESOLVE,
    BranchCreated,
    BranchDeleted,
    BranchReset,
    BranchReverted,
    Committed,
    Merged,
    ObjectsDeleted,
    ObjectsWritten,
)
from ..rows import NOTHING_STAGED, commit_id, staged_digest
from ..urns import branch_urn, commit_urn
from .known import KnownCommits, PresentBranch
from .objects import Leaf, Node, PathChange
from .plan import BranchGone, BranchMade, BranchMoved, CommitMade, MergeMade, Step
from .reading import History
from .resolving import Differing, resolved
from .telling import entry_of, git_path_fault, message_of, metadata_of, pieces, time_of
from .unconfirmed import Sent, Sink, Unconfirmed

_AT_ONCE: Final = 1000
"""Changed paths of a commit that are in memory at once."""


@dataclass(slots=True)
class Counts:
    """What was sent.

    Attributes:
        commits: merges among them.
        resolved: merges whose result git made otherwise, and `resolved_paths` in how many paths.
        written, deleted: paths.
    """

    events: int = 0
    commits: int = 0
    merges: int = 0
    resolved: int = 0
    resolved_paths: int = 0
    written: int = 0
    deleted: int = 0
    branches_made: int = 0
    resets: int = 0


class Withdrawn(NamedTuple):
    """What became of what an import had staged when it was refused.

    Attributes:
        dropped: branches on which it was dropped.
        left: branches on which something else is staged among it, so all of it is left.
    """

    dropped: Sequence[str]
    left: Sequence[str]


class Importer:
    """Sends the steps of a plan.

    Args:
        history: what they speak of.
        repository: name of the repository.
        known: the commits that it has; those that are made are added.
        branches: its branches.
        sink: where events go.

    Attributes:
        counts: what was sent.
        known: the commits that the repository has.
    """

    def __init__(
        self,
        history: History,
        repository: str,
        known: KnownCommits,
        branches: Mapping[str, PresentBranch],
        sink: Sink,
    ) -> None:
        self.counts = Counts()
        self._history = history
        self._repository = repository
        self.known = known
        self._sink = sink
        self._unconfirmed = Unconfirmed(sink.confirm)
        self._heads = {name: branch.head or "" for name, branch in branches.items()}
        """Our ids; empty where a branch has no commit."""

    @property
    def heads(self) -> Mapping[str, str]:
        """The commit of each branch, by our id, after the steps so far; empty where it has none."""
        return self._heads

    def reset(self, branch: str, staging_digest: str) -> None:
        """Drop what an import that was killed left staged on a branch."""
        self._send(BranchReset(self._urn(branch), staging_digest=staging_digest, expected_head=self._heads[branch]))
        self.counts.resets += 1

    def take(self, step: Step) -> None:
        """Send a step. Raises: RejectedError: something else changed the repository meanwhile."""
        try:
            self._take(step)
        except RejectedError:
            self.confirm()  # where an earlier commit was refused, that is why
            raise

    def _take(self, step: Step) -> None:
        match step:
            case BranchMade():
                self._begin(step.branch, step.at)
            case BranchMoved():
                self._move(step.branch, step.at)
            case BranchGone():
                self._send(BranchDeleted(self._urn(step.branch), self._heads.pop(step.branch)))
            case CommitMade():
                self._commit(step.branch, step.commit)
            case MergeMade():
                self._merge(step)

    def confirm(self) -> None:
        """Wait for the verdicts on all commits. Raises: RejectedError: as `take`."""
        self._unconfirmed.confirm()

    def withdraw(self, branches: Mapping[str, PresentBranch]) -> Withdrawn:
        """Drop what is left staged after a refusal; nothing that something else has staged.

        Args:
            branches: as they are now, with all that was sent.
        """
        there = {
            name: one for name, one in branches.items() if one.staged_events and self._unconfirmed.has_staged(name)
        }
        dropped = [name for name, branch in there.items() if self._dropped(name, branch)]
        return Withdrawn(dropped, [name for name in there if name not in dropped])

    def _dropped(self, name: str, branch: PresentBranch) -> bool:
        """Whether all that is staged on a branch is of this import, and was dropped."""
        if not self._unconfirmed.is_all_of(name, branch.staged_events, branch.staging_digest):
            return False
        event = BranchReset(self._urn(name), staging_digest=branch.staging_digest, expected_head=branch.head or "")
        try:
            self._sink.confirm(self._send(event))
        except RejectedError:  # something else came first
            return False
        return True

    def _begin(self, branch: str, at: str | None) -> None:
        made = None if at is None else self.known.id_of(at)
        at_commit = None if made is None else commit_urn(self._repository, made)
        self._sink.confirm(self._send(BranchCreated(self._urn(branch), at_commit)))
        self._heads[branch] = made or ""
        self.counts.branches_made += 1

    def _move(self, branch: str, at: str) -> None:
        made = self.known.id_of(at)
        self._send(BranchReverted(self._urn(branch), commit_urn(self._repository, made), self._heads[branch]))
        self._heads[branch] = made

    def _commit(self, branch: str, node: Node) -> None:
        commit = self._history.commit(node.id)
        when, head = time_of(commit), self._heads[branch]
        staging = self._staging(branch, when)
        for some in _chunks(self._changes(node)):
            self._stage(staging, {change.path: change.new for change in some})
        event = Committed(
            self._urn(branch),
            message_of(commit),
            metadata_of(node.id, commit),
            expected_head=head,
            staging_digest=staging.digest,
            allow_empty=not staging.events,
        )
        sent = self._send(event, when)
        self._made(branch, node, [head] if head else [], staging.digest, sent)
        self._unconfirmed.committed(branch, sent)

    def _merge(self, step: MergeMade) -> None:
        commit = self._history.commit(step.commit.id)
        when, head, source = time_of(commit), self._heads[step.branch], self._heads[step.source]
        staging = self._staging(step.branch, when)
        laid = self._laid(step.commit)
        self._stage(staging, laid)
        event = Merged(
            self._urn(step.source),
            self._urn(step.branch),
            source_head=source,
            destination_head=head,
            staged=RESOLVE if laid else REFUSE,
            staging_digest=staging.digest,
            message=message_of(commit),
            metadata=metadata_of(step.commit.id, commit),
        )
        sent = self._send(event, when)
        self._made(step.branch, step.commit, [head, source], staging.digest, sent)
        self._sink.confirm(sent)
        self._unconfirmed.committed(step.branch, sent)
        self.counts.merges += 1
        self.counts.resolved += bool(laid)
        self.counts.resolved_paths += len(laid)

    def _laid(self, node: Node) -> dict[str, Leaf | None]:
        """In what git's merge differs from ours."""
        destination, source = node.parents
        base = self.known.base(destination, source)

        def at_base(number: int) -> Differing:
            commit = self.known.git_ids[number]
            return {} if commit == destination else self._differing(commit, destination)

        return resolved(self._differing(source, destination), self._differing(node.id, destination), base, at_base)

    def _differing(self, new: str, old: str) -> dict[str, PathChange]:
        return {change.path: change for change in self._allowed(new, old)}

    def _changes(self, node: Node) -> Iterator[PathChange]:
        return self._allowed(node.id, node.parents[0] if node.parents else None)

    def _allowed(self, new: str, old: str | None) -> Iterator[PathChange]:
        """Changed paths, without those that no repository can have: who asked for the import agreed to that."""
        return (change for change in self._history.changes(new, old) if git_path_fault(change.path) is None)

    def _stage(self, staging: _Staging, paths: Mapping[str, Leaf | None]) -> None:
        written = {path: leaf for path, leaf in paths.items() if leaf is not None}
        sizes = self._history.sizes([*written.values()])
        deleted = [path for path, leaf in paths.items() if leaf is None]
        for some in pieces(deleted):
            staging.add(ObjectsDeleted(staging.branch, some), len(some))
        for entries in pieces(
            entry_of(path, leaf, size) for (path, leaf), size in zip(written.items(), sizes, strict=True)
        ):
            staging.add(ObjectsWritten(staging.branch, entries), len(entries))
        self.counts.deleted += len(deleted)
        self.counts.written += len(written)

    def _staging(self, branch: str, when: int) -> _Staging:
        def send(event: Any, paths: int) -> Sent:
            sent = self._send(event, when)
            self._unconfirmed.staged(branch, sent, paths)
            return sent

        return _Staging(self._urn(branch), send)

    def _made(self, branch: str, node: Node, parents: list[str], staging_digest: str, sent: Sent) -> None:
        made = commit_id(self._sink.tenant, self._repository, parents, staging_digest, sent.digest)
        self.known.add(node, made)
        self._heads[branch] = made
        self.counts.commits += 1

    def _send(self, event: Any, event_time: int | None = None) -> Sent:
        self.counts.events += 1
        return self._sink.send(event, event_time)

    def _urn(self, branch: str) -> Urn:
        return branch_urn(self._repository, branch)


class _Staging:
    """What is staged on a branch since its last commit.

    Args:
        branch: its URN.
        send: sends an event of so many paths.
    """

    def __init__(self, branch: Urn, send: Callable[[Any, int], Sent]) -> None:
        self.branch = branch
        self.digest = NOTHING_STAGED
        self.events = 0
        self._send = send

    def add(self, event: Any, paths: int) -> None:
        """One more event, of so many paths."""
        self.digest = staged_digest(self.digest, self._send(event, paths).digest)
        self.events += 1


def _chunks(changes: Iterable[PathChange]) -> Iterator[list[PathChange]]:
    chunk: list[PathChange] = []
    for change in changes:
        chunk.append(change)
        if len(chunk) == _AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
