"""Views of the lake: one is taken for all who ask meanwhile, replaced by the next one and never changed.

A question takes one view and reads nothing else, so what it is told is of one moment whatever other threads do. The
journal table is looked at first: a batch is committed there last, so every row that its marks speak of stands in the
tables that are looked at afterwards. While it has not moved, nothing that a reader may see has changed, and the view
stays; when it has, only the commits since are read, and tables that have not moved keep what was read of them.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from ...schemas.errors import DamagedTableError, StaleReadError, UnavailableError
from ..columns import JOURNAL_TABLE
from ..declared import SPECS
from ..storage.faults import as_read_error
from ..storage.log_damage import NoTableError, missing
from ..storage.store import is_store
from ..tables import Lake
from .log import TableLog
from .table import MarkedView

_KEPT: Final = 8
_SHARED_AGE_S: Final = 5.0
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
    tables: Mapping[str, MarkedView] = field(repr=False)
    damaged: Mapping[str, DamagedTableError] = field(repr=False)
    taken_s: float = field(repr=False)


class Views:
    """Takes views of a lake; threads share it.

    Args:
        lake: where the tables are; nobody else uses it.
        most_age_s: after which every table is looked at again, also where the journal table has not moved.
    """

    def __init__(self, lake: Lake, *, most_age_s: float = _MOST_AGE_S) -> None:
        self._lake = lake
        self._most_age_s = most_age_s
        self._lock = Lock()
        self._looking = Lock()
        self._next: Future[View] | None = None
        self._wanted: set[str] = {JOURNAL_TABLE}
        self._view: View | None = None
        self._logs: dict[str, TableLog] = {}

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
            for log in self._logs.values():
                log.expire()

    def _look(self, wanted: frozenset[str]) -> View:
        """A view of some tables, the present one where it is still true."""
        try:
            while True:
                self._lake.refresh_pointer()
                generation = self._lake.generation
                known = self._known(generation)
                try:
                    view = self._renewed(known, generation, wanted)
                except (NoTableError, DamagedTableError):
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
        except NoTableError as error:
            raise UnavailableError(
                f"There is no lake at {self._lake.path}.",
                code="no-lake",
                hint="Start the stream (`metajournal up`, or `metajournal stream`), or point [lake] path at it.",
                path=self._lake.path,
            ) from error

    def _known(self, generation: int) -> View | None:
        """The present view, where what it tells can be used for the next one."""
        view = self._view
        is_good = (
            view is not None and view.generation == generation and time.monotonic() - view.taken_s < self._most_age_s
        )
        return view if is_good else None

    def _renewed(self, known: View | None, generation: int, wanted: frozenset[str]) -> View:
        now = time.monotonic()
        lake = self._lake
        wanted &= lake.tables.keys()  # a domain that has not joined the lake's journal has no tables there
        journal = self._log(JOURNAL_TABLE).look()
        if known is not None and journal is known.journal:
            # Derived tables follow the journal table, so they may move after it.
            names = {name for name in wanted if SPECS[name].version or name not in known.tables} - {JOURNAL_TABLE}
            tables, damaged = self._looked_at(names, journal)
            if damaged.keys() == known.damaged.keys() and all(
                known.tables.get(name) is tables[name] for name in tables
            ):
                return known
            return replace(known, tables={**known.tables, **tables}, damaged=damaged)
        tables, damaged = self._looked_at(wanted - {JOURNAL_TABLE}, journal)
        return View(lake.path, generation, journal, {JOURNAL_TABLE: journal, **tables}, damaged, now)

    def _log(self, name: str) -> TableLog:
        """The log of a table, where the pointer was last looked at."""
        table = self._lake.tables[name]
        log = self._logs.get(name)
        if log is None or log.uri != table.uri:
            log = self._logs[name] = TableLog(name, table.uri, table.storage_options)
        return log

    def _looked_at(
        self, names: Collection[str], journal: MarkedView
    ) -> tuple[dict[str, MarkedView], dict[str, DamagedTableError]]:
        """Tables as they are now, those of a store side by side; those that cannot be read apart."""
        logs = [self._log(name) for name in names]
        if len(logs) < 2 or not is_store(self._lake.path):
            looks = [_looked(log, journal) for log in logs]
        else:
            with ThreadPoolExecutor(len(logs)) as pool:
                looks = list(pool.map(lambda log: _looked(log, journal), logs))
        told = list(zip(names, looks, strict=True))
        tables = {name: look for name, look in told if isinstance(look, MarkedView)}
        return tables, {name: look for name, look in told if isinstance(look, DamagedTableError)}


def _looked(log: TableLog, journal: MarkedView) -> MarkedView | DamagedTableError | None:
    """A table; why it cannot be read; None for a derived one that is not made yet."""
    try:
        return log.look()
    except DamagedTableError as error:
        return error
    except NoTableError:
        if SPECS[log.name].version:
            return None  # the next start of the stream makes it
        if not journal.version:
            raise
        return missing(log.uri)


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


@functools.lru_cache(maxsize=_KEPT)
def _views_at(_process: int, path: str, options: tuple[tuple[str, str], ...]) -> Views:
    return Views(Lake(path, dict(options)), most_age_s=_SHARED_AGE_S)


def views_at(path: str, storage_options: Mapping[str, str]) -> Views:
    """The views of a lake that all of this process share who have none of their own, and do not ask once more where a
    file is gone: the next look is never far."""
    return _views_at(os.getpid(), path, tuple(sorted(storage_options.items())))


def whole_view(views: Views) -> View | None:
    """A view of all tables; None where there is no lake yet."""
    try:
        return views.take(tuple(SPECS))  # also those of domains that were taken in since this was loaded
    except UnavailableError as error:
        if error.code != "no-lake":
            raise
        return None
