"""What questions about repositories are answered with: values.

Each says whether it is final: no event that arrives later can change it. An answer of now never is; one as at a point
is, once the journal's partition of the repository has passed that point. So is an answer of now about branches as at a
time alone (`main@2026-01-31T12:00Z`), but for the end of the whole repository.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from .events import Block

_T = TypeVar("_T")


class AnswerList(list[_T]):
    """A list that answers a question.

    Attributes:
        final: no event that arrives later can change it.
    """

    def __init__(self, values: Iterable[_T] = (), *, final: bool = False) -> None:
        super().__init__(values)
        self.final = final


class RepositoryInfo(NamedTuple):
    """A repository.

    Attributes:
        urn: its URN.
        name: its name.
        default_branch: name of the branch that it began with.
        storage_namespace: where the objects' bytes lie.
        created: position of its creation.
        members: branches and registered objects, transactions not counted.
        final: no event that arrives later can change this answer.
    """

    urn: str
    name: str
    default_branch: str
    storage_namespace: str
    created: int
    members: int
    final: bool = False


class BranchInfo(NamedTuple):
    """A branch.

    Attributes:
        urn: its URN.
        name: its name.
        head: id of the commit that it is at; None: it has none.
        staged_events, staged_rows: what is staged on it; it is dirty while there are any events.
        staging_digest: of that.
        logical_timestamp: of the last event that touched it.
        final: no event that arrives later can change this answer.
    """

    urn: str
    name: str
    head: str | None
    staged_events: int
    staged_rows: int
    staging_digest: str
    logical_timestamp: int
    final: bool = False


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
        final: no event that arrives later can change this answer: which commit it is. A commit itself never changes.
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
    final: bool = False


class LogPage(NamedTuple):
    """Commits, the newest first.

    Attributes:
        items: the commits.
        before: asks for the next page; None after the last one.
        final: no event that arrives later can change this answer.
    """

    items: tuple[CommitInfo, ...]
    before: int | None
    final: bool = False


class ObjectInfo(NamedTuple):
    """An object as a ref has it.

    Attributes:
        path: its path.
        size: bytes.
        checksum: in the producer's words.
        address: where it lies; None where `blocks` are given.
        blocks: what it is made of, in order.
        content_type: or None.
        metadata: keys and values.
        mtime: milliseconds since 1970, UTC, or None.
        content: 32 hexadecimal digits that are equal where two objects are.
        final: no event that arrives later can change this answer.
    """

    path: str
    size: int
    checksum: str
    address: str | None
    blocks: tuple[Block, ...]
    content_type: str | None
    metadata: Mapping[str, str]
    mtime: int | None
    content: str
    final: bool = False


class PrefixInfo(NamedTuple):
    """All objects whose paths begin so, up to the first delimiter behind the prefix that was asked for."""

    path: str


class ListPage(NamedTuple):
    """Some of what a ref contains, by path.

    Attributes:
        items: objects, and common prefixes where a delimiter was given.
        after: asks for the next page; None after the last one.
        final: no event that arrives later can change this answer.
    """

    items: tuple[ObjectInfo | PrefixInfo, ...]
    after: str | None
    final: bool = False

    @property
    def objects(self) -> tuple[ObjectInfo, ...]:
        """The objects among the items."""
        return tuple(one for one in self.items if isinstance(one, ObjectInfo))

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The common prefixes among the items."""
        return tuple(one.path for one in self.items if isinstance(one, PrefixInfo))


class ObjectState(NamedTuple):
    """As much of an object as tells it apart.

    Attributes:
        size: bytes.
        content: as of `ObjectInfo`.
    """

    size: int
    content: str


class Difference(NamedTuple):
    """A path that two refs do not have alike.

    Attributes:
        path: the path.
        change: `added` (only the right one has it), `removed` (only the left one), or `changed`.
        left, right: the object there, or None; `get` tells all of it.
    """

    path: str
    change: str
    left: ObjectState | None
    right: ObjectState | None


class DiffPage(NamedTuple):
    """Some of what two refs do not have alike, by path.

    Attributes:
        items: the paths.
        after: asks for the next page; None after the last one.
        final: no event that arrives later can change this answer.
    """

    items: tuple[Difference, ...]
    after: str | None
    final: bool = False


class Conflict(NamedTuple):
    """A path that both sides of a merge had changed, and differently.

    Attributes:
        path: the path.
        base, destination, source: `ObjectInfo.content` there; None where it is not there; `conflict` at a base that is
            itself a merge in conflict.
    """

    path: str
    base: str | None
    destination: str | None
    source: str | None


class TreeInfo(NamedTuple):
    """What a commit contains, in sum.

    Attributes:
        commit: its id.
        objects, size_bytes: how much it holds; of sizes that are 2**63 - 1 or more together, that, and of all commits
            on it.
        added, changed, removed: what differs from its first parent.
        conflicts: of a merge: paths that both sides had changed; `conflicting` has the first 100.
        root: a hash of all paths and contents, which can be computed from a listing.
        content_id: a hash of root, message, metadata and the parents' content ids.
        final: no event that arrives later can change this answer.
    """

    commit: str
    objects: int
    size_bytes: int
    added: int
    changed: int
    removed: int
    conflicts: int
    conflicting: tuple[Conflict, ...]
    root: str
    content_id: str
    final: bool = False
