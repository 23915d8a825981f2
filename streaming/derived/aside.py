"""Derived tables of a rebuild and of a verification: made again in this process, up to where the live ones are.

What the live ones have not reached is left to the process beside the stream, once the others are the live ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...fold.derived import Beside, at_once
from ...lake.storage.versions import is_current
from ...lake.tables import Lake
from ...schemas.errors import DamagedTableError, StreamError
from .committing import Marks, fill, functions_of, least_marks
from .files import ComparedFiles, StoredFiles
from .functions import Owned
from .making import FunctionFailed


@dataclass(frozen=True)
class Refilled:
    """What making derived tables again has shown.

    Attributes:
        differing: files beside them that are missing or hold something else, by their paths in the lake.
    """

    differing: Sequence[str] = ()


def refill(lake: Lake, view: Lake, reached: Marks, *, only_compare: bool = False, beside: Beside = at_once) -> Refilled:
    """Fill the derived tables of a generation, or of tables aside, up to where the live ones are.

    Args:
        lake: the live tables.
        view: those to fill.
        reached: up to where the tables of the fold among them are filled; the live derived ones may be farther.
        only_compare: write no files beside tables, but hold those that are there against what they must be.
        beside: where functions may have something computed.
    Raises:
        StreamError: a function failed.
    """
    options = lake.journal.storage_options
    files = ComparedFiles(lake.path, options) if only_compare else StoredFiles(lake.path, options)
    upto = {
        owned.derived.name: marks
        for owned in functions_of(lake)
        if all(view.tables[table].uri != lake.tables[table].uri for table in owned.derived.tables)
        and (marks := _least(owned, lake, reached))
    }
    try:
        fill(view, upto, files, beside=beside)
    except FunctionFailed as failed:
        (topic, partition), start, end = failed.key, failed.start, failed.end
        raise StreamError(
            f"A derived table cannot be rebuilt: {failed.why}, at {topic}/{partition}, positions {start} to {end}.",
            code="derived-failed",
            hint="Report it to the maintainers; a version of metajournal with a corrected function continues.",
        ) from failed
    return Refilled(files.differing if isinstance(files, ComparedFiles) else ())


def _least(owned: Owned, lake: Lake, reached: Marks) -> Marks | None:
    """The lesser of some marks and those of live derived tables; of damaged ones None."""
    try:
        lake.refresh(owned.derived.tables)
        marks = least_marks(owned, lake, list(reached), live=True)
        return {key: min(mark, reached[key]) for key, mark in marks.items()}
    except DamagedTableError:
        return None


def compared_marks(lake: Lake, view: Lake, names: Sequence[str], reached: Marks) -> Mapping[str, Marks]:
    """Below which marks derived tables can be held against the live ones.

    Those that are not there or of another version cannot be; of a damaged one no rows are.
    """
    marks: dict[str, Marks] = {}
    for name in names:
        live, again = lake.tables[name], view.tables[name]
        try:
            if is_current(name, live.uri) and live.exists():
                marks[name] = {key: min(mark, live.mark(key), again.mark(key)) for key, mark in reached.items()}
        except DamagedTableError:
            marks[name] = {}
    return marks
