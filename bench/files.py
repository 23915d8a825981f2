"""Queries over archived files among a million records, and how fast records are ingested in bulk.

The lake is filled through the rules, in batches as the stream makes them and with upkeep between them. The queries are
asked as a person does, each by a fresh handle: pages of 100 files by time or work_id, of one server and program or of
all, and the newest file of one. Beside them stands what duckdb takes to read the same columns of the same files with
the plainest statement that could give such a page: without superseded records, without a cut, without a cursor.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import duckdb
import pyarrow as pa

from metajournal.domains.files.events import DAY_MS, FileMetadata, FileRecord, FilesRecorded
from metajournal.domains.files.queries import FileQueries
from metajournal.domains.files.questions import FilesQuestion
from metajournal.lake.columns import JOURNAL
from metajournal.lake.declared import made_arrow
from metajournal.lake.tables import Lake, Reached
from metajournal.rules import Accepted, At, EntityRow, FactKey, apply
from metajournal.schemas.hashing import partition_of, record_key
from metajournal.schemas.header import Header
from metajournal.schemas.topics import TopicNames

RECORDS: Final = 1_000_000
BATCH_EVENTS: Final = 50
PROBES: Final = 60
LIMIT_MS: Final = 60
PAGE: Final = 100
DAYS: Final = 30
WHATS: Final = 10
WHERES: Final = 20
FIRST_DAY: Final = 16_600
_TOPIC: Final = TopicNames().journal("files")
_PARTITIONS: Final = 4
_FIRST: Final = 1 << 40


def measure(
    *, records: int = RECORDS, probes: int = PROBES, say: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Fill a lake and ask; gives each query's p50 in milliseconds with its limit, the p99 and the bare read's p50."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        say(f"recording {records:,} files")
        lake = fill(folder, records)
        files = lake.tables["file_records"].delta.file_uris()
        say(f"{len(files)} files in the table; {probes} probes of each query")
        return [_figure(name, make_question, folder, files, probes) for name, make_question in QUESTIONS.items()]


def events(records: int, *, twice: bool = True) -> Iterator[FilesRecorded]:
    """Events of up to 1,000 files: one in twenty spans two days, one in ten has a work_id, one in fifty comes twice."""
    choose = random.Random(7)
    kept: list[FilesRecorded] = []
    left = records
    while left > 0:
        what, where = f"what-{choose.randrange(WHATS)}", f"where-{choose.randrange(WHERES)}"
        day = FIRST_DAY + choose.randrange(DAYS)
        made = FilesRecorded([_file(choose, what, where, day) for _ in range(min(1000, left))])
        left -= len(made.files)
        kept.append(made)
        yield made
        if twice and len(kept) % 50 == 0:
            again = choose.choice(kept)
            yield FilesRecorded([file._replace(url=file.url + "?again") for file in again.files])


def _file(choose: random.Random, what: str, where: str, day: int) -> FileRecord:
    start = day * DAY_MS + choose.randrange(DAY_MS)
    end = start + (DAY_MS if choose.random() < 0.05 else choose.randrange(60_000))
    work_id = f"job-{choose.randrange(5_000)}" if choose.random() < 0.1 else None
    file_id, content = f"{choose.getrandbits(128):032x}", f"{choose.getrandbits(128):032x}"
    path = f"/var/log/{what}/{start}.log"
    metadata = FileMetadata(0, start, end, where, what, "1", file_id, content, work_id, path)
    return FileRecord(f"s3://archive/{where}/{what}/{start}/{file_id}", metadata, choose.randrange(10**7), end)


class _Rows:
    """The newest rows of all files: what the rules read."""

    def __init__(self) -> None:
        self.newest: dict[str, EntityRow] = {}

    def entity(self, urn: str) -> EntityRow | None:
        return self.newest.get(urn)

    def members(self, _aggregate: str, _kinds: Collection[str]) -> list[EntityRow]:
        return []

    def fact(self, _key: FactKey) -> Any:
        return None


def fill(folder: str, records: int) -> Lake:
    """A lake that holds so many files."""
    lake, rows = Lake(folder), _Rows()
    lake.create()
    table, made, number = lake.tables["file_records"], [], 0
    for number, event in enumerate(events(records), 1):
        header = Header(number.to_bytes(16, "big"), "default", event.TYPE, event.aggregate, event.entities, "bench", 0)
        outcome = apply(header, event, At(_FIRST + number, 1_700_000_000_000 + number, bytes(16)), rows)
        if isinstance(outcome, Accepted):
            rows.newest.update((row.urn, row) for row in outcome.rows)
            partition = partition_of(record_key("default", event.aggregate), _PARTITIONS)
            made += [(row, "files", partition) for row in outcome.facts]
        if number % BATCH_EVENTS == 0:
            _append(lake, table, made, number)
            made = []
    _append(lake, table, made, number)
    return lake


def _append(lake: Lake, table: Any, made: list[Any], number: int) -> None:
    marks = {(_TOPIC, partition): _FIRST + number + 1 for partition in range(_PARTITIONS)}
    if made:
        table.append(made_arrow("file_records", made), Reached(marks, {}, {"catalog": "bench"}))
    now = datetime.now(UTC)
    row = {
        "topic": _TOPIC, "journal_partition": 0, "logical_timestamp": _FIRST + number, "system_date": now.date(),
        "system_time": now, "append_time": now, "outcome": "accepted",
    }  # fmt: skip
    lake.journal.append(pa.Table.from_pylist([row], schema=JOURNAL), Reached(marks, marks, {"catalog": "bench"}))
    lake.tidy(for_s=0.3)


def _week(choose: random.Random) -> dict[str, int]:
    first = FIRST_DAY + choose.randrange(DAYS - 7)
    return {"start": first * DAY_MS + 5_000_000, "end": (first + 7) * DAY_MS}


def _place(choose: random.Random) -> dict[str, str]:
    return {"where": f"where-{choose.randrange(WHERES)}", "what": f"what-{choose.randrange(WHATS)}"}


MakeQuestion = Callable[[random.Random], dict[str, Any]]
QUESTIONS: Final[dict[str, MakeQuestion]] = {
    "one where, all whats, a week": lambda choose: {"where": _place(choose)["where"], **_week(choose)},
    "all wheres, all whats, a week": _week,
    "all wheres, one what, all 30 days": lambda choose: {
        "what": _place(choose)["what"], "start": FIRST_DAY * DAY_MS, "end": (FIRST_DAY + DAYS + 1) * DAY_MS,
    },
    "one where, one work_id": lambda choose: {
        "where": _place(choose)["where"], "work_id": f"job-{choose.randrange(5_000)}",
    },
    "one work_id": lambda choose: {"work_id": f"job-{choose.randrange(5_000)}"},
    "latest of one where and what": _place,
}  # fmt: skip


def _figure(name: str, make_question: MakeQuestion, folder: str, files: list[str], probes: int) -> dict[str, Any]:
    choose = random.Random(11)
    questions = [make_question(choose) for _ in range(probes)]
    times_ms = [_probe(folder, question) for question in questions]
    bare = [_bare(files, question) for question in questions]
    p50, p99 = statistics.median(times_ms), statistics.quantiles(times_ms, n=100)[98]
    return {
        "name": f"files: {name}, p50",
        "value": p50,
        "limit": LIMIT_MS,
        "ratio": p50 / LIMIT_MS,
        "unit": "ms",
        "p99": p99,
        "probes": probes,
        "bare_p50": statistics.median(bare),
    }


def _probe(folder: str, question: dict[str, Any]) -> float:
    """Milliseconds of one page by a fresh handle."""
    begun = time.perf_counter()
    queries = FileQueries(Lake(folder), TopicNames(), _PARTITIONS)
    if "start" in question or "work_id" in question:
        queries.page("default", FilesQuestion.of(**question), limit=PAGE)
    elif not queries.latest("default", **question).files:
        raise RuntimeError(f"nothing is found for {question}")
    return (time.perf_counter() - begun) * 1000


def _bare(files: list[str], question: dict[str, Any]) -> float:
    """Milliseconds of the plainest statement over the same files."""
    named = {"where": "file_where", "what": "file_what", "work_id": "work_id"}
    parts = [f"{column} = '{question[key]}'" for key, column in named.items() if key in question]
    if "start" in question:
        parts.append(f"start_ms between {question['start']} and {question['end']}")
    begun = time.perf_counter()
    with duckdb.connect() as connection:
        connection.execute(
            f"select * from read_parquet({files!r}) where {' and '.join(parts)} order by start_ms limit {PAGE}"
        ).fetchall()
    return (time.perf_counter() - begun) * 1000


def main() -> int:
    """Print the figures; 1 when one misses its limit."""
    figures = measure(say=lambda text: print(text, file=sys.stderr))
    for figure in figures:
        print(f"{figure['name']}: {figure['value']:.1f} ms, at most {figure['limit']} ms; p99 {figure['p99']:.1f} ms;"
              f" bare read {figure['bare_p50']:.1f} ms")  # fmt: skip
    return 0 if all(figure["ratio"] <= 1 for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
