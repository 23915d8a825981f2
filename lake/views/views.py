"""Views of the lake: one is taken for all who ask meanwhile, replaced by the next one and never changed.

A question takes one view and reads nothing else, so what it is told is of one moment whatever other threads do. The
journal table is looked at first: a batch is committed there last, so every row that its marks speak of stands in the
tables that are looked at afterwards. While it has not moved, nothing that a reader may see has changed, and the view
stays; when it has, only the commits since are read, and tables that have not moved keep what was read of them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ...schemas.errors import DamagedTableError, StaleReadError, UnavailableError
from ..columns import JOURNAL_TABLE
from ..declared import SPECS
from ..storage.damage import damage_of_log
from ..storage.faults import as_read_error
from ..table import Table
from ..tables import Lake
from .log import LogReader, LogState
from .table import MarkedView, TableView

_MOST_AGE_S: Final = 1_800.0
"""Half of the shortest retention of a vacuum: what a younger view names is still there."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True, eq=False)
class View:
    """The lake at one moment.

    Attributes:
        path: where the lake is.
        generation: how often its tables were swapped.
        journal: the journal table, with marks and clocks.
        tables: the tables by name, the journal's too: those that this process has asked for.
        damaged: why the others of these cannot be read.
        taken_s: when the tables were looked at (`time.monotonic`).
    """

    path: str
    generation: int
    journal: MarkedView
    tables: Mapping[str, TableView] = field(repr=False)
    damaged: Mapping[str, DamagedTableError] = field(repr=False)
    taken_s: float = field(repr=False)


