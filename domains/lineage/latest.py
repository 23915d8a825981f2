"""The latest write to data: from the table that stands by data, and from the accesses what that lacks.

So the answer is the same however far the derived table is behind; only what it lacks is dearer to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...lake import scan
from ...lake.cuts import Bounds
from ...lake.derived import derived_mark
from ...lake.lookup import possible_files
from ...lake.ranges import paths_between
from ...lake.table import quoted
from ...lake.views.views import View
from .events import DEFINITION
from .relations import LakeRelations, told_by


def lacks_writes(view: View, seen: Bounds) -> bool:
    """Whether the table that stands by data lacks some of what is seen, so that others are read too."""
    marks = _derived_marks(view, seen)
    return any(marks[partition] < below for partition, below in seen.below.items())


def _derived_marks(view: View, seen: Bounds) -> dict[int, int]:
    return {partition: derived_mark(view, "writes", (seen.topic, partition)) for partition in seen.below}


def latest_write_of(view: View, seen: Bounds, tenant: str, data: str, as_of: int | None) -> list[Any]:
    """The latest write of a run to data, at most one: when, its run and program.

    A write stands at the least time that was told of it; of several at one time the greatest run's is the latest.
    What a run writes by its definition alone (`DEFINITION`) has not been written by it at any time.

    Args:
        view: has `writes`; where that lacks something, `accesses` and `relations` too.
        seen, as_of: which rows count.
    """
    marks = _derived_marks(view, seen)
    with scan.cursor() as cursor:
        parts = [*_by_data(cursor, view, tenant, data, seen, marks), *_lacking(cursor, view, tenant, data, seen, marks)]
        if not parts:
            return []
        rows: list[Any] = cursor.sql(
            f"""select min(epoch_ms(happened_at)) as first, run, any_value(program) from ({" union all ".join(parts)})
            where {_HAPPENED}{told_by(as_of)} group by run, component order by first desc, run desc limit 1"""
        ).fetchall()
        return rows


_HAPPENED = f"not regexp_matches(run, '/{DEFINITION}[^/]*$')"
_COLUMNS = "run, component, program, happened_at"


def _by_data(
    cursor: scan.Cursor, view: View, tenant: str, data: str, seen: Bounds, marks: Mapping[int, int]
) -> Iterator[str]:
    """What the derived table holds, as SQL."""
    if not any(marks.values()):
        return
    table = view.tables["writes"]
    paths = possible_files(table, {"tenant": [tenant], "data": [data]})
    if paths:
        below = replace(
            seen, below={partition: min(below, marks[partition]) for partition, below in seen.below.items()}
        )
        source = scan.source(cursor, table, paths, "lake_writes")
        yield f"select {_COLUMNS} from {source} where {_of(tenant, data)} and {below.sql()}"


def _lacking(
    cursor: scan.Cursor, view: View, tenant: str, data: str, seen: Bounds, marks: Mapping[int, int]
) -> Iterator[str]:
    """The rows of `accesses` that the derived table lacks, as SQL."""
    ranges = {
        partition: (marks[partition], below) for partition, below in seen.below.items() if marks[partition] < below
    }
    if not ranges:
        return
    table = view.tables["accesses"]
    of_tenant = {"tenant": [tenant]}
    paths = {path for partition, (start, end) in ranges.items()
             for path in paths_between(table, (seen.topic, partition), start, end, of_tenant)}  # fmt: skip
    where = _of(tenant, data)
    if not all(
        start for start, _ in ranges.values()
    ):  # all of a partition: leave out the programs that never touched it
        programs = sorted(LakeRelations(view, tenant, seen, (0, 0), 0).programs_of([data]))
        paths &= {*possible_files(table, {**of_tenant, "program": programs})} if programs else set()
        where += f" and program in ({', '.join(map(quoted, programs))})"
    if paths:
        source = scan.source(cursor, table, sorted(paths), "lake_accesses")
        beyond = " or ".join(
            f"journal_partition = {partition} and logical_timestamp >= {ranges[partition][0]}" for partition in ranges
        )
        yield (f"select {_COLUMNS} from {source} where {where} and access = 'write' and {seen.sql()} and ({beyond})")


def _of(tenant: str, data: str) -> str:
    return f"tenant = {quoted(tenant)} and data = {quoted(data)}"
