"""What to compact next: a pure decision over a table's live files.

A table holds *loose* files, whose rows stand in any order (every append makes one), and *runs*, each one or more files
in the table's sort order. Loose files become a run when there are many; runs of about one size become one larger run.
So a row is written again once for each tier that its table has, and what is not touched stays as it is. Partition
values (the journal's dates) are compacted apart, since a file belongs to one of them.
Source: O'Neil et al., "The Log-Structured Merge-Tree"; size-tiered compaction as in Cassandra.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .files import run_of

MOST_LOOSE = 20
"""Loose files of a table at which they are sorted."""
FAN_IN = 4
"""Runs of one tier that become one of the next: a look-up reads at most one fewer of each tier."""
_MOST_AT_ONCE = 2 * FAN_IN
_FIRST_TIER_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One file of a table's version.

    Attributes:
        path: relative to the table's root, in the log's (URL) form.
        partition: values of the partition columns, as text.
    """

    path: str
    rows: int
    size_bytes: int
    partition: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Run:
    """The files of one sorted run, in their order."""

    name: str
    files: tuple[LiveFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Sort:
    """Loose files of one partition value that shall become runs."""

    files: tuple[LiveFile, ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """Runs of one partition value that shall become one run."""

    runs: tuple[Run, ...]

    @property
    def files(self) -> tuple[LiveFile, ...]:
        return tuple(file for run in self.runs for file in run.files)


def to_sort(files: Iterable[LiveFile], most_loose: int = MOST_LOOSE) -> Sort | None:
    """The loose files of the partition value that has most of them, when the table has too many."""
    loose: dict[tuple[tuple[str, str | None], ...], list[LiveFile]] = defaultdict(list)
    for file in files:
        if run_of(file.path) is None:
            loose[_value(file)].append(file)
    if sum(map(len, loose.values())) < most_loose:
        return None
    return Sort(tuple(loose[max(loose, key=lambda value: len(loose[value]))]))


def to_merge(files: Iterable[LiveFile]) -> Merge | None:
    """The runs of the smallest tier that has enough of them."""
    tiers: dict[tuple[int, tuple[tuple[str, str | None], ...]], list[Run]] = defaultdict(list)
    for run in runs_of(files):
        tiers[(tier(run.rows), _value(run.files[0]))].append(run)
    full = [place for place, runs in tiers.items() if len(runs) >= FAN_IN]
    return Merge(tuple(tiers[min(full, key=lambda place: place[0])][:_MOST_AT_ONCE])) if full else None


def runs_of(files: Iterable[LiveFile]) -> Sequence[Run]:
    """The runs among some files."""
    members: dict[str, list[tuple[int, LiveFile]]] = defaultdict(list)
    for file in files:
        place = run_of(file.path)
        if place is not None:
            members[place[0]].append((place[1], file))
    return [
        Run(name, tuple(file for _, file in sorted(numbered, key=lambda numbered_file: numbered_file[0])))
        for name, numbered in members.items()
    ]


def tier(rows: int) -> int:
    """The tier of a run: each one's runs are FAN_IN times as large as those below."""
    level = 0
    while rows >= _FIRST_TIER_ROWS * FAN_IN:
        rows //= FAN_IN
        level += 1
    return level


def _value(file: LiveFile) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(file.partition.items()))
