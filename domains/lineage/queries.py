"""What the lake tells of lineage: who touched what, and of runs their times, accesses and recorded metadata.

Every answer is that of one cut: the journal table's marks, or an earlier point, so nobody sees half a batch. Facts only
ever add up (a start only falls, a stop only rises, an access stays), so what stood at a cut is the least start, the
greatest stop and every access of the rows inside it, without looking for the newest of each. The walk itself is
`lineage_walk`'s. A deleted app, program, run or piece of data takes no lineage along: `entities` is not even read.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import orjson

from ...lake.columns import JOURNAL_TABLE
from ...lake.cuts import At, Bounds, Cuts
from ...lake.reading import LakeReader
from ...lake.selecting import select_rows
from ...lake.storage.damage import asked_again
from ...lake.tables import quoted
from ...schemas.errors import InputError, NotFinalError, UnknownEntityError
from ...schemas.urn import Urn
from .events import NO_DATA
from .latest import latest_write_of
from .questions import (
    LEVELS,
    MOST_NODES,
    MOST_PAGE,
    NODES,
    PAGE,
    Asked,
    Page,
    check_as_of,
    check_kind,
    check_number,
    check_window,
)
from .relations import LakeRelations, Times, in_window, told_by
from .walk import DIRECTIONS, Direction, Walked, document, run_id, walk


class LineageReader(LakeReader):
    """Lineage of a lake; its arguments are those of LakeReader."""

    TABLES = ("runs", "accesses", "relations", "external_writes")

    @classmethod
    def beside(cls, reader: LakeReader) -> LineageReader:
        """A reader of the same lake as another one's."""
        return cls(reader._lake, reader._names, reader._partitions)

    def lineage(
        self,
        tenant: str,
        data: Urn,
        start_ms: int,
        end_ms: int,
        *,
        levels: int = LEVELS,
        direction: str = "both",
        limit: int = NODES,
        at: At | None = None,
        as_of: int | None = None,
        final_only: bool = False,
    ) -> dict[str, Any]:
        """Who touched the data in a window of time, what else these touched, and so on.

        Args:
            data: where to begin.
            start_ms, end_ms: a run counts when it starts before the end and has not stopped before the start,
                milliseconds UTC.
            levels: how often to go from data to programs to data.
            direction: both; or upstream, to who wrote it and what these read; or downstream, the reverse.
            limit: most nodes, data and programs together.
            at: as the journal told it at that point (see `cuts.At`); None: all that the lake holds.
            as_of: only facts about this time or an earlier one, milliseconds UTC; a run that stopped later has not
                stopped. None: all facts.
            final_only: refuse an answer that facts still to come could change.
        Returns:
            The source's shape (see `lineage_walk.document`); with `"final": false` where `at` is a time that is not
            final yet.
        Raises:
            InputError: a bound or number cannot be, or the URN is no data's.
            NotFinalError: the lake has not passed that point, or `final_only` and it is not final.
        """
        found, seen = self.walked(
            tenant,
            data,
            start_ms,
            end_ms,
            levels=levels,
            direction=direction,
            limit=limit,
            at=at,
            as_of=as_of,
            final_only=final_only,
        )
        answer = document(found, start_ms=start_ms, end_ms=end_ms)
        return answer if at is None or seen.final else {**answer, "final": False}

    @asked_again
    def walked(
        self,
        tenant: str,
        data: Urn,
        start_ms: int,
        end_ms: int,
        *,
        levels: int = LEVELS,
        direction: str = "both",
        limit: int = NODES,
        at: At | None = None,
        as_of: int | None = None,
        final_only: bool = False,
    ) -> tuple[Walked, Bounds]:
        """The relations of `lineage`, and the cut that they are of. Arguments and errors as there."""
        if data.kind in NO_DATA:
            raise InputError(f"Lineage begins at data; {data} is none.", hint="`runs` tells of a program's runs.")
        check_window(start_ms, end_ms)
        check_as_of(as_of)
        check_number("levels", levels, 1, 1_000)
        check_number("limit", limit, 1, MOST_NODES)
        if direction not in DIRECTIONS:
            raise InputError(f"The direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}.")
        way = cast(Direction, direction)
        seen = self._seen(at, final_only=final_only)
        port = LakeRelations(self._lake, tenant, seen, (start_ms, end_ms), levels, as_of)
        return walk(str(data), port, levels=levels, limit=limit, direction=way), seen

    def lineage_runs(
        self, tenant: str, data: Urn, start_ms: int, end_ms: int, *, at: At | None = None, as_of: int | None = None,
        **asked: Any,
    ) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:  # fmt: skip
        """Every run in the lineage of data, by program and run, with all of its accesses. Arguments as `lineage`."""
        found = self.walked(tenant, data, start_ms, end_ms, at=at, as_of=as_of, **asked)[0]
        for run in sorted({run for relation in found.relations for run in relation.runs}):
            one = Urn.parse(run)
            page = self.accesses(tenant, one, limit=MOST_PAGE, at=at, as_of=as_of)
            accesses = page.items
            while page.cursor is not None:
                page = self.accesses(tenant, one, limit=MOST_PAGE, cursor=page.cursor, at=at, as_of=as_of)
                accesses += page.items
            yield self.run(tenant, one, at=at, as_of=as_of), accesses

    @asked_again
    def run(self, tenant: str, run: Urn, *, at: At | None = None, as_of: int | None = None) -> dict[str, Any]:
        """A run's times and status, and the metadata that was recorded with its accesses, by scope.

        Returns:
            {"run", "program", "id", "start", "stop", "status", "metadata"}; stop is -1 while there is none. Of several
            accesses that stand the tags are joined, and of each property the value of the latest one stands.
        Raises:
            InputError: it is no run's URN.
            UnknownEntityError: no fact names it (at that point, by that time).
        """
        check_kind(run, "run")
        check_as_of(as_of)
        seen = self._seen(at)
        found = self._known(tenant, run, seen, as_of)
        recorded = select_rows(
            self._lake,
            "accesses",
            {"tenant": tenant, "run": str(run)},
            f"""with told as (select metadata, epoch_ms(happened_at) as at_ms, event_id, data, access, component,
                    row_number() over (partition by data, access, component order by happened_at, event_id) as place
                from rows where {seen.sql()}{told_by(as_of)})
            select metadata from told where place = 1 and metadata is not null
            order by at_ms, event_id, data, access, component""",
        )
        return {**_run_json(found), "metadata": _joined(orjson.loads(one) for (one,) in recorded)}

    @asked_again
    def runs(
        self,
        tenant: str,
        program: Urn,
        start_ms: int,
        end_ms: int,
        *,
        limit: int = PAGE,
        cursor: str | None = None,
        at: At | None = None,
        as_of: int | None = None,
    ) -> Page:
        """The runs of a program in a window of time (as `lineage` has it), the last begun first.

        Pages are all of the cut of the first one, so they skip and double nothing while facts arrive.

        Args:
            limit: most runs of this page.
            cursor: that of the page before; asked for the same program, window and point.
        Raises:
            InputError: it is no program's URN, a bound or number cannot be, or the cursor is not of this question.
        """
        check_kind(program, "program")
        check_window(start_ms, end_ms)
        check_number("limit", limit, 1, MOST_PAGE)
        check_as_of(as_of)
        asked = Asked(f"runs as of {as_of}", tenant, str(program), start_ms, end_ms, at)
        seen, after = self._resumed(cursor, asked, at)
        having = in_window(start_ms, end_ms)
        if after is not None:
            began, run = int(after[0]), quoted(after[1])
            having += f" and (began < {began} or (began = {began} and run > {run}))"
        rest = f"having {having} order by began desc, run limit {limit + 1}"
        found = [*self._run_rows(seen, {"tenant": tenant, "program": str(program)}, rest, as_of)]
        last = found[limit - 1] if len(found) > limit else None
        following = None if last is None else asked.cursor(seen, [last["began"], last["run"]])
        return Page([_run_json(one) for one in found[:limit]], following)

    @asked_again
    def accesses(
        self, tenant: str, run: Urn, *, limit: int = PAGE, cursor: str | None = None, at: At | None = None,
        as_of: int | None = None,
    ) -> Page:  # fmt: skip
        """What a run touched: {"data", "access", "at", "component", "metadata"} of each access, sorted by the first
        two and the component; the last two are null where nothing was said.

        Args, errors and pages: as `runs`; an unknown run is an UnknownEntityError.
        """
        check_kind(run, "run")
        check_number("limit", limit, 1, MOST_PAGE)
        check_as_of(as_of)
        asked = Asked(f"accesses as of {as_of}", tenant, str(run), 0, 0, at)
        seen, after = self._resumed(cursor, asked, at)
        self._known(tenant, run, seen, as_of)
        beyond = "true"
        if after is not None:
            beyond = f"(data, access, component) > ({', '.join(map(quoted, after))})"
        rows = select_rows(
            self._lake,
            "accesses",
            {"tenant": tenant, "run": str(run)},
            f"""with told as (select data, access, component, epoch_ms(happened_at) as at_ms, metadata,
                    row_number() over (partition by data, access, component order by happened_at, event_id) as place
                from rows where {seen.sql()}{told_by(as_of)})
            select data, access, component, at_ms, metadata from told where place = 1 and {beyond}
            order by data, access, component limit {limit + 1}""",
        )
        following = asked.cursor(seen, list(rows[limit - 1][:3])) if len(rows) > limit else None
        return Page([_access_json(*row) for row in rows[:limit]], following)

    @asked_again
    def latest_write(
        self, tenant: str, data: Urn, *, at: At | None = None, as_of: int | None = None
    ) -> dict[str, Any] | None:
        """The latest write to data that any fact tells of, or None.

        Args:
            at, as_of: as of `lineage`, but that `as_of` may be any time.
        Returns:
            {"at", "program", "run", "source"}: of a run's access the first three, of a write to a stream from outside
            `at` and `source`; the others are null. Of several at one time a run's, then the greatest URN.
        """
        others = ("external_writes",) if data.kind == "stream" else ()
        self._refresh((JOURNAL_TABLE, "writes", *others))
        seen = Cuts(self._lake, self._names, self._partitions).bounds("catalog", at)
        accesses = latest_write_of(self._lake, tenant, str(data), seen, as_of)
        found = [(at_ms, run, program, None) for at_ms, run, program in accesses]
        if data.kind == "stream":
            rows = select_rows(
                self._lake,
                "external_writes",
                {"tenant": tenant, "stream": str(data)},
                f"""select min(epoch_ms(happened_at)) as first, source from rows where {seen.sql()}{told_by(as_of)}
                group by source, day order by first desc, source desc limit 1""",
            )
            found += [(at_ms, "", "", source) for at_ms, source in rows]
        if not found:
            return None
        at_ms, run, program, source = max(found, key=lambda one: one[:3])
        return {"at": at_ms, "program": program or None, "run": run or None, "source": source}

    def _known(self, tenant: str, run: Urn, seen: Bounds, as_of: int | None) -> dict[str, Any]:
        for found in self._run_rows(seen, {"tenant": tenant, "run": str(run)}, "having began is not null", as_of):
            return found
        by = "" if as_of is None else " by that time"
        raise UnknownEntityError(str(run), hint=f"Nothing stands of this run{by}; `runs` lists those of a program.")

    def _run_rows(self, seen: Bounds, key: Mapping[str, str], rest: str, as_of: int | None) -> Iterator[dict[str, Any]]:
        """What stood of runs: run, program, start, stop, status, and `began` (what the window asks for)."""
        times = Times.of(as_of)
        statement = f"""
            select run, any_value(program) as program, {times.started} as started, {times.ended} as ended,
                {times.status} as how, {times.began} as began
            from rows where {seen.sql()} group by run {rest}"""
        for row in select_rows(self._lake, "runs", key, statement):
            yield dict(zip(("run", "program", "start", "stop", "status", "began"), row, strict=True))

    def _seen(self, at: At | None, *, final_only: bool = False) -> Bounds:
        """What is seen at a point of the journal. Raises: NotFinalError, InvalidPositionError, InputError."""
        bounds = self._cuts().bounds("catalog", at)
        if final_only and not bounds.final:
            raise NotFinalError("Facts still to come can change that answer.")
        return bounds

    def _resumed(self, cursor: str | None, asked: Asked, at: At | None) -> tuple[Bounds, list[Any] | None]:
        """The cut of a page and where it begins."""
        if cursor is None:
            return self._seen(at), None
        bounds, after = asked.resumed(cursor, self._names.journal("catalog"))
        self._cuts().check(bounds)
        return bounds, after

    def _cuts(self) -> Cuts:
        self._refresh()
        return Cuts(self._lake, self._names, self._partitions)


# JSON values


def _run_json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run": row["run"],
        "program": row["program"],
        "id": run_id(row["run"]),
        "start": row["start"],
        "stop": -1 if row["stop"] is None else row["stop"],
        "status": row["status"],
    }


def _access_json(data: str, access: str, component: str, at_ms: int, metadata: str | None) -> dict[str, Any]:
    recorded = None if metadata is None else orjson.loads(metadata)
    return {"data": data, "access": access, "at": at_ms, "component": component or None, "metadata": recorded}


def _joined(recorded: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Metadata of several accesses, the latest last."""
    properties: dict[str, dict[str, str]] = {"user": {}, "system": {}}
    tags: dict[str, set[str]] = {"user": set(), "system": set()}
    for one in recorded:
        for scope in properties:
            properties[scope] |= one[scope]["properties"]
            tags[scope] |= {*one[scope]["tags"]}
    return {
        scope: {"properties": dict(sorted(held.items())), "tags": sorted(tags[scope])}
        for scope, held in properties.items()
    }
