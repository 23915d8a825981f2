"""What a git repository holds: branches, the graph of commits, each commit, and the paths in which two commits differ.

One process of git answers all questions of a kind. Contents are told apart by mode and blob; the bytes of files are
never read, their sizes are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ....schemas.errors import InputError
from .git import Git, Talk
from .objects import SUBMODULE, Commit, Leaf, Node, PathChange, change_of, commit_of

_END: Final = b"end\n"
_MISSING: Final = b" missing"
_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DIFF: Final = (
    "diff-tree", "--stdin", "-r", "-z", "--raw", "--root", "--no-renames", "--no-abbrev", "--no-commit-id",
    "--ignore-submodules=none",
)  # fmt: skip
_ASKED_AT_ONCE: Final = 400  # of these neither the questions nor the answers fill a pipe


class History:
    """A git repository, read; a context manager, which ends git's processes.

    Args:
        path: the repository, or a folder in its work tree.
    Raises:
        UnavailableError, InputError: as `Git`.
    """

    def __init__(self, path: Path) -> None:
        self.git = Git(path)
        self._diffs: Talk | None = None
        self._objects: Talk | None = None
        self._checks: Talk | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for talk in (self._diffs, self._objects, self._checks):
            if talk is not None:
                talk.close()
        self.git.close()

    def head(self) -> str | None:
        """Name of the branch that is checked out; None where it is a commit."""
        name = self.git.answer("symbolic-ref", "-q", "HEAD", fine=(0, 1)).decode("utf-8", "surrogateescape").strip()
        return name.removeprefix("refs/heads/") or None

    def branches(self) -> dict[str, str]:
        """What each local branch is at, by name; of HEAD too where it is on no branch."""
        form = "--format=%(objectname) %(refname)"
        pairs = (line.split(" ", 1) for line in self.git.lines("for-each-ref", form, "refs/heads"))
        found = {name.removeprefix("refs/heads/"): commit for commit, name in pairs}
        if self.head() is None:
            found["HEAD"] = self.git.answer("rev-parse", "--verify", "HEAD^{commit}").decode().strip()
        return found

    def graph(self, tips: Iterable[str]) -> Iterator[Node]:
        """The tips and all that they descend from, each after its parents."""
        words = ("rev-list", "--stdin", "--topo-order", "--reverse", "--parents")
        for line in self.git.lines(*words, given=[*tips]):
            commit, *parents = line.split(" ")
            yield Node(commit, tuple(dict.fromkeys(parents)))

    def commit(self, commit: str) -> Commit:
        """Who made a commit, when, and what they say of it."""
        if self._objects is None:
            self._objects = self.git.talk("cat-file", "--batch")
        self._objects.say(f"{commit}\n")
        _, kind, size = _found(commit, self._objects.line()).split(b" ")
        assert kind == b"commit", commit
        return commit_of(self._objects.read(int(size) + 1)[:-1])

    def changes(self, new: str, old: str | None) -> Iterator[PathChange]:
        """The paths in which a commit differs from another one, in git's order; take all before the next question.

        Args:
            old: None for a commit without files.
        """
        if self._diffs is None:
            self._diffs = self.git.talk(*_DIFF)
        question = new if old is None else f"{new} {old}"
        self._diffs.say(f"{question}\n{_END.decode()}")
        return _changes(self._diffs)

    def sizes(self, leaves: Sequence[Leaf | None]) -> list[int]:
        """Bytes of each content; of a submodule, and of none, 0."""
        blobs = list(dict.fromkeys(leaf.blob for leaf in leaves if leaf is not None and leaf.mode != SUBMODULE))
        lines = self._checked(blobs)
        known = {blob: int(_found(blob, line).split(b" ")[1]) for blob, line in zip(blobs, lines, strict=True)}
        return [0 if leaf is None or leaf.mode == SUBMODULE else known[leaf.blob] for leaf in leaves]

    def peeled(self, objects: Sequence[str]) -> list[str | None]:
        """The commit that each object is, or that it names as a tag; None for any other object."""
        lines = self._checked([f"{one}^{{commit}}" for one in objects])
        return [None if line.endswith(_MISSING) else line.split(b" ")[0].decode("ascii") for line in lines]

    def has_any(self, objects: Iterable[str]) -> bool:
        """Whether git has one of some objects; a text that is no id of an object is none."""
        ids = [one for one in objects if _ID.fullmatch(one)]
        starts = range(0, len(ids), _ASKED_AT_ONCE)
        chunks = (self._checked(ids[start : start + _ASKED_AT_ONCE]) for start in starts)
        return any(not line.endswith(_MISSING) for lines in chunks for line in lines)

    def _checked(self, names: Sequence[str]) -> list[bytes]:
        """What git says of each object: its id and its bytes, or that it is missing."""
        if self._checks is None:
            self._checks = self.git.talk("cat-file", "--batch-check=%(objectname) %(objectsize)")
        lines: list[bytes] = []
        for start in range(0, len(names), _ASKED_AT_ONCE):
            some = names[start : start + _ASKED_AT_ONCE]
            self._checks.say("".join(f"{name}\n" for name in some))
            lines += [self._checks.line() for _ in some]
        return lines


def _found(name: str, line: bytes) -> bytes:
    """The answer about an object. Raises: InputError: git does not have it."""
    if line.endswith(_MISSING):
        message = f"git does not have the object {name}."
        raise InputError(message, code="git-failed", hint="Try: git fsck.", object=name)
    return line


def _changes(talk: Talk) -> Iterator[PathChange]:
    """Pairs of a description and a path, each up to its NUL, until the line that was sent behind the question."""
    described, rest = None, b""
    while described is not None or rest != _END:
        *whole, rest = (rest + talk.some()).split(b"\0")
        for part in whole:
            if described is None:
                described = part
            else:
                yield change_of(described.decode("ascii"), part)
                described = None
