"""What the writer of a lake does with an offered piece: commits it where it fits, or throws it away.

Table by table in declared order, each above its own mark and with its marks in the same commit. A piece fits when every
table is the one that it was made for and stands at the mark that its rows begin at, or at its end already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...fold.derived import Beside, at_once
from ...lake.declared import SPECS
from ...lake.storage.compaction import StepHook, passed
from ...lake.tables import Lake, PartitionKey, Reached, Table
from ...schemas.errors import DamagedTableError
from .earlier import Memories
from .files import Files
from .functions import DERIVED, Owned
from .making import USUAL, Bounds, Offer, make_piece

Marks = Mapping[PartitionKey, int]


def commit(offer: Offer, tables: Mapping[str, Table], hook: StepHook = passed) -> bool:
    """Commit a piece.

    Args:
        tables: those that are written now.
        hook: called at "derive-before-commit" and "derive-after-commit" of each table.
    Returns:
        False where it does not fit; then nothing has changed.
    """
    if not all(_fits(offer, name, tables[name]) for name in offer.begins):
        return False
    for name in offer.begins:
        if all(tables[name].mark(key) >= end for key, end in offer.ends.items()):
            continue
        hook("derive-before-commit")
        made_by = {f"derived-{offer.name}": f"v{SPECS[name].version}"}
        tables[name].add_files(offer.files[name], Reached(offer.ends, {}, made_by))
        hook("derive-after-commit")
    return True


def _fits(offer: Offer, name: str, table: Table) -> bool:
    marks = {key: table.mark(key) for key in offer.ends}
    return table.uri == offer.uris[name] and marks == dict(offer.begins[name])


def functions_of(lake: Lake) -> list[Owned]:
    """The functions whose tables a lake has: another journal of this process may serve another domain's."""
    return [owned for owned in DERIVED.values() if lake.tables.keys() >= {*owned.derived.tables}]


def keys_of(owned: Owned, keys: Sequence[PartitionKey]) -> list[PartitionKey]:
    """The journal partitions that a function follows."""
    return [key for key in keys if key[0].rpartition(".journal.")[2] == owned.journal]


def tables_of(owned: Owned, lake: Lake) -> dict[str, Table]:
    """The tables that a function makes, as they are written now, and those that it reads."""
    written = {name: lake.target(name) for name in owned.derived.tables}
    return written | {name: lake.tables[name] for name in (*owned.derived.reads, *owned.derived.looks_up)}


def least_marks(
    owned: Owned, lake: Lake, keys: Sequence[PartitionKey], *, live: bool = False
) -> dict[PartitionKey, int]:
    """Up to where all tables of a function hold what it makes.

    Args:
        live: of those that readers see, where a new version is being filled beside them.
    """
    tables = [lake.tables[name] if live else lake.target(name) for name in owned.derived.tables]
    there = [table for table in tables if table.exists()]
    if len(there) < len(tables):
        return dict.fromkeys(keys_of(owned, keys), 0)
    return {key: min(table.mark(key) for table in there) for key in keys_of(owned, keys)}


def reaches(marks: Marks, wanted: Marks) -> bool:
    """Whether marks are at or above others."""
    return all(marks[key] >= mark for key, mark in wanted.items())


def reaches_live(lake: Lake, offered: Lake, keys: Sequence[PartitionKey]) -> bool:
    """Whether the derived tables of a generation hold what the live ones hold, so that it may take their place.

    It mends live ones that are damaged.
    """
    for owned in functions_of(lake):
        try:
            live = least_marks(owned, lake, keys, live=True)
        except DamagedTableError:
            continue
        if not reaches(least_marks(owned, offered, keys), live):
            return False
    return True


def fill(
    lake: Lake,
    upto: Mapping[str, Marks],
    files: Files,
    *,
    bounds: Bounds = USUAL,
    hook: StepHook = passed,
    beside: Beside = at_once,
) -> None:
    """Make and commit pieces in this process until the tables reach some marks; for the only writer of these tables.

    Args:
        lake: whose derived tables are written.
        upto: marks to reach, by function.
        beside: where functions may have something computed.
    Raises:
        FunctionFailed: a function did.
    """
    for name, marks in upto.items():
        owned = DERIVED[name]
        tables, memories = tables_of(owned, lake), Memories()
        while (
            offer := make_piece(owned, tables, marks, files, bounds=bounds, hook=hook, memories=memories, beside=beside)
        ) is not None:
            commit(offer, tables, hook)
