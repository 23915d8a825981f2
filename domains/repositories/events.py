"""Events of repositories: branches, what is staged on them, commits and merges.

All events of a repository are of one aggregate, `repo:<name>`, so they have one order. Each class is kept in step with
its contract in `contracts/`. Entries are taken as Entry, or as mappings of its fields; what does not fit stays as it
was given, for `validate` to name all of it at once.

Source: docs/concepts.md; the source text's "Indexing service".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from ...schemas.encoding.wire import MAX_LONG, MIN_LONG
from ...schemas.errors import Fault, InvalidEventError
from ...schemas.events.base import as_dict, as_tuple, as_urn, text_fault
from ...schemas.events.checks import count_faults, empty_faults, plain_properties, properties_faults, urn_faults
from ...schemas.hashing import canonical_json
from ...schemas.limits import MAX_ENTRIES, MAX_KEY_BYTES
from ...schemas.urn import Urn
from .urns import (
    MAX_PATH_BYTES,
    branch_fault,
    branch_urn,
    commit_id_fault,
    is_transaction,
    object_fault,
    object_urn,
    path_fault,
    repository_fault,
)

NO_STRATEGY: Final = "none"
SOURCE_WINS: Final = "source-wins"
DEST_WINS: Final = "dest-wins"
STRATEGIES: Final = (NO_STRATEGY, SOURCE_WINS, DEST_WINS)
REFUSE: Final = "refuse"
RESOLVE: Final = "resolve"
MAX_MESSAGE_BYTES: Final = 64 * 1024
MAX_COMMIT_METADATA_BYTES: Final = 256 * 1024
MAX_ENTRY_METADATA_BYTES: Final = 8 * 1024

_STAGING_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
_set = object.__setattr__


class Block(NamedTuple):
    """A part of an object.

    Attributes:
        address: where it lies.
        size: bytes.
        checksum: in the producer's words.
    """

    address: str
    size: int
    checksum: str


class Entry(NamedTuple):
    """An object that is written.

    Attributes:
        path: 1 to 1,024 bytes of UTF-8 without NUL.
        size: bytes.
        checksum: in the producer's words.
        address: where it lies; None where blocks are given.
        blocks: what it is made of, in order; empty where an address is given.
        content_type: or None.
        metadata: keys and values, 8 KiB at most.
        mtime: milliseconds since 1970, UTC, or None.
    """

    path: str
    size: int
    checksum: str
    address: str | None = None
    blocks: tuple[Block, ...] = ()
    content_type: str | None = None
    metadata: Mapping[str, str] = {}
    mtime: int | None = None


@dataclass(frozen=True, slots=True, init=False)
class RepositoryEvent:
    """What the events about a repository as a whole share."""

    TYPE: ClassVar[str] = ""
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"repository"})

    repository: Urn

    @property
    def entity(self) -> Urn:
        """The repository. Raises: InvalidEventError: it is no repository's URN."""
        faults = _repository_faults("repository", self.repository)
        if faults:
            raise InvalidEventError(faults)
        return self.repository

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The repository. Raises: InvalidEventError: it is no repository's URN."""
        return (self.entity,)

    @property
    def aggregate(self) -> Urn:
        """The repository. Raises: InvalidEventError: it is no repository's URN."""
        return self.entity

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field (`entries[2].path`); empty for a valid one."""
        return _repository_faults("repository", self.repository)


@dataclass(frozen=True, slots=True, init=False)
class RepositoryCreated(RepositoryEvent):
    """A repository begins, with its default branch, which has no commit."""

    TYPE: ClassVar[str] = "repositories.RepositoryCreated.1"

    default_branch: str
    storage_namespace: str

    def __init__(self, repository: Urn | str, default_branch: str, storage_namespace: str) -> None:
        _set(self, "repository", as_urn(repository))
        _set(self, "default_branch", default_branch)
        _set(self, "storage_namespace", storage_namespace)

    @property
    def branch(self) -> Urn:
        """The default branch. Raises: InvalidEventError: as `entities`."""
        return self.entities[1]

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The repository and its default branch. Raises: InvalidEventError: one of them has no URN."""
        faults = _repository_faults("repository", self.repository) + self._branch_faults()
        if faults:
            raise InvalidEventError(faults)
        return (self.repository, branch_urn(self.repository.name, self.default_branch))

    def validate(self) -> list[Fault]:
        faults = _repository_faults("repository", self.repository) + self._branch_faults()
        return faults + _text_faults("storage_namespace", self.storage_namespace, MAX_KEY_BYTES)

    def _branch_faults(self) -> list[Fault]:
        why = branch_fault(self.default_branch)
        if why is None and is_transaction(branch_urn("r", self.default_branch)):
            why = "must not be the branch of a transaction"
        return [] if why is None else [Fault("default_branch", why)]


