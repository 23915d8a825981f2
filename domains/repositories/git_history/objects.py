"""What git says of a history, as values: the graph's nodes, commits, paths. Pure.

Contents are told apart by mode and blob. Text that git does not hold as UTF-8 is read as its commit says, where it can.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SUBMODULE: Final = "160000"
"""Mode of an entry that names a commit of another repository, and no blob."""
_IDENTITY: Final = re.compile(rb"(.*?) ?(-?[0-9]{1,20}) ([+-][0-9]{1,8})")
_ABSENT: Final = "000000"


class Node(NamedTuple):
    """A commit in the graph.

    Attributes:
        id: git's.
        parents: ids, each once.
    """

    id: str
    parents: tuple[str, ...]


class Leaf(NamedTuple):
    """What a path is.

    Attributes:
        mode: as git writes it, `100644`.
        blob: id of its content; of a submodule that of a commit.
    """

    mode: str
    blob: str


class PathChange(NamedTuple):
    """A path in which two commits differ.

    Attributes:
        path: bytes that are no UTF-8 stand as lone surrogates.
        old, new: what it is in the one and in the other; None where it is not there.
    """

    path: str
    old: Leaf | None
    new: Leaf | None


class Signature(NamedTuple):
    """Who made a commit, and when.

    Attributes:
        who: name and address, as git has them.
        seconds: since 1970; None where git has no number.
        zone: `+0100`.
    """

    who: str
    seconds: int | None
    zone: str


class Commit(NamedTuple):
    """A commit.

    Attributes:
        author, committer: who wrote the change, and who committed it.
        message: as text.
    """

    author: Signature
    committer: Signature
    message: str


def change_of(described: str, path: bytes) -> PathChange:
    """A path, of what `git diff-tree --raw` says of it."""
    old_mode, new_mode, old, new, _ = described.removeprefix(":").split(" ")
    return PathChange(
        path.decode("utf-8", "surrogateescape"),
        None if old_mode == _ABSENT else Leaf(old_mode, old),
        None if new_mode == _ABSENT else Leaf(new_mode, new),
    )


def commit_of(raw: bytes) -> Commit:
    """A commit, of its object: lines of a name and a value, an empty line, the message."""
    head, _, message = raw.partition(b"\n\n")
    said = dict(line.split(b" ", 1) for line in reversed(head.split(b"\n")) if b" " in line and line[:1] != b" ")
    encoding = said[b"encoding"].decode("ascii", "replace") if b"encoding" in said else None
    return Commit(
        _signature(said.get(b"author", b""), encoding),
        _signature(said.get(b"committer", b""), encoding),
        _text(message, encoding),
    )


def _signature(line: bytes, encoding: str | None) -> Signature:
    match = _IDENTITY.fullmatch(line)
    if match is None:
        return Signature(_text(line, encoding), None, "")
    return Signature(_text(match[1], encoding), int(match[2]), match[3].decode("ascii"))


def _text(raw: bytes, encoding: str | None) -> str:
    """Text in the encoding that it says, or UTF-8; what is not readable becomes the sign for that."""
    try:
        text = raw.decode(encoding or "utf-8")
    except (LookupError, ValueError):  # an encoding of no such name, or bytes that are not of it
        text = raw.decode("utf-8", "replace")
    return text.encode("utf-8", "replace").decode()  # some encodings give surrogates
