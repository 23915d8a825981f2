"""`journal.lineage`: programs and data that touched each other, runs, accesses, the latest write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol

from ...lake_client import ConnectedJournal, Point, ReadOptions, point
from ...schemas.errors import RenamedError
from ...schemas.urn import Urn
from .questions import Data, LineageQuestion, RunQuestion, RunsQuestion, WriteQuestion
from .walk import everything

if TYPE_CHECKING:
    from ...lake.reading import LakeReader
    from .queries import LineageQueries
    from .values import LineagePage, RunList


WRITTEN_KINDS = frozenset({"dataset", "stream"})
"""Kinds whose readers are also told of the latest write."""


class LineageClient:
    """Queries about lineage.

    Args:
        journal: whose lineage.
    """

    FORMER: ClassVar[Mapping[str, str]] = {
        "lineage_runs": "lineage.runs_in", "run": "lineage.run", "runs": "lineage.runs", "accesses": "lineage.accesses",
        "latest_write": "lineage.latest_write", "lineages": "lineage.queries",
    }  # fmt: skip
    """What the journal itself had under other names."""

    def __init__(self, journal: ConnectedJournal) -> None:
        self._journal = journal

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise RenamedError("journal.lineage(…)", "journal.lineage.of(…)")

    def of(
        self, data: Data, start: Any = None, end: Any = None, *, levels: int = 10, direction: str = "both",
        limit: int = 1_000, as_at: Point | None = None, as_of: Any = None, final_only: bool = False,
        tenant: str | None = None, visible: Callable[[str], bool] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Which programs accessed data, what else they accessed, and so on, in the source's shape.

        Args:
            data: URN of a dataset, stream, file or any other data, or several URNs.
            start, end: the window: milliseconds UTC, aware datetimes, or text (ISO 8601, UTC without a zone; or a
                number, milliseconds above 1e11 and seconds otherwise); from the beginning, to the end of time. A run
                counts when it started before the end and had not stopped before the start.
            levels: how many times to go from data to programs to data.
            direction: "both"; "upstream", to the programs that wrote it and what they read; "downstream", the reverse.
            limit: at most this many nodes; a larger answer has `"partial": true` and says why.
            as_at: as the journal recorded it then (see `show`). The answer has `"final": false` while facts that
                arrive later may change it.
            as_of: only facts about this time or an earlier one (as the window's ends); a run that stopped later has
                not stopped. With `as_at`: what was known at one time about another.
            final_only: refuse such an answer.
            tenant: `journal.tenant` of the settings if None.
            visible: whether an entity may be seen, by its URN. What may not is neither entered nor named, and the
                answer has `"withheld": true` where the lineage at any time has such, or a limit cuts it; None:
                everything may.
        Raises:
            InputError: an argument is not valid.
            NotFinalError: the lake has not reached that point, or `final_only`.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        queries = self.queries
        question = LineageQuestion.of(data, start, end, levels=levels, direction=direction, limit=limit, as_of=as_of)
        return queries.of(
            self._tenant(tenant), question, as_at=point(as_at), final_only=final_only,
            visible=visible or everything,
        )  # fmt: skip

    def runs_in(
        self, data: Data, start: Any = None, end: Any = None, *, levels: int = 10, direction: str = "both",
        limit: int = 1_000, as_at: Point | None = None, as_of: Any = None, tenant: str | None = None,
        visible: Callable[[str], bool] | None = None,
    ) -> RunList:  # fmt: skip
        """Every run in the lineage of data, as `run` returns it, with all of its accesses. Arguments as `of`.

        Where there are more nodes than `limit` the list's `partial` says so; else it is None. Runs that may not be seen
        are left out; one with accesses that may not has `"withheld": true`.
        """
        queries = self.queries
        question = LineageQuestion.of(data, start, end, levels=levels, direction=direction, limit=limit, as_of=as_of)
        return queries.runs_in(
            self._tenant(tenant), question, as_at=point(as_at), visible=visible or everything
        )  # fmt: skip

    def run(
        self, run: Urn | str, *, as_at: Point | None = None, as_of: Any = None, tenant: str | None = None,
        visible: Callable[[str], bool] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """A run's times (stop is -1 if there is none), its status, and the metadata recorded with its accesses; with
        `"final": false` as `of`.

        Args:
            visible: as of `of`: what was recorded with accesses to data that may not be seen is left out.
        Raises:
            UnknownEntityError: no fact names it (then). Otherwise as `of`.
        """
        queries, question = self.queries, RunQuestion.of(run, as_of=as_of)
        return queries.run(
            self._tenant(tenant), question, as_at=point(as_at), visible=visible or everything
        )  # fmt: skip

    def runs(
        self, program: Urn | str, start: Any = None, end: Any = None, *, limit: int = 100, cursor: str | None = None,
        as_at: Point | None = None, as_of: Any = None, tenant: str | None = None,
        visible: Callable[[str], bool] | None = None,
    ) -> LineagePage:  # fmt: skip
        """Runs of a program in a window (as for `of`), newest first: `.items`, and `.cursor` for more.

        Pages are all as at the first one. Of what may not be seen nothing is in them, and one that lacks something for
        that says `.withheld`. `.final` is False where facts that arrive later may change the runs as at that time.
        Raises: InputError, NotFinalError.
        """
        queries, question = self.queries, RunsQuestion.of(program, start, end, as_of=as_of)
        return queries.runs(
            self._tenant(tenant), question, limit=limit, cursor=cursor, as_at=point(as_at),
            visible=visible or everything,
        )  # fmt: skip

    def accesses(
        self, run: Urn | str, *, limit: int = 100, cursor: str | None = None, as_at: Point | None = None,
        as_of: Any = None, tenant: str | None = None, visible: Callable[[str], bool] | None = None,
    ) -> LineagePage:  # fmt: skip
        """What a run accessed, sorted by data. Pages and errors as `runs`; UnknownEntityError for an unknown run."""
        queries, question = self.queries, RunQuestion.of(run, as_of=as_of)
        return queries.accesses(
            self._tenant(tenant), question, limit=limit, cursor=cursor, as_at=point(as_at),
            visible=visible or everything,
        )  # fmt: skip

    def latest_write(
        self, data: Urn | str, *, as_at: Point | None = None, as_of: Any = None, tenant: str | None = None
    ) -> dict[str, Any] | None:
        """The latest write to data that lineage knows: {"at", "program", "run", "source"}; None: none."""
        return self.queries.latest_write(self._tenant(tenant), WriteQuestion.of(data, as_of=as_of), as_at=point(as_at))

    @property
    def queries(self) -> LineageQueries:
        """The queries over lineage. Raises: MissingExtraError: as `lake`."""
        return self._journal.opened("lineage", _opened)

    def _tenant(self, tenant: str | None) -> str:
        return tenant or self._journal.settings.journal.tenant


class WithLineage(ConnectedJournal, Protocol):
    """A journal that has this as an object of its own."""

    @property
    def lineage(self) -> LineageClient:
        """`Journal.lineage`."""


CLIENT: Final = LineageClient
"""What `journal.lineage` is."""


def written_properties(journal: ConnectedJournal, entity: Urn, asked: ReadOptions) -> dict[str, str]:
    """The latest write to an entity as properties; none where it is not of a kind that has one."""
    if entity.kind not in WRITTEN_KINDS:
        return {}
    as_at, as_of, tenant = asked.get("as_at"), asked.get("as_of"), asked.get("tenant")
    write = LineageClient(journal).latest_write(entity, as_at=as_at, as_of=as_of, tenant=tenant)
    if write is None:
        return {}
    who = {f"latest_write_{name}": write[name] for name in ("program", "source") if write[name] is not None}
    return {**who, "latest_write_time": str(write["at"])}


def _opened(lake: LakeReader) -> LineageQueries:
    from .queries import LineageQueries

    return lake.beside(LineageQueries)
