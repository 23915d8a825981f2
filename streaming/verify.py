"""Checks of a lake against its journal: what `metajournal verify` asks, but the index.

Each check answers a sentence of docs/guarantees.md for the data at hand. Nothing is written but tables aside, which are
deleted again; a running stream is not disturbed, since every check is cut at the marks of the moment it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..lake import scan
from ..lake.declared import SPECS
from ..lake.storage.damage import damages
from ..lake.tables import Lake, Table, quoted
from ..lake.views.table import Readable
from ..producers.recorded.served import require_packages
from ..producers.topics import Epochs
from ..schemas.errors import DamagedTableError
from ..schemas.positions import offset_of
from ..schemas.settings import Settings
from .derived.committing import functions_of, keys_of
from .publish import watermarks
from .rebuild import LakeRebuild, Progress, Rebuilt, Refolding

_SHOWN = 20
_REBUILD = "`metajournal rebuild lake --from kafka --accept` rebuilds all tables."
_REFILL = "`metajournal rebuild lake --accept` rebuilds them."
_TOLD_BY_STATUS = "`metajournal status` shows whether it is continuing, or why not"
_WRITTEN_SO = (
    "The journal itself contains these units like this, and no rebuild changes it; the actor says who wrote them."
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: a word for programs.
        ok: it holds.
        text: one sentence for people, with counts.
        failures: what does not hold, at most 20 of each kind.
        mend: what to do about it, where that is not what its name alone says.
    """

    name: str
    ok: bool
    text: str
    failures: tuple[str, ...] = ()
    mend: str = ""


def verify_lake(
    settings: Settings,
    epochs: Epochs,
    lake: Lake,
    tasks: Refolding,
    say: Callable[[Progress], None] = lambda progress: None,
) -> Iterator[Check]:
    """Hold a lake against its journal.

    Args:
        settings: names, how to reach Kafka.
        epochs: the journal topics.
        lake: its journal table exists.
        tasks: where the journal is folded again.
        say: told how far that is.
    """
    require_packages(epochs.outside)
    lake.include([served.name for served in epochs.outside])
    keys = [(topic, partition) for topic, epoch in epochs.items() for partition in range(epoch.partitions)]
    ends = {key: high for key, (_, high) in watermarks(settings, keys).items()}
    for domain, error in epochs.refusals.items():
        yield Check(f"domain-{domain}", False, str(error), tuple(error.data["differences"]), error.hint)
    epochs = epochs.whole
    try:
        lake.refresh([lake.journal.name])
    except DamagedTableError as error:
        yield _damaged("journal-once", error)
        yield from _without_journal(lake, error)
        return
    behind = {key: end - offset_of(lake.journal.mark(key)) for key, end in ends.items()}
    yield _reached(behind)
    yield from check_tables(settings, epochs, lake, tasks, say, settled=not any(count > 0 for count in behind.values()))


def check_tables(
    settings: Settings,
    epochs: Epochs,
    lake: Lake,
    tasks: Refolding,
    say: Callable[[Progress], None] = lambda progress: None,
    *,
    settled: bool,
) -> Iterator[Check]:
    """Hold the tables of a lake against its journal table; nothing of Kafka is read.

    Args:
        settings, lake, tasks, say: as of `verify_lake`.
        epochs: the journal topics, those that are refused included.
        settled: the journal table holds all that the topics hold.
    """
    journal = lake.journal.delta
    yield unless_damaged("journal-once", lambda: _once(journal))
    yield unless_damaged("units", lambda: _units(journal, settled=settled))
    names = [*(table.name for table in lake.histories), *lake.derived]
    try:
        with lake.aside(names) as aside:
            done = LakeRebuild(settings, epochs, lake, aside, names, tasks, say, only_compare=True).run()
    except DamagedTableError as error:  # the journal's: those of the histories are told with the rest
        yield from _without_journal(lake, error)
        return
    yield from _folded(done, partial(_lag, lake, done.marks))
    yield from (_not_made(name) for name in lake.derived if name not in done.digests)
    wrong = [
        f"{topic}/{partition}/{position}"
        for (topic, partition), places in done.differing.items()
        for position in places
    ]
    text = (
        f"{done.records:,} events folded again, {len(wrong) or 'none'} whose outcome differs from the journal table's"
    )
    yield Check("outcomes", not wrong, text, tuple(wrong[:_SHOWN]))
    if done.files:
        text = f"{len(done.files):,} files of derived tables are missing or have other content"
        yield Check("derived-files", False, text, tuple(done.files[:_SHOWN]), _REFILL)


def unless_damaged(name: str, check: Callable[[], Check]) -> Check:
    """A check, or the damaged file that keeps it from being done, with what mends that."""
    try:
        return check()
    except DamagedTableError as error:
        return _damaged(name, error)


def _damaged(name: str, error: DamagedTableError) -> Check:
    return Check(name, False, str(error), (f"{error.uri}/{error.file}",), error.hint)


def _without_journal(lake: Lake, error: DamagedTableError) -> Iterator[Check]:
    """What can be said where the journal table cannot be folded again: whether the history tables can be read."""
    for table in lake.histories:
        yield unless_damaged(f"table-{table.name}", partial(_not_compared, table, error))
    yield _damaged("outcomes", error)