class Views:
    """Takes views of a lake; threads share it.

    Args:
        lake: where the tables are; nobody else uses it.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._lock = Lock()
        self._looking = Lock()
        self._next: Future[View] | None = None
        self._wanted: set[str] = {JOURNAL_TABLE}
        self._view: View | None = None
        self._states: dict[str, tuple[DeltaTable, LogState]] = {}

    def take(self, names: Collection[str] = tuple(SPECS)) -> View:
        """The lake as it stands now, or a little later.

        Whoever asks while a look at the lake is under way shares the next one: the present one may have begun before
        what the question is about was written.

        Args:
            names: tables that are asked for beside the journal's; a view has all that this process ever asked for.
        Raises:
            UnavailableError: there is no lake.
            DamagedTableError: the log of one of these tables is damaged, or it is gone.
        """
        with self._lock:
            self._wanted.update(names)
            asked, mine = self._next, self._next is None
            if asked is None:
                asked = self._next = Future()
        if mine:
            self._answer(asked)
        view = asked.result()
        for name in names:
            if name in view.damaged:
                raise view.damaged[name]
        return view

    def _answer(self, asked: Future[View]) -> None:
        try:
            with self._looking:
                with self._lock:
                    self._next, wanted = None, frozenset(self._wanted)
                asked.set_result(self._look(wanted))
        except BaseException as error:
            with self._lock:
                if self._next is asked:
                    self._next = None
            asked.set_exception(error)

    def expire(self) -> None:
        """Have the next view look at every table anew: a file that the present one names is gone."""
        with self._looking:
            self._view = None

    def _look(self, wanted: frozenset[str]) -> View:
        """A view of some tables, the present one where it is still true."""
        try:
            while True:
                self._lake.refresh_pointer()
                generation = self._lake.generation
                known = self._known(generation)
                try:
                    view = self._renewed(known, generation, wanted)
                except (TableNotFoundError, DamagedTableError):
                    self._lake.refresh_pointer()
                    if self._lake.generation == generation:
                        raise
                    continue
                self._lake.refresh_pointer()
                if self._lake.generation == generation:  # no table was swapped in meanwhile
                    self._view = view
                    return view
        except OSError as error:
            raise as_read_error(error, self._lake.path) or error from error
        except TableNotFoundError as error:
            raise UnavailableError(
                f"There is no lake at {self._lake.path}.",
                code="no-lake",
                hint="Start the stream (`metajournal up`, or `metajournal stream`), or point [lake] path at it.",
                path=self._lake.path,
            ) from error

    def _known(self, generation: int) -> View | None:
        """The present view, where what it tells can be used for the next one."""
        view = self._view
        is_good = view is not None and view.generation == generation and time.monotonic() - view.taken_s < _MOST_AGE_S
        return view if is_good else None

    def _renewed(self, known: View | None, generation: int, wanted: frozenset[str]) -> View:
        now = time.monotonic()
        lake = self._lake
        wanted &= lake.tables.keys()  # a domain that has not joined the lake's journal has no tables there
        if known is None or not lake.journal.is_newest():
            lake.refresh((JOURNAL_TABLE,))
        if known is not None and lake.journal.delta.version() == known.journal.version:
            # Derived tables follow the journal table, so they may move after it.
            late = {name for name in wanted if SPECS[name].version and name in known.tables and self._has_moved(name)}
            names = (wanted - known.tables.keys()) | late
            if not names:
                return known
            tables, damaged = self._looked_at(names, None)
            return replace(known, tables={**known.tables, **tables}, damaged=damaged)
        with ThreadPoolExecutor(1) as beside:
            read = beside.submit(self._marked, lake.journal)
            tables, damaged = self._looked_at(wanted - {JOURNAL_TABLE}, known)
            journal = read.result()
        return View(lake.path, generation, journal, {JOURNAL_TABLE: journal, **tables}, damaged, now)

    def _looked_at(
        self, names: Collection[str], known: View | None
    ) -> tuple[dict[str, TableView], dict[str, DamagedTableError]]:
        """Tables side by side, since most of the time is waiting for files; those that cannot be read apart."""
        moved = [name for name in names if known is None or name not in known.tables or self._has_moved(name)]
        tables = {name: known.tables[name] for name in names if known is not None and name not in moved}
        damaged = {}
        if len(moved) < 2:
            looks = [self._looked(name) for name in moved]
        else:
            with ThreadPoolExecutor(len(moved)) as pool:
                looks = list(pool.map(self._looked, moved))
        for name, look in zip(moved, looks, strict=True):
            if isinstance(look, TableView):
                tables[name] = look
            elif look is not None:
                damaged[name] = look
        return tables, damaged

    def _has_moved(self, name: str) -> bool:
        return not self._lake.tables[name].is_newest()

    def _looked(self, name: str) -> TableView | DamagedTableError | None:
        """A table; why it cannot be read; None for a derived one that is not made yet."""
        table = self._lake.tables[name]
        try:
            self._lake.refresh_table(name)
            if not SPECS[name].version:
                return TableView.of(table.delta, name, table.uri)
            return self._marked(table) if table.exists() else None
        except DamagedTableError as error:
            return error

    def _marked(self, table: Table) -> MarkedView:
        version = table.delta.version()
        reader = LogReader(table.uri, table.storage_options)
        # A handle that was opened anew may be on another table of that name.
        handle, earlier = self._states.get(table.name, (None, None))
        try:
            state = reader.state(version, earlier if handle is table.delta else None)
        except (OSError, ValueError) as error:
            damage = damage_of_log(table.uri, table.storage_options, str(error))
            if damage is None:
                raise
            raise damage from error
        self._states[table.name] = table.delta, state
        return MarkedView.of(table.delta, table.name, table.uri, transactions=state.transactions, rules=state.rules)


class Viewing(Protocol):
    """Who answers questions from views."""

    views: Views


_V = TypeVar("_V", bound=Viewing)


def asked_anew(ask: Callable[Concatenate[_V, _P], _R]) -> Callable[Concatenate[_V, _P], _R]:
    """Have a question asked once more, of a new view, where a file that its view names is gone."""

    @functools.wraps(ask)
    def ask_anew(who: _V, /, *args: _P.args, **given: _P.kwargs) -> _R:
        try:
            return ask(who, *args, **given)
        except StaleReadError:
            who.views.expire()
            return ask(who, *args, **given)

    return ask_anew


def views_of(lake: Lake | Views) -> Views:
    """The views of a lake, or those that are given."""
    return lake if isinstance(lake, Views) else Views(lake)


def whole_view(views: Views) -> View | None:
    """A view of all tables; None where there is no lake yet."""
    try:
        return views.take()
    except UnavailableError as error:
        if error.code != "no-lake":
            raise
        return None
