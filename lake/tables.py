"""The tables of one lake: where each stands, upkeep between batches, and generations that are swapped in.

What one table does stands in `table`, the pointer's form in `generations`. Invariant: all tables of a lake are those of
one pointer, looked at when the lake is first used and at every `refresh`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ..schemas.errors import DamagedTableError, StreamError
from .columns import JOURNAL_TABLE
from .declared import FROM_OUTSIDE, SPECS, tables_of
from .storage.compaction import StepHook, passed
from .storage.generations import Generations, Pointer, folder
from .storage.log_damage import NoTableError, missing, place_of
from .storage.store import is_store
from .storage.versions import earlier_folders, is_current, versioned
from .table import Marks, PartitionKey, Reached, Table, from_json, quoted

__all__ = ["Lake", "Marks", "PartitionKey", "Reached", "Table", "from_json", "quoted"]

_FIRST_VACUUM_S = 600.0
_VACUUM_EVERY_S = 900.0  # for each hour of retention: so that few files go at a time
_OPENED_WITHIN_S = 10.0
"""Seconds from reading the pointer to having opened every table that it names."""
_UNSEEN = object()
_MISREAD = re.compile(r"[\[\]\\]|%[0-9A-Fa-f]{2}")
"""What delta-rs reads otherwise in a local path: it takes it for a URL."""


class Lake:
    """The tables of one lake under one path, where its pointer says (see `generations`).

    Args:
        path: local folder or a URI of a store that delta-rs speaks.
        storage_options: options of that store.
        vacuum_retention_h: hours that files which no version needs are kept; at least 1.
    Raises:
        StreamError: delta-rs would take the path for another one.
    """

    def __init__(
        self, path: str, storage_options: Mapping[str, str] | None = None, *, vacuum_retention_h: int = 1
    ) -> None:
        self.path = path.rstrip("/")
        if not is_store(path) and _MISREAD.search(path):
            raise StreamError(
                f"The lake cannot be at {path!r}: Delta tables cannot be read under such a name.",
                code="lake-path",
                hint=r"Use a path without \ [ ] and without % before two hexadecimal digits.",
            )
        self._options = dict(storage_options or {})
        self._retention_h = max(1, vacuum_retention_h)
        self._vacuum_at = time.monotonic() + _FIRST_VACUUM_S
        self._waiting: list[str] = []
        self._turn = 0
        self._generations = Generations(self.path, self._options)
        self._number: int | None = None
        self._overrides: Mapping[str, str] = {}
        self._seen: object = _UNSEEN
        self._pointer = Pointer()
        self._tables: dict[str, Table] = {}
        self._beside: dict[str, Table] = {}
        self._retired = 0
        """The generation whose predecessors this process has retired."""
        self.in_hand: frozenset[str] = frozenset()
        """Derived tables that a piece is being made of: its files are not committed yet, so nothing is vacuumed."""
        self._outside: frozenset[str] = frozenset()
        """Tables of domains from outside that this lake has, or is to have."""

    @property
    def tables(self) -> dict[str, Table]:
        """Every table by name, as the pointer stood when it was last looked at."""
        if self._seen is _UNSEEN:
            self._look()
        return self._tables

    @property
    def generation(self) -> int:
        """How often the tables were swapped; of a view on a generation, its number."""
        if self._seen is _UNSEEN:
            self._look()
        return self._pointer.generation

    def _look(self) -> None:
        """Follow the pointer; tables that stay where they were keep their handles."""
        version = self._generations.version()
        if version != self._seen:
            pointer = self._generations.read()
            generation = pointer.generation if self._number is None else self._number
            self._pointer = Pointer(generation, {**pointer.tables, **self._overrides})
        outside = self._from_outside() if FROM_OUTSIDE else self._outside  # where the pointer says
        if version == self._seen and outside == self._outside:
            return
        self._outside = outside
        uris = {
            name: f"{self.path}/{self._pointer.folder(name)}"
            for name in SPECS
            if name not in FROM_OUTSIDE or name in outside
        }
        kept = {name: table for name, table in self._tables.items() if table.uri == uris[name]}
        self._tables = {name: kept.get(name) or Table(name, uri, self._options) for name, uri in uris.items()}
        self._seen = version

    def _from_outside(self) -> frozenset[str]:
        """Those of the process's tables of domains from outside that this lake has: its journal may serve others."""
        unseen = FROM_OUTSIDE.keys() - self._outside
        there = {name for name in unseen if self._is_there(name)}
        return self._outside | there

    def _is_there(self, name: str) -> bool:
        return (
            name in self._overrides or Table(name, f"{self.path}/{self._pointer.folder(name)}", self._options).exists()
        )

    def include(self, outside: Collection[str]) -> None:
        """Count the tables of some domains from outside as the lake's, also where they are not made yet, or are gone.

        Args:
            outside: names of domains that the journal serves.
        """
        self._look()
        wanted = self._outside | tables_of(outside)
        if wanted != self._outside:
            self._outside, self._seen = wanted, _UNSEEN
            self._look()

    @property
    def journal(self) -> Table:
        return self.tables[JOURNAL_TABLE]

    @property
    def histories(self) -> list[Table]:
        """The tables that the fold makes, besides the journal table."""
        return [table for name, table in self.tables.items() if not (name == JOURNAL_TABLE or SPECS[name].version)]

    @property
    def derived(self) -> list[str]:
        """Names of the tables that are derived from those of the fold."""
        return [name for name in self.tables if SPECS[name].version]

    def target(self, name: str) -> Table:
        """The table that is written: the live one, or of one with a new version that beside it."""
        live = self.tables[name]
        if is_current(name, live.uri):
            return live
        if name not in self._beside:
            self._beside[name] = Table(name, f"{self.path}/{versioned(name)}", self._options)
        return self._beside[name]

    def create(self) -> None:
        """Make the tables that are missing.

        Raises:
            DamagedTableError: a history table that was once made is gone from a lake that holds events; an empty one in
                its place would make every entity unknown.
        """
        made = self._once_made()
        gone = [table for table in self.histories if table.name in made and not table.exists()]
        if gone and self._holds_events():
            raise missing(gone[0].uri)
        for name in self.tables:
            try:
                self.target(name).create(self._retention_h)
            except DamagedTableError:
                if not SPECS[name].version:
                    raise  # one that is derived stops nobody but its own readers
        self.point_at([name for name in self.derived if not self.tables[name].exists()])

    def point_at(self, names: Sequence[str]) -> None:
        """Put the derived tables of the present versions in the place of earlier ones, all at once."""
        moved = {name: versioned(name) for name in names if not is_current(name, self.tables[name].uri)}
        if moved:
            self._generations.swap(Pointer(self.generation, {**self._pointer.tables, **moved}))
            self._look()

    def list_tables(self) -> None:
        """Have the journal table list what was made: once all is, and before another event is judged."""
        self.journal.list_tables(self._once_made() | {table.name for table in self.histories})

    def _once_made(self) -> frozenset[str]:
        """Names of the history tables that were made for this lake at some time."""
        listed = self.journal.listed() if self.journal.exists() else frozenset()
        return frozenset(name for name, spec in SPECS.items() if spec.original) if listed is None else listed

    def _holds_events(self) -> bool:
        return self.journal.exists() and self.journal.delta.version() > 0

    def refresh(self, names: Sequence[str] | None = None) -> None:
        """See what others have written, and the tables that others have swapped in.

        The journal comes first: a batch is committed there last, so what its marks speak of stands in every table that
        is looked at afterwards. (The other way round, a batch that ends in between would have marks and no rows.)

        Args:
            names: tables to look at, all where None; those beside the journal side by side: most of the time is
                waiting for files.
        Raises:
            NoTableError: there is no lake.
            DamagedTableError: a table's log is damaged, or there is a journal table without this one.
        """
        self._look()
        generation = self.generation
        try:
            self._refresh(tuple(self._tables) if names is None else names)
        except (NoTableError, DamagedTableError):
            self._look()
            if self.generation == generation:
                raise
            self.refresh(names)  # others were put in their place meanwhile

    def _refresh(self, names: Sequence[str]) -> None:
        if JOURNAL_TABLE in names:
            self.journal.refresh()
        others = [name for name in names if name != JOURNAL_TABLE]
        if not others:
            return
        with ThreadPoolExecutor(len(others)) as pool:
            for refreshed in [pool.submit(self.refresh_table, name) for name in others]:
                refreshed.result()

    def refresh_table(self, name: str) -> None:
        """See what others have written to a table, where the pointer was last looked at. Errors: `refresh`."""
        try:
            self.tables[name].refresh()
        except NoTableError:
            if SPECS[name].version:
                return  # the next start of the stream makes it
            if not self._holds_events():
                raise
            raise missing(self.tables[name].uri) from None

    def refresh_pointer(self) -> None:
        """See tables that others have swapped in, and nothing else."""
        self._look()

    def tidy(self, hook: StepHook = passed, *, for_s: float = 0.0) -> bool:
        """Do one short piece of upkeep: a step of compaction, or vacuum of one table where it is due.

        Only the stream's driver may call it, between two batches.

        Args:
            hook: called at the points of `Table.tidy`, and at "vacuum-before" and "vacuum-after".
            for_s: go on until so many seconds are used up. After a large batch about a tenth of its time keeps up with
                what it added; one piece for each batch is enough for small ones only.
        Returns:
            Whether there was anything to do.
        """
        self._retire_late()
        until = time.monotonic() + for_s
        worked = self._piece(hook)
        while worked and time.monotonic() < until and self._piece(hook):
            pass
        return worked

    def _piece(self, hook: StepHook) -> bool:
        tables = [self.target(name) for name in self.tables]
        if not self._waiting and time.monotonic() >= self._vacuum_at:
            self._waiting = [table.name for table in tables]
            self._vacuum_at = time.monotonic() + self._retention_h * _VACUUM_EVERY_S
        name = next((waiting for waiting in reversed(self._waiting) if waiting not in self.in_hand), None)
        if name is not None:
            hook("vacuum-before")
            self._waiting.remove(name)
            self.target(name).vacuum(self._retention_h)
            if not self._waiting:
                self._drop_superseded()
            hook("vacuum-after")
            return True
        turn = self._turn = (self._turn + 1) % len(tables)
        return any(table.tidy(hook) for table in tables[turn:] + tables[:turn])

    def waits_for_vacuum(self, names: Sequence[str]) -> bool:
        """Whether one of these tables is to be vacuumed as soon as no piece of it is in hand."""
        return not {*names}.isdisjoint(self._waiting)

    def _retire_late(self) -> None:
        """Retire what a swap has replaced, once readers that were opening it are done, and no piece reads it."""
        if (
            self._retired != self.generation
            and not self.in_hand
            and self._generations.swapped_s_ago() > _OPENED_WITHIN_S
        ):
            self.retire_replaced()

    def retire_replaced(self) -> int:
        """Have nobody open a replaced table by mistake: move the logs of all of them aside, and leave their data.

        Views and handles that were taken before go on, until the data is deleted after the vacuum's retention.

        Returns:
            How many were still to be opened.
        """
        self._look()
        within = ("", *(f"{folder(number)}/" for number in range(1, self.generation)))
        retired = 0
        for name, where in self._pointer.tables.items():
            replaced = {place + own for place in within for own in _folders(name, where)} - {where}
            retired += sum(map(self._generations.retire, sorted(replaced)))
        self._retired = self.generation
        return retired

    def _drop_superseded(self) -> None:
        """Delete tables that were swapped out longer ago than the retention, when no reader can still hold them."""
        if self._generations.swapped_s_ago() > self._retention_h * 3600:
            for name in self.derived:
                if is_current(name, self.tables[name].uri):
                    for earlier in earlier_folders(name):
                        self._generations.remove_table(earlier)
            live = {where.partition("/")[0] for where in self._pointer.tables.values()}
            for number in range(self.generation):
                if folder(number) not in live:
                    self.drop_generation(number)

    def begin_generation(self, names: Sequence[str]) -> Lake:
        """Fresh tables of these names beside the live ones, to be filled and then swapped in.

        Args:
            names: tables to make anew. One begun before with the same names is continued.
        Returns:
            This lake, with those tables (and their number as `generation`) in the place of the live ones.
        Raises:
            StreamError: a generation of other tables was begun and not finished.
        """
        self._look()
        number = self.generation + 1
        begun = self._generations.begun(number)
        if begun is None:
            self._generations.begin(number, names)
        elif sorted(begun) != sorted(names):
            raise StreamError(
                f"An unfinished rebuild of the lake {self.path} covers other tables: {', '.join(begun)}.",
                code="other-generation",
                hint="Finish it, or discard it and start again.",
                generation=number,
            )
        view = self._view_of(number, names)
        for name in names:
            view.tables[name].create(self._retention_h)
        if JOURNAL_TABLE in names:
            view.journal.list_tables(self._once_made())
        return view

    def begun_generation(self) -> Lake | None:
        """The next generation as far as it is filled, to be looked at; None where no rebuild was begun."""
        self._look()
        number = self.generation + 1
        names = self._generations.begun(number)
        return None if names is None else self._view_of(number, names)

    def _view_of(self, number: int, names: Sequence[str]) -> Lake:
        view = Lake(self.path, self._options, vacuum_retention_h=self._retention_h)
        view._number = number
        view._overrides = {name: f"{folder(number)}/{versioned(name)}" for name in names}
        return view

    def swap_to(self, number: int, hook: StepHook = passed) -> None:
        """Put the tables of a generation in the place of the live ones, all at once; the old ones stay on disk.

        Args:
            number: the generation; one that is live already is left as it is.
            hook: called at "swap-before" and "swap-after".
        Raises:
            StreamError: it was never begun, or a newer one is live.
        """
        self._look()
        if number == self.generation:
            return
        names = self._generations.begun(number)
        if names is None or number < self.generation:
            raise StreamError(
                f"The lake {self.path} has no generation {number} to swap in; {self.generation} is live.",
                code="no-generation",
                hint="Rebuild again.",
            )
        hook("swap-before")
        self._generations.swap(
            Pointer(number, {**self._pointer.tables, **{name: f"{folder(number)}/{versioned(name)}" for name in names}})
        )
        hook("swap-after")
        self._look()

    @contextmanager
    def aside(self, names: Sequence[str]) -> Iterator[Lake]:
        """This lake with fresh, empty tables of these names; they are deleted when the block ends.

        Those that a process left behind which was killed go before.
        """
        with self._generations.aside() as where:
            view = Lake(self.path, self._options, vacuum_retention_h=self._retention_h)
            view._overrides = {name: f"{where}/{versioned(name)}" for name in names}
            for name in names:
                view.tables[name].create()
            yield view

    def offer_generation(self, number: int) -> None:
        """Say that a filled generation may be swapped in: the stream does so between two batches."""
        self._generations.offer(number)

    def withdraw_generation(self, number: int) -> None:
        """Take the offer of a generation back; its tables stay."""
        self._generations.withdraw(number)

    def is_offered(self) -> bool:
        """Whether the next generation waits to be swapped in, which costs one look at a file."""
        return self._generations.offered(self.generation + 1)

    def is_live(self, uri: str) -> bool:
        """Whether a folder is that of one of the tables, as the pointer stands now."""
        self._look()
        return place_of(uri) in {place_of(table.uri) for table in self._tables.values()}

    def offered_generation(self) -> Lake | None:
        """The next generation, when it is filled and offered; None otherwise, which costs one look at a file."""
        number = self.generation + 1
        names = self._generations.begun(number) if self._generations.offered(number) else None
        return None if names is None else self.begin_generation(names)

    def drop_generation(self, number: int) -> None:
        """Delete the tables of a generation that are not live; 0 means those at their own names.

        Readers that have not refreshed since the swap lose them, so leave a swapped-out one for a while.

        Raises:
            StreamError: one of its tables is live.
        """
        self._look()
        if any(where.startswith(f"{folder(number)}/") for where in self._pointer.tables.values()):
            raise StreamError(
                f"Generation {number} of the lake {self.path} is live.",
                code="generation-live",
                hint="Only tables that were replaced, or never in use, can be dropped.",
            )
        if number:
            self._generations.remove(number)
            return
        for name, where in self._pointer.tables.items():
            for own in _folders(name, where) - {where}:
                self._generations.remove_table(own)


def _folders(name: str, where: str) -> set[str]:
    """The folders that a table has had, in the lake or in a generation; a version to come is not one of them."""
    if name not in SPECS or not SPECS[name].version:
        return {name}
    return {name, *earlier_folders(name), versioned(name)} if is_current(name, where) else {name}