@dataclass(frozen=True, slots=True, init=False)
class RepositoryDeleted(RepositoryEvent):
    """A repository ends, and its branches and registered objects with it; commits do not."""

    TYPE: ClassVar[str] = "repositories.RepositoryDeleted.1"

    def __init__(self, repository: Urn | str) -> None:
        _set(self, "repository", as_urn(repository))


@dataclass(frozen=True, slots=True, init=False)
class PathsEvent(RepositoryEvent):
    """What the two events about registered objects share."""

    paths: tuple[str, ...]

    def __init__(self, repository: Urn | str, paths: Iterable[str]) -> None:
        _set(self, "repository", as_urn(repository))
        _set(self, "paths", as_tuple(paths))

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The repository and the objects. Raises: InvalidEventError: one of them has no URN."""
        faults = self.validate()
        if faults:
            raise InvalidEventError(faults)
        return (self.repository, *[object_urn(self.repository.name, path) for path in self.paths])

    def validate(self) -> list[Fault]:
        faults = _repository_faults("repository", self.repository)
        name = "r" if faults else self.repository.name
        return faults + _paths_faults("paths", self.paths, lambda path: object_fault(name, path))


@dataclass(frozen=True, slots=True, init=False)
class ObjectsRegistered(PathsEvent):
    """Objects become entities, which search finds and which take tags, whatever commits hold them."""

    TYPE: ClassVar[str] = "repositories.ObjectsRegistered.1"


@dataclass(frozen=True, slots=True, init=False)
class ObjectsUnregistered(PathsEvent):
    """Objects are entities no longer; their tags go with them."""

    TYPE: ClassVar[str] = "repositories.ObjectsUnregistered.1"


@dataclass(frozen=True, slots=True, init=False)
class BranchEvent:
    """What the events about one branch share."""

    TYPE: ClassVar[str] = ""
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"branch"})

    branch: Urn

    @property
    def entity(self) -> Urn:
        """The branch. Raises: InvalidEventError: it is no branch's URN."""
        faults = _branch_faults("branch", self.branch)
        if faults:
            raise InvalidEventError(faults)
        return self.branch

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The branch and its repository. Raises: InvalidEventError: it is no branch's URN."""
        branch = self.entity
        return (branch, branch.aggregate)

    @property
    def aggregate(self) -> Urn:
        """The branch's repository. Raises: InvalidEventError: it is no branch's URN."""
        return self.entity.aggregate

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field (`entries[2].path`); empty for a valid one."""
        return _branch_faults("branch", self.branch)


@dataclass(frozen=True, slots=True, init=False)
class BranchCreated(BranchEvent):
    """A branch begins, at a commit or without one."""

    TYPE: ClassVar[str] = "repositories.BranchCreated.1"
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"branch", "commit"})

    commit: Urn | None

    def __init__(self, branch: Urn | str, commit: Urn | str | None = None) -> None:
        _set(self, "branch", as_urn(branch))
        _set(self, "commit", None if commit is None else as_urn(commit))

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The branch, its repository, and the commit where there is one. Raises: InvalidEventError."""
        return _with_commit(self.entity, self.commit)

    def validate(self) -> list[Fault]:
        return _branch_faults("branch", self.branch) + _commit_faults(self.branch, self.commit)


