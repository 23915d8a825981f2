"""Damage to the files of a lake's tables, as disks, copies and hands do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from metajournal.lake.tables import Lake, Table
from metajournal.schemas.errors import DamagedTableError


class Way(NamedTuple):
    """How a file is damaged, and what is then said of it."""

    damage: Callable[[Path], object]
    problem: str


def _cut(share: float) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def _overwritten(start: float, end: float) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        first, last = int(len(content) * start), int(len(content) * end)
        content[first:last] = b"\xa5" * (last - first)
        path.write_bytes(content)

    return damage


WAYS: Final[Mapping[str, Way]] = {
    "gone": Way(Path.unlink, "gone"),
    "empty": Way(_cut(0), "cut short"),
    "half": Way(_cut(0.5), "cut short"),
    "footer": Way(_overwritten(0.95, 1), "not readable"),
    "overwritten": Way(_overwritten(0, 1), "not readable"),
}


def data_files(table: Table) -> list[Path]:
    """The files of the newest version of a table."""
    return [Path(uri.removeprefix("file://")) for uri in sorted(Table(table.name, table.uri, {}).delta.file_uris())]


def damaged(path: Path, name: str, way: str) -> Path:
    """Damage every file of a table of the lake at a path; gives one of them."""
    files = data_files(Lake(str(path)).tables[name])
    for file in files:
        WAYS[way].damage(file)
    return files[0]


def assert_named(error: DamagedTableError, name: str, way: str) -> None:
    """Whether an error names table, file and problem, and tells what to do."""
    assert (error.code, error.table, error.problem) == ("table-damaged", name, WAYS[way].problem)
    assert error.file.endswith(".parquet")
    assert all(part in str(error) for part in (name, error.file, error.problem))
    assert "metajournal rebuild lake" in error.hint
