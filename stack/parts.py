"""The downloaded parts as `stack/checksums.txt` names them: which there are, whether they are here and right.

No download happens here (`jars` does that). Invariant: a folder counts as complete only when its stamp names exactly
these checksums and every file has its size; the stamp is written after every file's sha256 was checked.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

GROUPS: Final = ("spark", "kafka", "elasticsearch")
"""What `up` needs."""
ON_DEMAND: Final = ("s3proxy", "s3a")
"""Downloaded only for who asks for them: a server of objects, and Spark's way to one."""
_STAMP: Final = ".verified"


@dataclass(frozen=True, slots=True)
class Part:
    """One file to be had."""

    group: str
    name: str
    size_bytes: int
    sha256: str

    @property
    def line(self) -> str:
        return f"{self.sha256} {self.size_bytes} {self.group}/{self.name}"


@dataclass(frozen=True, slots=True)
class Parts:
    """The folder that holds the parts of this version of metajournal."""

    root: Path

    def folder(self, group: str) -> Path:
        return self.root / group

    def files(self, group: str) -> list[Path]:
        """Every file of a group, in a fixed order (a class-data archive depends on the order of the class path)."""
        return [self.folder(group) / part.name for part in known_parts((group,))]

    def complete(self, group: str) -> bool:
        """Whether all files of the group are here; cheap enough to ask at every start."""
        stamp = self.folder(group) / _STAMP
        try:
            if stamp.read_text(encoding="utf-8") != group_digest(group):
                return False
            return all((self.folder(group) / p.name).stat().st_size == p.size_bytes for p in known_parts((group,)))
        except OSError:
            return False

    def seal(self, group: str) -> None:
        """Declare a group complete: every file of it was checked."""
        (self.folder(group) / _STAMP).write_text(group_digest(group), encoding="utf-8")


def parse_checksums(text: str) -> list[Part]:
    """Read the lines `<sha256> <size> <group>/<file>`; those that begin with # are comments."""
    parts = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            digest, size, path = line.split(" ", 2)
            group, name = path.split("/", 1)
            parts.append(Part(group, name, int(size), digest))
    return parts


@cache
def _all_parts() -> tuple[Part, ...]:
    return tuple(parse_checksums(files(__package__).joinpath("checksums.txt").read_text(encoding="utf-8")))


def known_parts(groups: Sequence[str] = GROUPS) -> list[Part]:
    return [part for part in _all_parts() if part.group in groups]


@cache
def group_digest(group: str) -> str:
    return hashlib.sha256("\n".join(part.line for part in known_parts((group,))).encode()).hexdigest()


def parts_in(cache_folder: Path) -> Parts:
    """The parts below a cache folder; each set of versions has its own folder, so that versions can share a cache."""
    together = hashlib.sha256("".join(group_digest(group) for group in GROUPS).encode()).hexdigest()
    return Parts(cache_folder / f"parts-{together[:12]}")


def file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def move_checked(source: Path, target: Path, parts: Iterable[Part]) -> list[Part]:
    """Move each part that is right from one folder to another.

    Returns:
        The parts that are missing in `source` or have other bytes; those stay where they are.
    """
    target.mkdir(parents=True, exist_ok=True)
    wrong = []
    for part in parts:
        path = source / part.name
        if path.is_file() and path.stat().st_size == part.size_bytes and file_digest(path) == part.sha256:
            os.replace(path, target / part.name)  # noqa: PTH105 (atomic, also over an older file)
        else:
            wrong.append(part)
    return wrong
