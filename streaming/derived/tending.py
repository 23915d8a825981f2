"""The driver's part in derived tables, between two batches: what is due is asked for, what is offered is committed.

One piece is in hand at a time, so the driver always knows which tables it belongs to, and no vacuum touches them
meanwhile. While a rebuilt generation is offered, only that one is filled. A function that fails stops its own tables,
until the next start or a new version of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...lake.storage.compaction import StepHook, passed
from ...lake.tables import Lake, PartitionKey
from ...schemas.errors import DamagedTableError, LakeWriteError
from ...schemas.positions import behind
from ..plan import Brought
from .committing import Marks, commit, functions_of, keys_of, least_marks, reaches, tables_of
from .functions import DERIVED, Owned
from .making import USUAL, Bounds, Offer, discard
from .process import Failed, Request
from .server import Ended, Server

_log = logging.getLogger("metajournal.derived")
REST: Final = 10.0
"""After a piece smaller than the bounds it rests so many times as long as that took, for the sake of the fold."""
_SHORTEST_REST_S, _LONGEST_REST_S = 0.5, 5.0
IDLE_S: Final = 30.0
"""The process ends when nothing was due for so long after its last answer."""
_AGAIN_S: Final = 30.0
_LONGEST_S: Final = 600.0
_MOST_DEATHS: Final = 3
_MEND: Final = (
    "The stream retries at its next start; a version of metajournal with a corrected function fills the table again."
)


@dataclass(frozen=True)
class Fault:
    """Why a function's tables do not go on.

    Attributes:
        place: journal partition, first position, and the one after the last, where it is known.
    """

    why: str
    place: tuple[PartitionKey, int, int] | None


class DerivedTables:
    """The derived tables of a lake, tended by its writer.

    Args:
        lake: what the writer holds; its handles of these tables are the ones that commits go through.
        keys: every journal partition.
        server: makes the pieces.
        hook: points that commits pass.
        bounds: of pieces.
        crash_at: for the process (see `CrashPoints`).
        clock: seconds, for pace and patience.
        outside: the domains from outside that the journal serves; the process takes them in.
    """

    def __init__(
        self,
        lake: Lake,
        keys: Sequence[PartitionKey],
        server: Server,
        hook: StepHook = passed,
        *,
        bounds: Bounds = USUAL,
        crash_at: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        outside: tuple[Brought, ...] = (),
    ) -> None:
        self._lake = lake
        self._outside = outside
        self._keys = keys
        self._server = server
        self._hook = hook
        self._bounds = bounds
        self._crash_at = crash_at
        self._clock = clock
        self.faults: dict[str, Fault] = {}
        self._asked: Request | None = None
        self._asked_at = clock()
        self._idle_since = clock()
        self._again_at: dict[str, float] = {}
        self._deaths: dict[str, int] = {}
        self._offered: Lake | None = None
        self._generation = lake.generation

    def tend(self) -> bool:
        """Commit what is offered and ask for what is due.

        Returns:
            Whether anything was done, is in the making, or has failed or was mended since the last look.
        """
        known = self.faults.copy()
        return self._tended() or self.faults != known

    def _tended(self) -> bool:
        taken = self._asked is not None and self._taken(self._asked)
        if self._asked is not None:
            return True
        if self._lake.generation != self._generation:
            self._generation = self._lake.generation
            self.faults.clear()  # a rebuild mends what was damaged
        self._move_on()
        request = self._next()
        if request is not None:
            self._ask(request)
            return True
        if self._clock() - self._idle_since > IDLE_S:
            self._server.close()
        return taken

    def fill_first(self, offered: Lake) -> None:
        """A generation is offered whose derived tables have not reached the live ones': only these are filled now."""
        self._offered = offered

    def close(self) -> None:
        """Give up what is in hand."""
        self._server.close()
        self._asked, self._lake.in_hand = None, frozenset()

    def status(self) -> list[dict[str, Any]]:
        """Each function as JSON: its tables, how many positions they lack, and why they do not go on."""
        return [self._status_of(owned) for owned in functions_of(self._lake)]

    def _status_of(self, owned: Owned) -> dict[str, Any]:
        marks, wanted = self._marks(owned, self._lake, live=True) or {}, self._upto(owned)
        fault = self.faults.get(owned.derived.name)
        fields: dict[str, Any] = {
            "name": owned.derived.name,
            "tables": list(owned.derived.tables),
            "marks": {f"{topic}/{partition}": mark for (topic, partition), mark in marks.items()},
            "complete": bool(marks) and reaches(marks, wanted),
            "lacking": sum(behind({key: mark for key, mark in marks.items() if mark}, wanted).values()),
        }
        if fault is not None:
            fields |= {"why": fault.why, "mend": _MEND}
        if fault is not None and fault.place is not None:
            (topic, partition), start, end = fault.place
            fields |= {"place": f"{topic}/{partition}", "start": start, "end": end}
        return fields

    def _upto(self, owned: Owned) -> dict[PartitionKey, int]:
        return {key: self._lake.journal.mark(key) for key in keys_of(owned, self._keys)}

    def _marks(self, owned: Owned, lake: Lake, *, live: bool = False) -> Marks | None:
        """As `least_marks`; None of tables that are damaged, which is told."""
        try:
            return least_marks(owned, lake, self._keys, live=live)
        except DamagedTableError as error:
            if owned.derived.name not in self.faults:
                self._fail(owned.derived.name, Fault(f"{error} {error.hint}", None))
            return None

    # what came of a request

    def _taken(self, request: Request) -> bool:
        taken = self._server.take()
        name = request.name
        if taken is None:
            if self._clock() - self._asked_at > _LONGEST_S:
                self._server.close()
                self._done(name)
                self._fail(name, Fault(f"it made no piece within {_LONGEST_S:.0f} s", None))
            return False
        self._done(name)
        if isinstance(taken, Ended):
            self._ended(name, taken)
        elif isinstance(taken.answer, Offer):
            self._commit(taken.answer)
        elif isinstance(taken.answer, Failed) and taken.answer.place is not None:
            self._fail(name, Fault(taken.answer.why, taken.answer.place))
        elif isinstance(taken.answer, Failed):
            self._wait(name, taken.answer.why)
        return True

    def _done(self, name: str) -> None:
        self._asked, self._lake.in_hand = None, frozenset()
        now = self._idle_since = self._clock()
        self._again_at[name] = now + min(_LONGEST_REST_S, max(_SHORTEST_REST_S, REST * (now - self._asked_at)))

    def _commit(self, offer: Offer) -> None:
        owned = DERIVED[offer.name]
        lake = self._lake if self._target is None else self._target
        try:
            fits = commit(offer, tables_of(owned, lake), self._hook)
        except (LakeWriteError, DamagedTableError) as error:
            self._wait(offer.name, f"{error} {error.hint}")  # its files may be committed, so they stay for the vacuum
            return
        if not fits:
            discard(offer)
        if offer.more or not fits:
            self._again_at[offer.name] = self._clock()
        self._deaths.pop(offer.name, None)

    def _ended(self, name: str, ended: Ended) -> None:
        deaths = self._deaths[name] = self._deaths.get(name, 0) + 1
        if deaths >= _MOST_DEATHS:
            self._fail(
                name, Fault(f"its process ended {deaths} times in a row, last with exit code {ended.code}", None)
            )
        else:
            self._again_at[name] = self._clock() + _LONGEST_REST_S * deaths

    def _fail(self, name: str, fault: Fault) -> None:
        self.faults[name] = fault
        tables = ", ".join(DERIVED[name].derived.tables)
        _log.error("The derived tables %s have stopped: %s", tables, fault.why)

    def _wait(self, name: str, why: str) -> None:
        _log.warning("Derived tables of %s wait %d s: %s", name, _AGAIN_S, why)
        self._again_at[name] = self._clock() + _AGAIN_S

    # what is due

    @property
    def _target(self) -> Lake | None:
        """The generation to fill, while one is offered."""
        if self._offered is not None and not self._lake.is_offered():
            self._offered = None
        return self._offered

    def _move_on(self) -> None:
        """Point at the tables of a new version that have reached those of the one before."""
        for owned in functions_of(self._lake):
            beside = [name for name in owned.derived.tables if self._lake.target(name) is not self._lake.tables[name]]
            if not beside:
                continue
            marks, live = self._marks(owned, self._lake), self._marks(owned, self._lake, live=True)
            if marks is not None and live is not None and reaches(marks, live):
                self._hook("swap-before")
                self._lake.point_at(beside)
                self._hook("swap-after")

    def _next(self) -> Request | None:
        """The next piece that is due, of the function that waits longest."""
        target = self._target
        if target is None and self._lake.is_offered():
            return None
        now = self._clock()
        for owned in sorted(functions_of(self._lake), key=lambda owned: self._again_at.get(owned.derived.name, 0.0)):
            name = owned.derived.name
            if name in self.faults or self._again_at.get(name, 0.0) > now:
                continue
            if self._lake.waits_for_vacuum(owned.derived.tables):
                continue
            upto = self._upto(owned) if target is None else self._upto_of(owned, target)
            marks = self._marks(owned, target or self._lake)
            if upto and marks is not None and not reaches(marks, upto):
                return self._request(owned, target or self._lake, upto)
        return None

    def _upto_of(self, owned: Owned, target: Lake) -> Marks:
        """Up to where a generation is filled: where the live tables are."""
        if all(target.target(name).uri == self._lake.target(name).uri for name in owned.derived.tables):
            return {}
        return self._marks(owned, self._lake, live=True) or {}

    def _request(self, owned: Owned, lake: Lake, upto: Marks) -> Request:
        tables = tables_of(owned, lake)
        options = next(iter(tables.values())).storage_options
        uris = {name: table.uri for name, table in tables.items()}
        return Request(
            owned.derived.name, self._lake.path, options, uris, upto, self._bounds, self._crash_at, self._outside
        )

    def _ask(self, request: Request) -> None:
        self._lake.in_hand = frozenset(DERIVED[request.name].derived.tables)
        self._asked, self._asked_at = request, self._clock()
        self._server.ask(request)
