"""Rebuilds that are under way, or were ended before their end, as the lake and Elasticsearch themselves have them.

Source: docs/how-to/rebuild-and-verify.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ...client import Journal
from ...indexer.fill.unfinished import Unfinished, unfinished_indexes
from ...lake.declared import SPECS
from ...lake.tables import Lake
from ...schemas.errors import MetajournalError
from ...schemas.positions import EPOCH_SHIFT, Cut
from ..problems import words_of

_RESUMED: Final = "If its command was ended, `{command}` resumes it."
_PHASES: Final = {
    "load": "it takes entities from the lake: {done:,} are indexed",
    "catch-up": "it catches up with the state topics; {done:,} entities came from the lake",
    "failed": "it differs from the lake, so the live index stays in use",
}


class Rebuild(NamedTuple):
    """A rebuild, in words.

    Attributes:
        what: what is rebuilt.
        state: how far it is.
        hint: the next step.
    """

    what: str
    state: str
    hint: str


def rebuilds(journal: Journal, ends: Cut) -> tuple[list[Rebuild], list[str]]:
    """The unfinished rebuilds, and why those of lake or index are not known.

    Args:
        ends: where the journal topics end.
    """
    found: list[Rebuild] = []
    problems: list[str] = []
    try:
        found += _of_lake(journal, ends)
    except MetajournalError as error:
        problems.append(said_of(journal, error))
    try:
        found += map(_of_index, unfinished_indexes(journal.settings))
    except MetajournalError as error:
        problems.append(said_of(journal, error))
    return found, problems


def said_of(journal: Journal, error: MetajournalError) -> str:
    """What an error says, as those may know it who see the page."""
    return words_of(error, is_local=journal.settings.gateway.tells_all)[0]


def _of_lake(journal: Journal, ends: Cut) -> list[Rebuild]:
    lake = Lake(journal.settings.lake.path, journal.settings.lake.storage_options)
    begun = lake.begun_generation()
    if begun is None:
        return []
    live = {table.uri for table in lake.tables.values()}
    filled = [
        table for name, table in begun.tables.items() if not SPECS[name].version and table.uri not in live
    ]  # fmt: skip
    first = {place: end >> EPOCH_SHIFT << EPOCH_SHIFT for place, end in ends.items()}
    done = sum(
        min((max(0, table.mark(place) - begin) if table.exists() else 0 for table in filled), default=0)
        for place, begin in first.items()
    )
    total = sum(max(0, lake.journal.mark(place) - begin) for place, begin in first.items())
    hint = _RESUMED.format(command="metajournal rebuild lake")
    return [Rebuild("Lake", f"{done:,} of {total:,} positions are folded into the new tables", hint)]


def _of_index(index: Unfinished) -> Rebuild:
    command = "metajournal rebuild index"
    hint = f"`{command}` starts over." if index.phase == "failed" else _RESUMED.format(command=command)
    return Rebuild(f"Index {index.name}", _PHASES[index.phase].format(done=index.done), hint)
