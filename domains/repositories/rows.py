"""Rows of the repository tables, and the identities in them: of contents, staging areas and commits.

Every row holds the whole of what stands for its key after one event. Key columns are never null. Digests are texts of
hexadecimal digits, but for `content`, of which there is one for every object. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any, ClassVar, Final, NamedTuple

from ...schemas.hashing import canonical_json

NOTHING_STAGED: Final = "00" * 16
"""The digest of a staging area without events."""
CONTENT_BYTES: Final = 16


def content_of(checksum: str, size: int, content_type: str | None, metadata: Mapping[str, str]) -> bytes:
    """What an object is: equal means unchanged. Address and mtime do not count.

    Returns:
        16 bytes: blake2b of the canonical JSON [checksum, size, content type, metadata].
    """
    return blake2b(canonical_json([checksum, size, content_type, metadata]), digest_size=CONTENT_BYTES).digest()


def staged_digest(former: str, record_digest: bytes) -> str:
    """The digest of a staging area after one more event.

    Args:
        former: the area's digest before it; NOTHING_STAGED where it is the first.
        record_digest: 16 bytes, the digest of the event's record.
    """
    return blake2b(bytes.fromhex(former) + record_digest, digest_size=16).hexdigest()


def commit_id(tenant: str, repository: str, parents: Sequence[str], staging_digest: str, record_digest: bytes) -> str:
    """The id of a commit: it stands for the exact history, and needs no position.

    Args:
        repository: its name.
        parents: their ids, the destination of a merge first.
        staging_digest: of the staging area that it takes.
        record_digest: 16 bytes, the digest of the commit's own record.
    Returns:
        64 hexadecimal digits: sha256 of the canonical JSON of these five.
    """
    return sha256(canonical_json([tenant, repository, [*parents], staging_digest, record_digest.hex()])).hexdigest()


class BranchRow(NamedTuple):
    """A branch, or a repository itself, after an event that touches it.

    Attributes:
        urn: the branch's, or the repository's.
        head: id of the commit that the branch is at; None: it has none. Of a repository None.
        staging: position of the branch's creation, last commit, merge, revert or whole reset: its staging area's name.
        staging_digest: of the events in the staging area.
        staged_events: events in the staging area; the branch is dirty while there are any.
        staged_rows: paths written or deleted by them.
        created: of a repository the position of its creation: what is older is of an earlier one of its name.
        members: of a repository its branches and registered objects, transactions not counted.
    """

    tenant: str
    urn: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    head: str | None
    staging: int | None
    staging_digest: str | None
    staged_events: int | None
    staged_rows: int | None
    created: int | None
    members: int | None


class CommitRow(NamedTuple):
    """A commit.

    Attributes:
        commit: its URN.
        branch: URN of the branch that it was made on.
        parents: their ids; of a merge the destination's first.
        staging: the staging area that it takes; None where nothing was staged.
        strategy: of a merge; None of any other commit.
        metadata: keys and values.
        staging_digest: of the staging area.
        digest: of the record that made it, 32 hexadecimal digits.
    """

    tenant: str
    commit: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    branch: str
    parents: Sequence[str]
    staging: int | None
    strategy: str | None
    message: str
    metadata: Mapping[str, str]
    staging_digest: str
    digest: str


class ObjectRow(NamedTuple):
    """One path in a staging area, written or deleted by one event; the newest row of a path counts.

    Attributes:
        repo: the repository's name.
        staging: the staging area's name.
        branch: URN of the branch.
        size: bytes; None, as all that follows, where the path is deleted.
        address: where it lies; None where blocks are given.
        blocks: (address, size, checksum) of each, or None.
        mtime_ms: milliseconds since 1970, UTC, or None.
        content: see `content_of`.
    """

    tenant: str
    repo: str
    staging: int
    path: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    branch: str
    size: int | None
    checksum: str | None
    address: str | None
    blocks: Sequence[Sequence[Any]] | None
    content_type: str | None
    metadata: Mapping[str, str] | None
    mtime_ms: int | None
    content: bytes | None


class ResetRow(NamedTuple):
    """What was staged of a path, or of all paths with a prefix, before this row's position is dropped.

    Attributes:
        is_prefix: whether `path` is a prefix.
    """

    tenant: str
    repo: str
    staging: int
    path: str
    is_prefix: bool
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool


class BranchKey(NamedTuple("BranchKey", [("urn", str)])):
    """The key of a branch or a repository."""

    __slots__ = ()
    TABLE: ClassVar[str] = "branches"


class CommitKey(NamedTuple("CommitKey", [("commit", str)])):
    """The key of a commit."""

    __slots__ = ()
    TABLE: ClassVar[str] = "commits"


class ObjectKey(NamedTuple("ObjectKey", [("repo", str), ("staging", int), ("path", str)])):
    """The key of a path in a staging area."""

    __slots__ = ()
    TABLE: ClassVar[str] = "objects"


class ResetKey(NamedTuple("ResetKey", [("repo", str), ("staging", int), ("path", str), ("is_prefix", bool)])):
    """The key of a partial reset in a staging area."""

    __slots__ = ()
    TABLE: ClassVar[str] = "resets"


ROWS: Final[Mapping[type[Any], type[Any]]] = {
    BranchRow: BranchKey,
    CommitRow: CommitKey,
    ObjectRow: ObjectKey,
    ResetRow: ResetKey,
}
"""Each class of rows, and that of their keys."""
