"""Folds an archive's journal with the code at hand, and compares: `python -m tests.upgrades.equality ARCHIVE`.

Into services of its own come the topics that clients write, each record at its offset and with its time; lake, change
topics and index are made from nothing, by the same starts of the stream. Equal must be: the digest of each table; each
record of the other topics, in its place, byte for byte, but for the clock in outcome records; each document of the
index with its version and terms. Prints a line for each, and ends with 1 where one differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat, zip_longest
from pathlib import Path
from typing import NamedTuple

from metajournal.lake.tables import Lake
from metajournal.producers.topics import check_topics
from metajournal.schemas.settings import ElasticsearchSettings, LakeSettings, Settings, StackSettings
from tests.services import Services, provide
from tests.upgrades.archive import Archive, Index, Record, Topic, settings_for
from tests.upgrades.folding import digests_of, fold, index_all
from tests.upgrades.restore import capture, restore_topics


class Compared(NamedTuple):
    """One thing that was compared.

    Attributes:
        name: a table, a topic or the index.
        size: how much of it: records, documents; 1 for a digest.
        differing: what differs, in words.
    """

    name: str
    size: int
    differing: Sequence[str]


def compare(archive: Archive, services: Services, folder: Path, new_headers: Collection[str] = ()) -> list[Compared]:
    """Fold an archive's journal anew, and hold what came of it against the archive.

    Args:
        folder: an empty one, for lake and logs.
        new_headers: names of Kafka headers that the records may have beyond those in the archive.
    """
    settings = settings_for(archive, _settings(services, folder))
    written = (settings.journal.topics.epochs, settings.journal.topics.schemas, settings.journal.topics.journal(""))
    restore_topics(archive, settings, lambda topic: topic.startswith(written))
    epochs = check_topics(settings)
    fold(settings, epochs, archive.about.runs, folder)
    index = index_all(settings, epochs, folder / "indexer.log")
    digests = digests_of(Lake(settings.lake.path), epochs)
    topics = [one for one in archive.topics() if not one.name.startswith(written)]
    return [
        *compare_tables(archive.about.digests, digests),
        *map(compare_topic, topics, capture(settings, {one.name: one.config for one in topics}), repeat(new_headers)),
        compare_index(archive.index(), index),
    ]


def _settings(services: Services, folder: Path) -> Settings:
    return Settings(
        kafka={"bootstrap.servers": services.bootstrap_servers},
        lake=LakeSettings(path=str(folder / "lake")),
        elasticsearch=ElasticsearchSettings(url=services.elasticsearch_url),
        stack=StackSettings(home=str(folder)),
    )


def compare_tables(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[Compared]:
    """Digests by the tables' names."""
    for name in sorted({*wanted, *found}):
        same = wanted.get(name) == found.get(name)
        yield Compared(f"table {name}", 1, () if same else (f"{wanted.get(name)} was {found.get(name)}",))


def compare_topic(wanted: Topic, found: Topic, new_headers: Collection[str]) -> Compared:
    """Records in their places; one that only one side has differs too."""
    differing = []
    for number, (one, other) in enumerate(zip(wanted.partitions, found.partitions, strict=True)):
        for was, now in zip_longest(one.records, other.records):
            now = now and _without(now, {*new_headers} - {name for name, _ in (was.headers if was else ())})
            if _timeless(wanted.name, was) != _timeless(wanted.name, now):
                differing.append(f"{wanted.name}/{number}: {was} is {now}")
    return Compared(f"topic {wanted.name}", sum(len(one.records) for one in wanted.partitions), differing)


def _without(record: Record, headers: Collection[str]) -> Record:
    return record._replace(headers=tuple(one for one in record.headers if one[0] not in headers))


def _timeless(topic: str, record: Record | None) -> Record | None:
    """A record without the stream's clock, which only outcome records tell."""
    if record is None or ".outcomes." not in topic:
        return record
    said = json.loads(record.value or b"{}")
    written = said.pop("written", None)
    by_the_clock = record.time_ms == written
    return record._replace(value=json.dumps(said).encode(), time_ms=0 if by_the_clock else record.time_ms)


def compare_index(wanted: Index, found: Index) -> Compared:
    """Documents with their versions, and what the index itself is."""
    was, now = ({name: (version, document) for name, version, document in one.documents} for one in (wanted, found))
    differing = [
        f"{name}: {was.get(name)} is {now.get(name)}" for name in sorted({*was, *now}) if was.get(name) != now.get(name)
    ]
    differing += [
        f"{part}: {getattr(wanted, part)} is {getattr(found, part)}"
        for part in ("mappings", "settings", "positions")
        if getattr(wanted, part) != getattr(found, part)
    ]
    return Compared("index", len(was), differing)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrades.equality", description=__doc__)
    parser.add_argument("archive", type=Path, help="folder of an archive")
    parser.add_argument("--new-headers", default="", metavar="NAME,…", help="Kafka headers that records may have more")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place, provide(Path(place) / "services") as services:
        folder = Path(place) / "fold"
        folder.mkdir()
        found = compare(Archive(given.archive), services, folder, [one for one in given.new_headers.split(",") if one])
    for one in found:
        verdict = f"{len(one.differing)} differ" if one.differing else "equal"
        print(f"{one.name:40} {one.size:6,}  {verdict}")  # noqa: T201
        for text in one.differing[:3]:
            print(f"    {text[:1000]}")  # noqa: T201
    return int(any(one.differing for one in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
