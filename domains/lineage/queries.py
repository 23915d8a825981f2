"""What the lake tells of lineage: who touched what, and of runs their times, accesses and recorded metadata.

Every answer is that of one cut: the journal table's marks, or an earlier point, so nobody sees half a batch. Facts only
ever add up (a start only falls, a stop only rises, an access stays), so what stood at a cut is the least start, the
greatest stop and every access of the rows inside it, without looking for the newest of each. The walk itself is
`walk`'s, the shapes of the answers are `values`'. A deleted app, program, run or piece of data takes no lineage along:
`entities` is not even read.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from ...lake.cuts import At, Bounds, time_below
from ...lake.queries import Queries, Seen
from ...lake.selecting import select_rows
from ...lake.table import quoted
from ...lake.views.views import asked_anew
from ...schemas.errors import UnknownEntityError
from ...schemas.positions import Position
from ...schemas.urn import Urn
from .cursors import OF_ACCESSES, OF_RUNS, cursor_of, identity_of, read_cursor
from .latest import lacks_writes, latest_write_of
from .questions import MOST_PAGE, PAGE, LineageQuestion, RunQuestion, RunsQuestion, WriteQuestion, check_limit
from .relations import LakeRelations, Times, in_window, told_by
from .values import LineagePage, RunList, access_json, lineage_json, recorded_json, run_json, write_json
from .walk import Visible, Walked, everything, walk
from .withholding import seen_rows


class LineageQueries(Queries):
    """Reads lineage from the lake; its arguments are those of `Queries`."""

    TOPIC = "catalog"
    TABLES = ("runs", "accesses", "relations", "external_writes", "writes")

    def of(
        self, tenant: str, question: LineageQuestion, *, as_at: At | None = None, final_only: bool = False,
        visible: Visible = everything,
    ) -> dict[str, Any]:  # fmt: skip
        """Who touched the data in a window of time, what else these touched, and so on.

        Args:
            as_at: what the journal had recorded by that point (see `cuts.At`); None: all that the lake holds.
            final_only: refuse an answer that facts still to come could change.
            visible: what may be seen (see `walk.walk`).
        Returns:
            The source's shape (see `values.lineage_json`); with `"final": false` where `as_at` is a time that is not
            final yet.
        Raises:
            NotFinalError: the lake has not passed that point, or `final_only` and it is not final.
            UnavailableError: there is no lake.
        """
        walked, bounds = self._walked(tenant, question, as_at, final_only=final_only, visible=visible)
        answer = lineage_json(walked, start_ms=question.start_ms, end_ms=question.end_ms)
        return answer if as_at is None or bounds.final else {**answer, "final": False}

    @asked_anew
    def _walked(
        self, tenant: str, question: LineageQuestion, as_at: At | None, *, final_only: bool = False,
        visible: Visible = everything,
    ) -> tuple[Walked, Bounds]:  # fmt: skip
        """The relations of `of`, and the cut that they are of."""
        seen = self._seen(as_at, final_only=final_only)
        walked = self._walk(tenant, question, seen, visible)
        whole = question.at_any_time()
        if visible is not everything and (question != whole or as_at is not None):
            # in whichever window something hidden is, the answer is the same: windows would tell when it was
            walked = walked._replace(withheld=self._walk(tenant, whole, self._now(seen), visible).withheld)
        return walked, seen.bounds

    def _walk(self, tenant: str, question: LineageQuestion, seen: Seen, visible: Visible) -> Walked:
        data, start_ms, end_ms, levels, direction, limit, as_of = question
        port = LakeRelations(seen.view, tenant, seen.bounds, (start_ms, end_ms), levels, as_of)
        roots = [str(root) for root in data]
        return walk(roots, port, levels=levels, limit=limit, direction=direction, visible=visible)

    def _now(self, seen: Seen) -> Seen:
        """All that a view holds, whatever point was asked for."""
        return Seen(seen.view, self._cuts(seen.view).bounds(self.TOPIC, None))

    def runs_in(
        self, tenant: str, question: LineageQuestion, *, as_at: At | None = None, visible: Visible = everything
    ) -> RunList:
        """Every run in the lineage of data, by program and run, with all of its accesses. Errors as of `of`.

        Args:
            visible: as of `of`; a run with accesses that may not be seen, at whatever time, has `"withheld": true`.
        """
        walked, _ = self._walked(tenant, question, as_at, visible=visible)
        found = RunList(partial=walked.partial)
        for run in sorted({run for relation in walked.relations for run in relation.runs}):
            of_run = RunQuestion(Urn.parse(run), question.as_of)
            page = self.accesses(tenant, of_run, limit=MOST_PAGE, as_at=as_at, visible=visible)
            accesses, withheld = page.items, page.withheld
            while page.cursor is not None:
                page = self.accesses(tenant, of_run, limit=MOST_PAGE, cursor=page.cursor, as_at=as_at, visible=visible)
                accesses += page.items
                withheld = withheld or page.withheld
            told = self.run(tenant, of_run, as_at=as_at, visible=visible)
            found.append(({**told, "withheld": True} if withheld else told, accesses))
        return found

    @asked_anew
    def run(
        self, tenant: str, question: RunQuestion, *, as_at: At | None = None, visible: Visible = everything
    ) -> dict[str, Any]:
        """A run's times and status, and the metadata that was recorded with its accesses, by scope.

        Args:
            visible: which data may be seen; what was recorded with accesses to others is left out, and the answer has
                `"withheld": true` where there are any, at whatever time.
        Returns:
            {"run", "program", "id", "start", "stop", "status", "metadata"}; stop is -1 while there is none. Of several
            accesses that stand the tags are joined, and of each property the value of the latest one stands. With
            `"final": false` as `of`.
        Raises:
            UnknownEntityError: no fact names it (at that point, by that time). Others as `of`.
        """
        run, as_of = question
        seen = self._seen(as_at)
        row = self._known(tenant, run, seen, as_of)
        recorded = select_rows(
            seen.view,
            "accesses",
            {"tenant": tenant, "run": str(run)},
            f"""with told as (select metadata, epoch_ms(happened_at) as at_ms, event_id, data, access, component,
                    row_number() over (partition by data, access, component order by happened_at, event_id) as place
                from rows where {seen.bounds.sql()}{told_by(as_of)})
            select data, metadata from told where place = 1 and metadata is not null
            order by at_ms, event_id, data, access, component""",
        )
        seen_ones = [orjson.loads(metadata) for data, metadata in recorded if visible(data)]
        told = {**run_json(row), "metadata": recorded_json(seen_ones)}
        if self._hides(seen, "accesses", "data", {"tenant": tenant, "run": str(run)}, visible):
            told["withheld"] = True
        return told if _is_final(as_at, seen) else {**told, "final": False}

    @asked_anew
    def runs(
        self, tenant: str, question: RunsQuestion, *, limit: int = PAGE, cursor: str | None = None,
        as_at: At | None = None, visible: Visible = everything,
    ) -> LineagePage:  # fmt: skip
        """The runs of a program in a window of time, the last begun first.

        Pages are all of the cut of the first one, so they skip and double nothing while facts arrive.

        Args:
            limit: most runs of this page.
            cursor: that of the page before; asked for the same program, window and point.
            visible: which runs may be seen; others are left out, and each page says `withheld` where the program
                has any, at whatever time.
        Raises:
            InputError: the number cannot be, or the cursor is not of this question. Others as `of`.
        """
        check_limit(limit)
        program, start_ms, end_ms, as_of = question
        identity = identity_of(tenant, question, as_at)
        seen, after = self._begun(cursor, identity, as_at, OF_RUNS)
        key, window = {"tenant": tenant, "program": str(program)}, in_window(start_ms, end_ms)

        def read(place: list[Any] | None, count: int) -> list[dict[str, Any]]:
            having = window
            if place is not None:
                began, run = int(place[0]), quoted(place[1])
                having += f" and (began < {began} or (began = {began} and run > {run}))"
            rest = f"having {having} order by began desc, run limit {count}"
            return [*self._run_rows(seen, key, rest, as_of)]

        rows = seen_rows(read, _place_of_run, lambda row: visible(row["run"]), after, limit + 1)
        withheld = self._hides(seen, "runs", "run", key, visible)
        following = cursor_of(identity, _place_of_run(rows[limit - 1]), seen.bounds) if len(rows) > limit else None
        items = [run_json(row) for row in rows[:limit]]
        return LineagePage(items, self._named(following), withheld, _is_final(as_at, seen))

    @asked_anew
    def accesses(
        self, tenant: str, question: RunQuestion, *, limit: int = PAGE, cursor: str | None = None,
        as_at: At | None = None, visible: Visible = everything,
    ) -> LineagePage:  # fmt: skip
        """What a run touched: {"data", "access", "at", "component", "metadata"} of each access, sorted by the first
        two and the component; the last two are null where nothing was said.

        Args, errors and pages: as `runs`, `visible` says which data may be seen; an unknown run is an
        UnknownEntityError.
        """
        check_limit(limit)
        run, as_of = question
        identity = identity_of(tenant, question, as_at)
        seen, after = self._begun(cursor, identity, as_at, OF_ACCESSES)
        self._known(tenant, run, seen, as_of)

        def read(place: list[Any] | None, count: int) -> list[_Touch]:
            beyond = "true" if place is None else f"(data, access, component) > ({', '.join(map(quoted, place))})"
            rows = select_rows(
                seen.view,
                "accesses",
                {"tenant": tenant, "run": str(run)},
                f"""with told as (select data, access, component, epoch_ms(happened_at) as at_ms, metadata,
                        row_number() over (partition by data, access, component order by happened_at, event_id) as place
                    from rows where {seen.bounds.sql()}{told_by(as_of)})
                select data, access, component, at_ms, metadata from told where place = 1 and {beyond}
                order by data, access, component limit {count}""",
            )
            return [_Touch(*row) for row in rows]

        rows = seen_rows(read, _place_of_touch, lambda row: visible(row.data), after, limit + 1)
        withheld = self._hides(seen, "accesses", "data", {"tenant": tenant, "run": str(run)}, visible)
        following = cursor_of(identity, _place_of_touch(rows[limit - 1]), seen.bounds) if len(rows) > limit else None
        items = [row.json() for row in rows[:limit]]
        return LineagePage(items, self._named(following), withheld, _is_final(as_at, seen))

    @asked_anew
    def latest_write(self, tenant: str, question: WriteQuestion, *, as_at: At | None = None) -> dict[str, Any] | None:
        """The latest write to data that any fact tells of, or None.

        Returns:
            {"at", "program", "run", "source"}: of a run's access the first three, of a write to a stream from outside
            `at` and `source`; the others are null. Of several at one time a run's, then the greatest URN.
        """
        data, as_of = question
        seen = self._seen(as_at, names=("writes", "external_writes") if data.kind == "stream" else ("writes",))
        if lacks_writes(*seen):
            seen = self._seen(as_at)
        writes = [_Write(*write) for write in latest_write_of(*seen, tenant, str(data), as_of)]
        if data.kind == "stream":
            rows = select_rows(
                seen.view,
                "external_writes",
                {"tenant": tenant, "stream": str(data)},
                f"""select min(epoch_ms(happened_at)) as first, source from rows
                where {seen.bounds.sql()}{told_by(as_of)}
                group by source, day order by first desc, source desc limit 1""",
            )
            writes += [_Write(at_ms, source=source) for at_ms, source in rows]
        if not writes:
            return None
        latest = max(writes, key=_by_time)
        return write_json(latest.at_ms, latest.run, latest.program, latest.source)

    def _hides(self, seen: Seen, table: str, name: str, key: Mapping[str, str], visible: Visible) -> bool:
        """Whether any row of a key may not be seen, wherever a page begins and ends and at whatever time: whoever could
        choose that, as cursors and points do, would learn by bisection what is hidden."""
        if visible is everything:
            return False
        now = self._now(seen).bounds
        rows = select_rows(seen.view, table, key, f"select distinct {name} from rows where {now.sql()}")
        return not all(visible(str(row[0])) for row in rows)

    def _known(self, tenant: str, run: Urn, seen: Seen, as_of: int | None) -> dict[str, Any]:
        for row in self._run_rows(seen, {"tenant": tenant, "run": str(run)}, "having began is not null", as_of):
            return row
        by = "" if as_of is None else " by that time"
        raise UnknownEntityError(
            str(run), hint=f"There are no facts about this run{by}; `runs` lists the runs of a program.",
            final=seen.bounds.final,
        )  # fmt: skip

    def _run_rows(self, seen: Seen, key: Mapping[str, str], rest: str, as_of: int | None) -> Iterator[dict[str, Any]]:
        """What stood of runs: run, program, start, stop, status, and `began` (what the window asks for)."""
        times = Times.of(as_of)
        statement = f"""
            select run, any_value(program) as program, {times.started} as started, {times.ended} as ended,
                {times.status} as how, {times.began} as began
            from rows where {seen.bounds.sql()} group by run {rest}"""
        for row in select_rows(seen.view, "runs", key, statement):
            yield dict(zip(("run", "program", "start", "stop", "status", "began"), row, strict=True))

    def _begun(
        self, cursor: str | None, identity: str, as_at: At | None, place: tuple[type, ...]
    ) -> tuple[Seen, list[Any] | None]:  # fmt: skip
        """What is seen by a page, and where it begins."""
        if cursor is None:
            return self._seen(as_at), None
        after, bounds = read_cursor(self._whole(cursor), identity, self._topic, place)
        view = self._seen_again(bounds).view
        passed = [
            time_below(view.journal, Position(self._topic, partition, bounds.below[partition])) > until_ms
            for partition, until_ms in bounds.until_ms.items()
        ]  # what a cursor does not say of its page
        return Seen(view, replace(bounds, final=all(passed))), after


def _is_final(as_at: At | None, seen: Seen) -> bool:
    """Whether facts that arrive later cannot change an answer, as at the point that it was asked for, if any."""
    return as_at is None or seen.bounds.final


class _Touch(NamedTuple):
    """An access of a run, as the table has it."""

    data: str
    access: str
    component: str
    at_ms: int
    metadata: str | None

    def json(self) -> dict[str, Any]:
        """As an answer has it."""
        recorded = None if self.metadata is None else orjson.loads(self.metadata)
        return access_json(self.data, self.access, self.component, self.at_ms, recorded)


def _place_of_touch(row: _Touch) -> list[Any]:
    return [row.data, row.access, row.component]


def _place_of_run(row: Mapping[str, Any]) -> list[Any]:
    return [row["began"], row["run"]]


class _Write(NamedTuple):
    """A write to data: by a run of a program, or from outside."""

    at_ms: int
    run: str = ""
    program: str = ""
    source: str | None = None


_by_time = attrgetter("at_ms", "run", "program")
"""Of several at one time a run's, then the greatest URN."""