@dataclass(frozen=True, slots=True, init=False)
class BranchDeleted(BranchEvent):
    """A branch ends, and what is staged on it."""

    TYPE: ClassVar[str] = "repositories.BranchDeleted.1"

    expected_head: str | None

    def __init__(self, branch: Urn | str, expected_head: str | None = None) -> None:
        _set(self, "branch", as_urn(branch))
        _set(self, "expected_head", expected_head)

    def validate(self) -> list[Fault]:
        return _branch_faults("branch", self.branch) + _head_faults("expected_head", self.expected_head)


@dataclass(frozen=True, slots=True, init=False)
class ObjectsWritten(BranchEvent):
    """Objects are staged on a branch; a later entry of a path replaces all of it."""

    TYPE: ClassVar[str] = "repositories.ObjectsWritten.1"
    NESTED: ClassVar[Mapping[str, type[Any]]] = {
        "metajournal.repositories.v1.Entry": Entry,
        "metajournal.repositories.v1.Block": Block,
    }
    IN_BULK: ClassVar[Collection[str]] = frozenset(NESTED)
    """Records of which an event has up to a thousand."""

    entries: tuple[Entry, ...]

    def __init__(self, branch: Urn | str, entries: Iterable[Entry | Mapping[str, Any]]) -> None:
        _set(self, "branch", as_urn(branch))
        given = as_tuple(entries)
        _set(self, "entries", tuple(map(as_entry, given)) if type(given) is tuple else given)

    def validate(self) -> list[Fault]:
        faults = _branch_faults("branch", self.branch)
        if _plain_entries(self.entries):
            return faults
        entries: Any = self.entries
        if not isinstance(entries, tuple):
            return [*faults, Fault("entries", f"must be a list of entries, not {type(entries).__name__}")]
        faults += empty_faults("entries", entries) + count_faults("entries", len(entries))
        for index, entry in enumerate(entries[:MAX_ENTRIES]):
            faults += entry_faults(f"entries[{index}]", entry)
        paths = [getattr(entry, "path", None) for entry in entries[:MAX_ENTRIES]]
        return faults + _twice_faults("entries[{}].path", paths)


@dataclass(frozen=True, slots=True, init=False)
class ObjectsDeleted(BranchEvent):
    """Paths are staged for deletion, whether there is anything at them or not."""

    TYPE: ClassVar[str] = "repositories.ObjectsDeleted.1"

    paths: tuple[str, ...]

    def __init__(self, branch: Urn | str, paths: Iterable[str]) -> None:
        _set(self, "branch", as_urn(branch))
        _set(self, "paths", as_tuple(paths))

    def validate(self) -> list[Fault]:
        return _branch_faults("branch", self.branch) + _paths_faults("paths", self.paths, path_fault)


@dataclass(frozen=True, slots=True, init=False)
class Committed(BranchEvent):
    """What is staged on a branch becomes a commit."""

    TYPE: ClassVar[str] = "repositories.Committed.1"

    message: str
    metadata: dict[str, str]
    expected_head: str | None
    staging_digest: str | None
    allow_empty: bool

    def __init__(
        self,
        branch: Urn | str,
        message: str,
        metadata: Mapping[str, str] | None = None,
        expected_head: str | None = None,
        staging_digest: str | None = None,
        allow_empty: bool = False,
    ) -> None:
        _set(self, "branch", as_urn(branch))
        _set(self, "message", message)
        _set(self, "metadata", {} if metadata is None else as_dict(metadata))
        _set(self, "expected_head", expected_head)
        _set(self, "staging_digest", staging_digest)
        _set(self, "allow_empty", allow_empty)

    def validate(self) -> list[Fault]:
        faults = _branch_faults("branch", self.branch) + _described_faults(self.message, self.metadata)
        faults += _head_faults("expected_head", self.expected_head) + _staging_faults(self.staging_digest)
        allow_empty: Any = self.allow_empty
        if not isinstance(allow_empty, bool):
            faults.append(Fault("allow_empty", f"must be True or False, not {allow_empty!r:.80}"))
        return faults