def _not_compared(table: Table, error: DamagedTableError) -> Check:
    for damage in damages(table.delta):
        raise damage
    return Check(
        f"table-{table.name}", False, "can be read; not compared, since the journal table is damaged", (), error.hint
    )


def _reached(behind: dict[tuple[str, int], int]) -> Check:
    lost = [f"{topic}/{partition}" for (topic, partition), count in behind.items() if count < 0]
    if lost:
        return Check("journal-in-kafka", False, "the topic ends before the lake does", tuple(lost))
    waiting = sum(behind.values())
    text = f"{waiting:,} positions of the topic are not folded yet" if waiting else "the lake contains the whole topic"
    return Check("journal-in-kafka", True, text)


def _once(journal: Readable) -> Check:
    rows = _answer(
        journal,
        "select topic || '/' || journal_partition || '/' || logical_timestamp as place from lake_rows "
        f"group by topic, journal_partition, logical_timestamp having count(*) > 1 limit {_SHOWN}",
    )
    count = _answer(journal, "select count(*) as number from lake_rows")[0]["number"]
    text = f"{count:,} events in the journal table, each once" if not rows else "events are in the journal table twice"
    return Check("journal-once", not rows, text, tuple(row["place"] for row in rows))


def _units(journal: Readable, *, settled: bool) -> Check:
    """Whether every unit is whole: each of its events is there, also one that repeats another of before the unit."""
    rows = _answer(
        journal,
        "select tenant, unit_id, max(unit_count) as wanted, count(distinct unit_index) as found from lake_rows "
        "where unit_id is not null group by tenant, unit_id order by tenant, unit_id",
    )
    torn = [row for row in rows if row["found"] != row["wanted"]]
    if torn and not settled:
        return Check("units", True, f"{len(torn)} of {len(rows):,} units are not completely folded yet")
    text = f"{len(rows):,} units, {len(torn) or 'none'} of them torn"
    lines = tuple(_torn_text(journal, row) for row in torn[:_SHOWN])
    return Check("units", not torn, text, lines, _unit_advice(torn) if torn else "")


def _torn_text(journal: Readable, unit: Mapping[str, Any]) -> str:
    """A unit that is not whole: whose, how much of it is there, and where that stands."""
    rows = _answer(
        journal,
        "select topic || '/' || journal_partition || '/' || logical_timestamp as place, actor from lake_rows "
        f"where tenant = {quoted(unit['tenant'])} and unit_id = {quoted(unit['unit_id'])} "
        f"order by topic, journal_partition, logical_timestamp limit {_SHOWN}",
    )
    actors = ", ".join(sorted({row["actor"] or "(no actor given)" for row in rows}))
    places = ", ".join(row["place"] for row in rows)
    return (
        f"tenant {unit['tenant']}, unit {unit['unit_id']} ({unit['found']} of {unit['wanted']}): {places}, by {actors}"
    )


def _unit_advice(torn: Sequence[Mapping[str, Any]]) -> str:
    """An event too many cannot have been made by the fold; one that is missing may be lost in the lake alone."""
    if all(row["found"] > row["wanted"] for row in torn):
        return _WRITTEN_SO
    return f"{_REBUILD} If units are still torn: {_WRITTEN_SO}"


def _folded(done: Rebuilt, lag_of: Callable[[str], int]) -> Iterator[Check]:
    for name, digest in done.digests.items():
        if name in done.damaged:
            yield _damaged(f"table-{name}", done.damaged[name])
            continue
        same = done.live[name] == digest
        text = f"{done.records:,} events folded again give {'the same rows' if same else 'other rows'} ({digest[:16]})"
        if done.live[name] is None:
            text = "the table is missing; `metajournal rebuild lake` rebuilds it"
        elif SPECS[name].version and (lag := lag_of(name)):
            text += f"; derived, {lag:,} positions behind: {_TOLD_BY_STATUS}"
        yield Check(f"table-{name}", same, text)


def _not_made(name: str) -> Check:
    return Check(
        f"table-{name}", True, f"derived, and not compared: there is no table of its version; {_TOLD_BY_STATUS}"
    )


def _lag(lake: Lake, marks: Mapping[tuple[str, int], int], name: str) -> int:
    """How many positions a derived table lacks of what the journal table holds."""
    table, owned = lake.tables[name], next(owned for owned in functions_of(lake) if name in owned.derived.tables)
    return sum(max(0, offset_of(marks[key]) - offset_of(table.mark(key))) for key in keys_of(owned, list(marks)))


def _answer(table: Readable, statement: str) -> list[dict[str, Any]]:
    paths = scan.live_files(table)["path"].to_pylist()
    if not paths:
        return [{"number": 0}] if "as number" in statement else []
    with scan.cursor() as cursor:
        source = scan.source(cursor, table, paths)
        answer_rows: list[dict[str, Any]] = (
            cursor.sql(statement.replace("lake_rows", source, 1)).to_arrow_table().to_pylist()
        )
    return answer_rows
