"""Objects of repositories in bulk: from the topic, and from `write`, until the lake holds the last.

The journal has 1,000,000 objects in events of 1,000 each, of one repository, which one task folds, or of four, each in
a partition of its own. First they stand in the topic and the stream begins; then a program writes them with
`Branch.write`, as users do, while the stream runs. The journal table is written last, after the change records are
acknowledged, so its marks say when all is done. What came out is counted afterwards.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from bench import source
from bench.catchup import _stream
from metajournal.client import Journal
from metajournal.domains.repositories.events import Entry, ObjectsWritten, RepositoryCreated
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.lake.tables import Lake
from metajournal.producers.kafka import ErrorLog, make_producer
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import DIGEST_HEADER, digest, partition_of, record_key
from metajournal.schemas.header import Header
from metajournal.schemas.positions import offset_of
from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, LakeSettings, Settings, StackSettings
from metajournal.stack.jars import ensure_parts, spark_jars
from metajournal.stack.kafka import start_kafka
from metajournal.streaming.publish import watermarks

OBJECTS: Final = 1_000_000
PER_EVENT: Final = 1_000
LIMIT: Final = 100_000
_DOMAIN: Final = "repositories"
_LONGEST_S: Final = 600

Say = Callable[[str], None]


def run(say: Say, *, objects: int = OBJECTS) -> list[dict[str, Any]]:
    """Measure; gives each figure with what it must reach as its limit."""
    names = _apart(4)
    one, four = (
        _measured(say, f"{objects:,} objects of {said}", objects, some, _from_topic)
        for said, some in (("one repository", names[:1]), ("four repositories", names))
    )
    whole = _measured(say, f"{objects:,} objects of one repository, from write", objects, names[:1], _from_write)
    return [{**one, "least": 1.0, "from_write": whole["value"]}, {**four, "least": 1.0}]


def _apart(count: int) -> list[str]:
    """Names of repositories whose events stand in as many partitions."""
    partitions = JournalSettings().partitions
    by_partition: dict[int, str] = {}
    for number in range(1_000):
        name = f"bench-{number}"
        by_partition.setdefault(partition_of(record_key("default", f"repo:{name}"), partitions), name)
    return sorted(by_partition.values())[:count]


_Way = Callable[[Settings, Path, Sequence[str], int], tuple[float, str]]


def _measured(say: Say, name: str, objects: int, repositories: Sequence[str], way: _Way) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        broker = start_kafka(ensure_parts(("kafka",)), Path(folder) / "kafka")
        try:
            settings = _settings(broker.endpoint, Path(folder))
            ensure_topics(settings)
            took_s, said = way(settings, Path(folder), repositories, objects)
            _count(settings, objects)
        finally:
            broker.stop()
        for batch in _batches(Path(folder)):
            steps = ", ".join(f"{step} {ms / 1000:.1f} s" for step, ms in batch["ms"].items())
            say(f"  {batch['events']:,} events: {steps}")
    rate = objects / took_s
    say(f"{name}: {took_s:.1f} s{said}, {rate:,.0f} objects/s")
    return {"name": name, "value": rate, "limit": LIMIT, "ratio": rate / LIMIT, "unit": "objects/s"}


def _settings(endpoint: str, folder: Path) -> Settings:
    settings = Settings(
        journal=JournalSettings(prefix="bench", actor="bench"),
        kafka={"bootstrap.servers": endpoint},
        lake=LakeSettings(path=str(folder / "lake")),
        elasticsearch=ElasticsearchSettings(index="bench"),
        stack=StackSettings(home=str(folder / "home")),
    )
    return replace(settings, stream=replace(settings.stream, metrics_file=str(folder / "metrics.jsonl")))


# The ways to the lake.


def _from_topic(settings: Settings, folder: Path, repositories: Sequence[str], objects: int) -> tuple[float, str]:
    """Seconds from the start of the stream's query until the lake holds the last event of those in the topic."""
    _fill(settings, repositories, objects)
    ends = _ends(settings)
    with _streaming(settings) as is_alive:
        started = time.time()
        _until(lambda: _marks(settings) == ends, is_alive)
    return _batches(folder)[-1]["at_ms"] / 1000 - started, ""


