"""What commits and paths of git become in events: entries, messages, metadata, times. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ....schemas.limits import MAX_ENTRIES, MAX_EVENT_BYTES
from ..events import MAX_MESSAGE_BYTES, Entry
from ..urns import path_fault
from .known import GIT_ID
from .objects import Commit, Leaf, Signature

_Part = TypeVar("_Part", Entry, str)
_EARLIEST_MS: Final = -62_135_596_800_000
_LATEST_MS: Final = 253_402_300_799_999
"""The years 1 to 9999, which an event's time must be of; git takes any number."""
_MOST_WHO_BYTES: Final = 2048
_ROOM_BYTES: Final = MAX_EVENT_BYTES - 64 * 1024
_ENTRY_BYTES: Final = 512
"""More than an entry takes besides its path."""


def entry_of(path: str, leaf: Leaf, size: int) -> Entry:
    """A path as an event has it: the checksum is git's blob, its mode is metadata."""
    return Entry(path, size, leaf.blob, f"git:{leaf.blob}", metadata={"mode": leaf.mode})


def git_path_fault(path: str) -> str | None:
    """Why a repository cannot have a path of git's, or None."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    return path_fault(path)


def message_of(commit: Commit) -> str:
    """A commit's message, as much of it as a commit takes."""
    return _cut(commit.message, MAX_MESSAGE_BYTES)


def metadata_of(git_id: str, commit: Commit) -> dict[str, str]:
    """A commit's metadata: git's id, who made it and when; of a message that was cut also its bytes."""
    said = {
        GIT_ID: git_id,
        "git.author": _cut(commit.author.who, _MOST_WHO_BYTES),
        "git.authored": _moment(commit.author),
        "git.committer": _cut(commit.committer.who, _MOST_WHO_BYTES),
        "git.committed": _moment(commit.committer),
    }
    if message_of(commit) != commit.message:
        said["git.message_bytes"] = str(len(commit.message.encode()))
    return said


def time_of(commit: Commit) -> int:
    """When a commit was written, in milliseconds UTC, within what a time can be; committed, where git has no time."""
    seconds = commit.committer.seconds if commit.author.seconds is None else commit.author.seconds
    return min(max((seconds or 0) * 1000, _EARLIEST_MS), _LATEST_MS)


def _moment(signature: Signature) -> str:
    return "" if signature.seconds is None else f"{signature.seconds} {signature.zone}"


def _cut(text: str, limit_bytes: int) -> str:
    """The beginning of a text, of whole characters."""
    return text.encode()[:limit_bytes].decode(errors="ignore")


def pieces(parts: Iterable[_Part]) -> Iterator[Sequence[_Part]]:
    """Entries, or paths, in pieces that an event takes."""
    piece: list[_Part] = []
    taken = 0
    for part in parts:
        size = _ENTRY_BYTES + len((part if isinstance(part, str) else part.path).encode())
        if piece and (len(piece) == MAX_ENTRIES or taken + size > _ROOM_BYTES):
            yield piece
            piece, taken = [], 0
        piece.append(part)
        taken += size
    if piece:
        yield piece
