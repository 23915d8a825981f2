"""How far a derived table is, for those who read it: it may lag behind the journal table, and never lies.

A reader takes the lesser of both marks and reads what is lacking elsewhere, or waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..schemas.errors import NotYetVisibleError
from ..schemas.positions import behind, behind_text
from .cuts import Bounds
from .storage.versions import is_current
from .table import PartitionKey, Table
from .tables import Lake
from .views.table import MarkedView
from .views.views import View

_POLL_S = 0.05


def derived_mark(lake: Lake | View, name: str, key: PartitionKey) -> int:
    """The next position of a journal partition that a derived table does not hold; 0 where it is not there yet, or is
    one of an earlier version."""
    table = lake.tables.get(name)
    if table is None or not is_current(name, table.uri):
        return 0
    if isinstance(table, MarkedView):
        return table.mark(key)
    return table.mark(key) if isinstance(table, Table) and table.exists() else 0


def seen_of_derived(view: View, names: Sequence[str], bounds: Bounds) -> Bounds:
    """What a question sees of derived tables: nothing above their own marks; `held_to` tells how far that is."""
    marks = {
        partition: min(derived_mark(view, name, (bounds.topic, partition)) for name in names)
        for partition in bounds.below
    }
    return replace(bounds, below={partition: min(below, marks[partition]) for partition, below in bounds.below.items()})


def wait_for_derived(lake: Lake, names: Sequence[str], wanted: Mapping[PartitionKey, int], *, timeout_s: float) -> None:
    """Wait until derived tables hold everything below some positions.

    Args:
        names: tables that one question reads.
        wanted: next position per (journal topic, partition).
    Raises:
        NotYetVisibleError: they did not get there in time; `behind` says how much the one that is least far lacks.
    """
    end = time.monotonic() + timeout_s
    while True:
        lake.refresh(names)
        marks = {key: min(derived_mark(lake, name, key) for name in names) for key in wanted}
        lacking = behind({key: mark for key, mark in marks.items() if mark}, wanted)
        if not lacking:
            return
        if time.monotonic() >= end:
            raise NotYetVisibleError(
                lacking,
                f"The derived tables {', '.join(names)} are behind the requested position after {timeout_s:.3g} s: "
                f"{behind_text(lacking)} positions.",
            )
        time.sleep(_POLL_S)