def _from_write(settings: Settings, folder: Path, repositories: Sequence[str], objects: int) -> tuple[float, str]:
    """Seconds from the first write until the lake holds the last."""
    written = list(entries(objects // len(repositories)))
    with _streaming(settings) as is_alive:
        with Journal.connect(settings) as journal:
            made = [journal.repositories.create(name, storage_namespace="s3://bench") for name in repositories]
            started = time.time()
            for repository in made:
                repository.branch("main").write(written)
            journal.flush()
            sent_s = time.time() - started
        ends = _ends(settings)
        _until(lambda: _marks(settings) == ends, is_alive)
    return _batches(folder)[-1]["at_ms"] / 1000 - started, f" (sent in {sent_s:.1f} s)"


@contextmanager
def _streaming(settings: Settings) -> Iterator[Callable[[], bool]]:
    """A stream that runs; gives whether it still does."""
    process = multiprocessing.get_context("spawn").Process(target=_stream, args=(settings, spark_jars()), daemon=True)
    process.start()
    try:
        status = Path(settings.stack.home or "") / "stream.json"
        _until(lambda: status.exists() and json.loads(status.read_text())["state"] == "running", process.is_alive)
        yield process.is_alive
    finally:
        process.terminate()
        process.join(60)


def _until(check: Callable[[], bool], is_alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not check():
        if time.monotonic() > deadline or not is_alive():
            raise RuntimeError("the stream did not get there; its log is in the folder of the run")
        time.sleep(0.05)


def _batches(folder: Path) -> list[dict[str, Any]]:
    batches = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [batch for batch in batches if batch["events"]]


def _places(settings: Settings, topic: str) -> list[tuple[str, int]]:
    return [(topic, partition) for partition in range(settings.journal.partitions)]


def _ends(settings: Settings) -> dict[tuple[str, int], int]:
    places = _places(settings, settings.journal.topics.journal(_DOMAIN))
    return {place: high for place, (_, high) in watermarks(settings, places).items()}


def _marks(settings: Settings) -> dict[tuple[str, int], int]:
    lake = Lake(settings.lake.path)
    if not lake.journal.exists():
        return {}
    places = _places(settings, settings.journal.topics.journal(_DOMAIN))
    return {place: offset_of(lake.journal.mark(place)) for place in places}


def _count(settings: Settings, objects: int) -> None:
    """Each object gave a row, and each event a change. Raises: RuntimeError: it did not."""
    lake, names = Lake(settings.lake.path), settings.journal.topics
    changes = sum(high - low for low, high in watermarks(settings, _places(settings, names.changes(_DOMAIN))).values())
    counts = {"objects": lake.tables["objects"].delta.count(), "changes": changes}
    if counts != {"objects": objects, "changes": lake.journal.delta.count()}:
        raise RuntimeError(f"{objects:,} objects gave {counts}")


# The journal.


def created(repository: str) -> RepositoryCreated:
    """The event that begins a repository."""
    return RepositoryCreated(repository_urn(repository), "main", "s3://bench")


def events(repository: str, objects: int) -> Iterator[ObjectsWritten]:
    """Events of up to 1,000 objects each."""
    rest = entries(objects)
    while some := list(islice(rest, PER_EVENT)):
        yield ObjectsWritten(branch_urn(repository, "main"), some)


def entries(objects: int) -> Iterator[Entry]:
    """Objects of 97 tables in random order: one in ten has metadata, and one in ten no content type."""
    choose = random.Random(7)
    numbers = list(range(objects))
    choose.shuffle(numbers)
    return map(partial(_entry, choose), numbers)


def _entry(choose: random.Random, number: int) -> Entry:
    checksum, block = f"{choose.getrandbits(128):032x}", f"{choose.getrandbits(128):032x}"
    return Entry(
        f"tables/t{number % 97:03}/day={number % 365:03}/part-{number:07}.parquet",
        choose.randrange(10**8),
        checksum,
        f"s3://bucket/data/{block}",
        content_type="application/octet-stream" if number % 10 else None,
        metadata={"mode": "100644"} if number % 10 == 3 else {},
        mtime=1_700_000_000_000 + choose.randrange(10**9),
    )


def _fill(settings: Settings, repositories: Sequence[str], objects: int) -> None:
    """Write the journal of some repositories into the topic, by turns."""
    producer = make_producer(settings, ErrorLog(), **{"linger.ms": 50})
    topic = settings.journal.topics.journal(_DOMAIN)
    journals = [chain([created(name)], events(name, objects // len(repositories))) for name in repositories]
    for number, event in enumerate(chain.from_iterable(zip(*journals, strict=True))):
        header = header_of(event, number)
        value = codec.encode(event, header)
        key = record_key(header.tenant, header.aggregate)
        headers: list[tuple[str, str | bytes | None]] = [(DIGEST_HEADER, digest(value))]
        while True:
            try:
                producer.produce(topic, value, key, headers=headers)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def header_of(event: Any, number: int) -> Header:
    """The header of an event of a journal, by its number there."""
    time_ms = 1_760_000_000_000 + number
    entities = tuple(map(str, event.entities))
    return Header(
        source.identity(number, time_ms), "default", event.TYPE, str(event.aggregate), entities, "bench", time_ms
    )


if __name__ == "__main__":
    print(json.dumps(run(print, objects=int(sys.argv[1]) if len(sys.argv) > 1 else OBJECTS), indent=1))
