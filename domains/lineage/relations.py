"""The relations of programs and data in the tables: the port of the lineage walk, and how its questions are read.

Files and row groups that cannot hold a key are left out by their statistics. What a question sees is the caller's: a
tenant, the bounds of a cut, a window. What is found is told in any order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...lake import scan
from ...lake.cuts import Bounds
from ...lake.lookup import possible_files
from ...lake.selecting import select_rows
from ...lake.table import quoted
from ...lake.views.table import TableView
from ...lake.views.views import View
from .near import MOST_HELD, Near
from .walk import Relation

_AHEAD = 500
"""Programs whose relations are read together, where so many may be wanted."""


class LakeRelations:
    """The port of the walk, over the tables.

    Relations of programs are read for many programs together: those that are asked for and, where the relations of the
    tenant are few enough to be held, those that a walk of so many levels may come to next.
    """

    def __init__(
        self, view: View, tenant: str, seen: Bounds, window: tuple[int, int], levels: int, as_of: int | None = None
    ) -> None:
        self._view = view
        self._tenant = tenant
        self._seen = seen
        self._window = window
        self._levels = levels
        self._as_of = as_of
        self._near: Near | None = None
        self._fetched: dict[str, list[Relation]] = {}

    def programs(self, data: Collection[str]) -> Iterable[str]:
        if self._near is None and self._are_few():
            self._near = Near(self._all_relations())
        if self._near is not None:
            return self._near.programs(data)
        return self.programs_of(data)

    def programs_of(self, data: Collection[str]) -> list[str]:
        """The programs of some data, looked up."""
        key = {"tenant": [self._tenant], "data": sorted(data)}
        statement = f"select distinct program from rows where {self._seen.sql()}"
        return [program for (program,) in select_rows(self._view, "relations", key, statement)]

    def of(self, programs: Collection[str]) -> Iterable[Relation]:
        missing = [name for name in programs if name not in self._fetched]
        if missing:
            wanted = missing if self._near is None else self._near.around(missing, self._levels - 1, _AHEAD)
            wanted = [name for name in {*wanted, *missing} if name not in self._fetched]
            self._fetched |= {name: [] for name in wanted}
            for relation in self._read(wanted):
                self._fetched[relation.program].append(relation)
        return [relation for name in programs for relation in self._fetched[name]]

    def _are_few(self) -> bool:
        rows = self._relations().files["num_records"]
        return int(pc.sum(rows, min_count=0).as_py()) <= MOST_HELD

    def _relations(self) -> TableView:
        return self._view.tables["relations"]

    def _all_relations(self) -> pa.Table:
        """All relations of the tenant."""
        table = self._relations()
        paths = possible_files(table, {"tenant": [self._tenant]})
        if not paths:
            return pa.table({"data": pa.array([], pa.string()), "program": pa.array([], pa.string())})
        with scan.cursor() as cursor:
            source = scan.source(cursor, table, paths)
            where = f"tenant = {quoted(self._tenant)} and {self._seen.sql()}"
            return cursor.sql(f"select data, program from {source} where {where}").to_arrow_table()

    def _read(self, programs: Collection[str]) -> Iterator[Relation]:
        """The relations of programs over their runs in the window.

        An unknown access stands only where its run, data and component has neither a read nor a write.
        """
        view, times = self._view, Times.of(self._as_of)
        key = {"tenant": [self._tenant], "program": sorted(programs)}
        tables = {name: view.tables[name] for name in ("runs", "accesses")}
        paths = {name: possible_files(table, key) for name, table in tables.items()}
        if not all(paths.values()):
            return
        named = ", ".join(map(quoted, key["program"]))
        where = f"tenant = {quoted(self._tenant)} and program in ({named}) and {self._seen.sql()}"
        with scan.cursor() as cursor:
            sources = {name: scan.source(cursor, tables[name], paths[name], f"lake_{name}") for name in tables}
            statement = f"""
                with counting as (
                    select run, {times.began} as began, {times.ended} as ended
                    from {sources["runs"]} where {where} group by run having {in_window(*self._window)}
                ),
                touched as (
                    select program, run, data, component, bool_or(access = 'read') as has_read,
                        bool_or(access = 'write') as has_written
                    from {sources["accesses"]} semi join counting using (run) where {where}{told_by(self._as_of)}
                    group by program, run, data, component
                ),
                told as (
                    select program, data, run, component, unnest(case
                        when has_read and has_written then ['read', 'write'] when has_read then ['read']
                        when has_written then ['write'] else ['unknown'] end) as access
                    from touched
                )
                select data, program, access, list(distinct run), list(distinct component)
                from told group by data, program, access"""
            for data, program, access, runs, components in cursor.sql(statement).fetchall():
                yield Relation(data, program, access, runs, [component for component in components if component])


class Times(NamedTuple):
    """SQL over all rows of a run: its times in milliseconds and its status, null where there is none.

    Attributes:
        began: its start, else its first access, else its stop: what a window asks for.
    """

    started: str
    ended: str
    status: str
    began: str

    @classmethod
    def of(cls, as_of: int | None) -> Times:
        """What stands of the facts; AS OF a time, of those that speak of it or of an earlier one.

        A run stops at its greatest stop. As of an earlier time it has not stopped: whatever lesser stop was told, and
        in whatever order, it went on.
        """
        start, first, stop = (f"epoch_ms({time})" for time in ("min(start)", "min(first_access)", "max(stop)"))
        status = "max_by(status, (epoch_us(stop), status))"
        if as_of is not None:
            status = f"case when {stop} <= {int(as_of)} then {status} end"
            start, first, stop = (f"case when {time} <= {int(as_of)} then {time} end" for time in (start, first, stop))
        return cls(f"coalesce({start}, {first})", stop, status, f"coalesce({start}, {first}, {stop})")


def told_by(as_of: int | None) -> str:
    """A further condition on an access, that it happened by a time; nothing where none is asked for."""
    return "" if as_of is None else f" and epoch_ms(happened_at) <= {int(as_of)}"


def in_window(start_ms: int, end_ms: int) -> str:
    """Whether a run counts: it starts before the end and has not stopped before the start."""
    return f"began < {int(end_ms)} and (ended is null or ended >= {int(start_ms)})"
