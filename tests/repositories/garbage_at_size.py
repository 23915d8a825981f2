"""A program that looks for blocks that nothing holds in a repository of any size, and tells what it took.

python -m tests.repositories.garbage_at_size FOLDER ROWS
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.lake import scan
from metajournal.lake.table import Reached
from tests.builders import NOON
from tests.repositories.test_contents import begun, queries_of
from tests.streaming.harness import Fold

ENGINE_MIB: Final = 256
_MAIN = branch_urn("r1", "main")
_CHUNK: Final = 50_000
_RESETS: Final = 300
_SECOND_WRITE: Final = 2 + _RESETS


def events() -> list[Any]:
    """Two writings with nested resets between and one behind, in one staging area."""
    between = [e.BranchReset(_MAIN, prefix="x" * length) for length in range(1, 1 + _RESETS)]
    write = e.ObjectsWritten(_MAIN, [e.Entry("0/", 1, "c", "s3://b/x")])
    return [e.RepositoryCreated(repository_urn("r1"), "main", "s3://b"), write, *between, write,
            e.BranchReset(_MAIN, prefix="3/")]  # fmt: skip


def grow(fold: Fold, count: int) -> None:
    """Have the two writings be of so many rows: the second one of all paths of the first, in ten folders."""
    table = fold.lake.tables["objects"]
    schema = pa.schema(table.delta.schema().to_arrow())
    for row in table.query("*", "true order by logical_timestamp"):
        for start in range(0, count // 2, _CHUNK):
            numbers = range(start, min(start + _CHUNK, count // 2))
            own: dict[str, list[Any]] = {
                "seq": [1 + number for number in numbers],
                "path": [f"{number % 10}/{number * 7919 % count:09}/{'p' * 800}" for number in numbers],
                "address": [f"s3://b/{'a' * 1500}/{row['logical_timestamp']}/{number}" for number in numbers],
            }
            columns = [
                pa.array(own[one.name], one.type)
                if one.name in own
                else pa.repeat(pa.scalar(row[one.name], one.type), len(numbers))
                for one in schema
            ]
            table.append(pa.table(columns, schema=schema), Reached({}, {}, {}))


def look(folder: str) -> None:
    """Tell how many blocks there are, how many are unused and listed, and what MiB it took to find them."""
    scan._SPILLING_MEMORY = f"{ENGINE_MIB}MB"
    queries = queries_of(folder)
    queries.branches("default", "r1")
    before = _peak_mib()
    plan = queries.garbage("default", "r1", NOON * 2)
    counts = plan.counts()
    listed = sum(1 for _ in plan.addresses())
    print(counts.blocks, counts.unused_blocks, listed, _peak_mib() - before)  # noqa: T201


def _peak_mib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


def main(folder: str, count: int) -> None:
    """Make the repository, or look through one that is made (`count` is 0): so that memory is that of looking."""
    if not count:
        look(folder)
        return
    told = events()
    grow(begun(folder, told, len(told)), count)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