@dataclass(frozen=True, slots=True, init=False)
class Merged:
    """The commits of one branch are merged into another, which gets a commit of both."""

    TYPE: ClassVar[str] = "repositories.Merged.1"
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"source", "destination"})

    source: Urn
    destination: Urn
    source_head: str
    destination_head: str
    strategy: str
    staged: str
    staging_digest: str | None
    message: str
    metadata: dict[str, str]

    def __init__(
        self,
        source: Urn | str,
        destination: Urn | str,
        source_head: str,
        destination_head: str,
        strategy: str = NO_STRATEGY,
        staged: str = REFUSE,
        staging_digest: str | None = None,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        _set(self, "source", as_urn(source))
        _set(self, "destination", as_urn(destination))
        _set(self, "source_head", source_head)
        _set(self, "destination_head", destination_head)
        _set(self, "strategy", strategy)
        _set(self, "staged", staged)
        _set(self, "staging_digest", staging_digest)
        _set(self, "message", message)
        _set(self, "metadata", {} if metadata is None else as_dict(metadata))

    @property
    def branch(self) -> Urn:
        """The destination, which the event changes. Raises: InvalidEventError: as `entities`."""
        return self.entities[0]

    @property
    def entities(self) -> tuple[Urn, ...]:
        """Destination, source and repository. Raises: InvalidEventError: the two are no branches of one repository."""
        faults = self._branches_faults()
        if faults:
            raise InvalidEventError(faults)
        return (self.destination, self.source, self.destination.aggregate)

    @property
    def aggregate(self) -> Urn:
        """The repository of both. Raises: InvalidEventError: as `entities`."""
        return self.entities[2]

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field; empty for a valid one."""
        faults = self._branches_faults() + _described_faults(self.message, self.metadata)
        faults += _head_faults("source_head", self.source_head, optional=False)
        faults += _head_faults("destination_head", self.destination_head, optional=False)
        faults += _staging_faults(self.staging_digest)
        if self.strategy not in STRATEGIES:
            faults.append(Fault("strategy", f"must be one of {', '.join(STRATEGIES)}, not {self.strategy!r:.80}"))
        if self.staged not in (REFUSE, RESOLVE):
            faults.append(Fault("staged", f"must be {REFUSE} or {RESOLVE}, not {self.staged!r:.80}"))
        elif self.staged == RESOLVE and self.staging_digest is None:
            faults.append(Fault("staging_digest", f"must be given with {RESOLVE}, so that no later write slips in"))
        return faults

    def _branches_faults(self) -> list[Fault]:
        faults = _branch_faults("source", self.source) + _branch_faults("destination", self.destination)
        if faults:
            return faults
        if self.source == self.destination:
            return [Fault("source", "must be another branch than the destination")]
        if self.source.aggregate != self.destination.aggregate:
            return [Fault("source", f"must be a branch of {self.destination.aggregate}, as the destination is")]
        return []


@dataclass(frozen=True, slots=True, init=False)
class BranchReset(BranchEvent):
    """What is staged on a branch is dropped: all, one path, or all paths with a prefix."""

    TYPE: ClassVar[str] = "repositories.BranchReset.1"

    path: str | None
    prefix: str | None
    staging_digest: str | None
    expected_head: str | None

    def __init__(
        self,
        branch: Urn | str,
        path: str | None = None,
        prefix: str | None = None,
        staging_digest: str | None = None,
        expected_head: str | None = None,
    ) -> None:
        _set(self, "branch", as_urn(branch))
        _set(self, "path", path)
        _set(self, "prefix", prefix)
        _set(self, "staging_digest", staging_digest)
        _set(self, "expected_head", expected_head)

    def validate(self) -> list[Fault]:
        faults = _branch_faults("branch", self.branch)
        for field, value in (("path", self.path), ("prefix", self.prefix)):
            why = None if value is None else path_fault(value)
            faults += [] if why is None else [Fault(field, why)]
        if self.path is not None and self.prefix is not None:
            faults.append(Fault("prefix", "give either path or prefix, not both; neither resets everything"))
        return faults + _staging_faults(self.staging_digest) + _head_faults("expected_head", self.expected_head)


@dataclass(frozen=True, slots=True, init=False)
class BranchReverted(BranchEvent):
    """A branch's head becomes another commit."""

    TYPE: ClassVar[str] = "repositories.BranchReverted.1"
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"branch", "commit"})

    commit: Urn
    expected_head: str | None

    def __init__(self, branch: Urn | str, commit: Urn | str, expected_head: str | None = None) -> None:
        _set(self, "branch", as_urn(branch))
        _set(self, "commit", as_urn(commit))
        _set(self, "expected_head", expected_head)

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The branch, its repository and the commit. Raises: InvalidEventError: one of them is no URN of its kind."""
        return _with_commit(self.entity, self.commit)

    def validate(self) -> list[Fault]:
        faults = _branch_faults("branch", self.branch) + _head_faults("expected_head", self.expected_head)
        commit: Any = self.commit
        if commit is None:
            return [*faults, Fault("commit", "must be given, and not be null")]
        return faults + _commit_faults(self.branch, commit)


EVENTS: Final[tuple[type[Any], ...]] = (
    RepositoryCreated,
    RepositoryDeleted,
    BranchCreated,
    BranchDeleted,
    ObjectsWritten,
    ObjectsDeleted,
    Committed,
    Merged,
    BranchReset,
    BranchReverted,
    ObjectsRegistered,
    ObjectsUnregistered,
)


def as_entry(value: Any) -> Any:
    """An Entry of one, or of a mapping whose fields are known; else as it is. (Past the tuple's own constructor.)"""
    if type(value) is Entry:
        given: Any = value
    elif isinstance(value, Mapping) and _NEEDED <= value.keys() <= _FIELDS:
        given = Entry(**value)
    else:
        return value
    path, size, checksum, address, blocks, content_type, metadata, mtime = given
    if blocks != ():
        blocks = _as_blocks(blocks)
    said = dict(metadata) if type(metadata) is dict else {} if metadata is None else as_dict(metadata)
    return tuple.__new__(Entry, (path, size, checksum, address, blocks, content_type, said, mtime))


_FIELDS: Final = frozenset(Entry._fields)
_NEEDED: Final = frozenset({"path", "size", "checksum"})


def _as_blocks(blocks: Any) -> Any:
    if blocks is None or blocks == ():
        return ()
    given = as_tuple(blocks)
    return tuple(map(_as_block, given)) if type(given) is tuple else given


def _as_block(value: Any) -> Any:
    if type(value) is Block:
        return value
    if isinstance(value, Mapping) and value.keys() == set(Block._fields):
        return Block(**value)
    return Block(*value) if isinstance(value, tuple | list) and len(value) == len(Block._fields) else value


def _with_commit(branch: Urn, commit: Any) -> tuple[Urn, ...]:
    if commit is None:
        return (branch, branch.aggregate)
    faults = _commit_faults(branch, commit)
    if faults:
        raise InvalidEventError(faults)
    return (branch, branch.aggregate, commit)


# The happy case, a column at a time.


def _plain_entries(entries: Any) -> bool:
    """Whether all entries are surely valid; False decides nothing."""
    if type(entries) is not tuple or not 0 < len(entries) <= MAX_ENTRIES or set(map(type, entries)) != {Entry}:
        return False
    paths, sizes, checksums, addresses, blocks, content_types, metadata, mtimes = zip(*entries, strict=True)
    return (
        set(map(type, (*paths, *checksums, *addresses))) == {str}
        and set(map(type, sizes)) == {int}
        and blocks.count(()) == len(blocks)
        and set(map(type, content_types)) <= {str, type(None)}
        and set(map(type, mtimes)) <= {int, type(None)}
        and set(map(type, metadata)) == {dict}
        and all(map(_plain_metadata, filter(None, metadata)))
        and len(set(paths)) == len(paths)
        and _plain_texts(paths, MAX_PATH_BYTES)
        and "\0" not in "".join(paths)
        and _plain_texts((*checksums, *addresses, *({*content_types} - {None})), MAX_KEY_BYTES)
        and min(sizes) >= 0
        and max(sizes) <= MAX_LONG
        and all(MIN_LONG <= one <= MAX_LONG for one in mtimes if one is not None)
    )


def _plain_metadata(values: Any) -> bool:
    """Whether an entry's metadata is surely valid, however much of it JSON escapes."""
    characters = sum(map(len, values)) + sum(map(len, values.values())) if plain_properties(values) else MAX_LONG
    return _JSON_BYTES * (characters + len(values)) + 2 <= MAX_ENTRY_METADATA_BYTES


_JSON_BYTES: Final = 6
"""Of a character at most, and of what stands around a key and its value."""


def _plain_texts(texts: Any, limit_bytes: int) -> bool:
    return "" not in texts and "".join(texts).isascii() and max(map(len, texts)) <= limit_bytes


# Every fault, one by one.


def entry_faults(field: str, entry: Any) -> list[Fault]:
    """Every fault of one entry by itself.

    Args:
        field: what it is called in the faults.
    """
    if isinstance(entry, Mapping):
        return _mapping_faults(field, entry)
    if type(entry) is not Entry:
        wanted = "must be an entry with path, size, checksum and either address or blocks"
        return [Fault(field, f"{wanted}, and no fields but {_FIELD_NAMES}; not {type(entry).__name__}")]
    why = path_fault(entry.path)
    faults = [] if why is None else [Fault(f"{field}.path", why)]
    faults += _stored_faults(field, entry.size, entry.checksum)
    if entry.address is not None:
        faults += _text_faults(f"{field}.address", entry.address, MAX_KEY_BYTES)
    faults += _blocks_faults(f"{field}.blocks", entry.blocks)
    if (entry.address is None) == (entry.blocks == ()):
        faults.append(Fault(f"{field}.address", "give either address or blocks"))
    if entry.content_type is not None:
        faults += _text_faults(f"{field}.content_type", entry.content_type, MAX_KEY_BYTES)
    faults += _map_faults(f"{field}.metadata", entry.metadata, MAX_ENTRY_METADATA_BYTES)
    if entry.mtime is not None and (type(entry.mtime) is not int or not MIN_LONG <= entry.mtime <= MAX_LONG):
        faults.append(Fault(f"{field}.mtime", f"must be a whole number of milliseconds, not {entry.mtime!r:.80}"))
    return faults


def _mapping_faults(field: str, entry: Mapping[Any, Any]) -> list[Fault]:
    """Every fault of a mapping that is no entry: fields that there are not, that are missing, and those that it has."""
    unknown = [key for key in entry if key not in _FIELDS]
    missing = [key for key in Entry._fields if key in _NEEDED and key not in entry]
    names = ", ".join(f"{key!r:.80}" for key in unknown[:_SHOWN]) + (", …" if len(unknown) > _SHOWN else "")
    faults = [Fault(field, f"has no field {names}; its fields are {_FIELD_NAMES}")] if unknown else []
    faults += [Fault(f"{field}.{key}", "is missing") for key in missing]
    known = {**dict.fromkeys(_NEEDED), **{key: value for key, value in entry.items() if key in _FIELDS}}
    without = {f"{field}.{key}" for key in missing}
    return faults + [fault for fault in entry_faults(field, as_entry(known)) if fault.field not in without]


_FIELD_NAMES: Final = ", ".join(Entry._fields)
_SHOWN: Final = 10


def _blocks_faults(field: str, blocks: Any) -> list[Fault]:
    if not isinstance(blocks, tuple):
        return [Fault(field, f"must be a list of blocks, not {type(blocks).__name__}")]
    faults = count_faults(field, len(blocks))
    for index, block in enumerate(blocks[:MAX_ENTRIES]):
        name = f"{field}[{index}]"
        if type(block) is not Block:
            faults.append(Fault(name, f"must be a block of address, size and checksum, not {block!r:.80}"))
            continue
        faults += _text_faults(f"{name}.address", block.address, MAX_KEY_BYTES)
        faults += _stored_faults(name, block.size, block.checksum)
    return faults


def _stored_faults(field: str, size: Any, checksum: Any) -> list[Fault]:
    faults = _text_faults(f"{field}.checksum", checksum, MAX_KEY_BYTES)
    if type(size) is not int or not 0 <= size <= MAX_LONG:
        faults.append(Fault(f"{field}.size", f"must be a whole number of bytes, not {size!r:.80}"))
    return faults


def _paths_faults(field: str, paths: Any, fault: Callable[[Any], str | None]) -> list[Fault]:
    if not isinstance(paths, tuple):
        return [Fault(field, f"must be a list of paths, not {type(paths).__name__}")]
    faults = empty_faults(field, paths) + count_faults(field, len(paths))
    named = ((f"{field}[{index}]", fault(path)) for index, path in enumerate(paths[:MAX_ENTRIES]))
    faults += [Fault(name, why) for name, why in named if why is not None]
    return faults + _twice_faults(f"{field}[{{}}]", paths[:MAX_ENTRIES])


def _twice_faults(field: str, paths: Iterable[Any]) -> list[Fault]:
    faults: list[Fault] = []
    seen: dict[str, int] = {}
    for index, path in enumerate(paths):
        if isinstance(path, str) and (earlier := seen.setdefault(path, index)) != index:
            same = field.format(earlier)
            faults.append(Fault(field.format(index), f"is that of {same}: an event has each path once"))
    return faults


def _repository_faults(field: str, value: Any) -> list[Fault]:
    faults = _kind_faults(field, value, "repo", "repository")
    if faults:
        return faults
    why = repository_fault(value.name)
    return [] if why is None else [Fault(field, f"its name {why}")]


def _branch_faults(field: str, value: Any) -> list[Fault]:
    faults = _kind_faults(field, value, "branch", "branch")
    if faults:
        return faults
    whys = (("the repository's name", repository_fault(value.parts[0])), ("its name", branch_fault(value.parts[1])))
    return [Fault(field, f"{name} {why}") for name, why in whys if why is not None]


def _commit_faults(branch: Any, value: Any) -> list[Fault]:
    """Faults of a commit that is named beside a branch; None is none."""
    if value is None:
        return []
    faults = _kind_faults("commit", value, "commit", "commit")
    if faults:
        return faults
    why = commit_id_fault(value.parts[1])
    if why is not None:
        return [Fault("commit", f"its name {why}")]
    if type(branch) is Urn and branch.kind == "branch" and branch.aggregate != value.aggregate:
        return [Fault("commit", f"must be a commit of {branch.aggregate}, as the branch is")]
    return []


def _kind_faults(field: str, value: Any, kind: str, name: str) -> list[Fault]:
    if value is None:
        return [Fault(field, "must be given, and not be null")]
    faults = urn_faults(field, value)
    if not faults and value.kind != kind:
        return [Fault(field, f"must be the URN of a {name}, not {value}")]
    return faults


def _head_faults(field: str, value: Any, *, optional: bool = True) -> list[Fault]:
    """Faults of a head that is expected; the empty text is the head of a branch without commit."""
    if value == "" or (value is None and optional):
        return []
    why = commit_id_fault(value)
    return [] if why is None else [Fault(field, f"{why}; where there is no commit, the empty text")]


def _staging_faults(value: Any) -> list[Fault]:
    if value is None or (isinstance(value, str) and _STAGING_DIGEST.fullmatch(value)):
        return []
    return [Fault("staging_digest", f"must be 32 hexadecimal digits in lower case, not {value!r:.80}")]


def _described_faults(message: Any, metadata: Any) -> list[Fault]:
    why = text_fault(message, limit_bytes=MAX_MESSAGE_BYTES)
    faults = [] if why is None else [Fault("message", why)]
    return faults + _map_faults("metadata", metadata, MAX_COMMIT_METADATA_BYTES)


def _map_faults(field: str, values: Any, limit_bytes: int) -> list[Fault]:
    faults = [] if plain_properties(values) else properties_faults(field, values)
    if faults or not values:
        return faults
    size = len(canonical_json(values))
    return [] if size <= limit_bytes else [Fault(field, f"takes {size:,} bytes, the limit is {limit_bytes:,}")]


def _text_faults(field: str, value: Any, limit_bytes: int) -> list[Fault]:
    why = text_fault(value, empty=False, limit_bytes=limit_bytes)
    return [] if why is None else [Fault(field, why)]
