"""Makes the archives of this version: `python -m tests.upgrades.make OUT`.

Two installations with services of their own, written by this version's client, stream and indexer: OUT/<version>, and
OUT/<version>-killed, whose stream was killed in a batch when history tables were ahead of the journal table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from metajournal.client import Journal
from metajournal.lake.tables import Lake
from metajournal.producers.topics import ensure_topics, wanted_topics
from metajournal.rules.digest import digests_text, served_digests
from metajournal.schemas.settings import (
    ElasticsearchSettings,
    JournalSettings,
    LakeSettings,
    Settings,
    StackSettings,
)
from tests.services import Services, provide
from tests.upgrades.archive import About, Archive, Topic
from tests.upgrades.folding import digests_of, fold, index_all
from tests.upgrades.journal import CUSTOM, steps, write_journal
from tests.upgrades.questions import answers
from tests.upgrades.restore import capture

MOST_BYTES: Final = 2_000_000
_SHORT, _WIDE = 1_000_000, 1
RUNS: Final[Sequence[Mapping[str, Any]]] = (
    {"max_events_per_batch": 90, "wide_events": _SHORT, "crash_at": "after-journal:3"},
    {"max_events_per_batch": 120, "wide_events": _SHORT, "crash_at": "after-publish:2"},
    {"max_events_per_batch": 250, "wide_events": _WIDE, "crash_at": "after-journal:2"},
    {"max_events_per_batch": 30, "wide_events": _SHORT},
)
"""Both ways; killed between two batches, and once where the next start publishes again what was published already; and
at the end batches enough for a compaction."""
KILLED_RUNS: Final[Sequence[Mapping[str, Any]]] = (
    {"max_events_per_batch": 60, "wide_events": _SHORT, "crash_at": "after-history:2"},
)


def make(
    archive: Archive, services: Services, folder: Path, prefix: str, count: int, runs: Sequence[Mapping[str, Any]]
) -> None:
    """Make one installation and archive it.

    Args:
        prefix: of its topics, which no other archive has.
        count: steps of its journal.
        runs: starts of the stream; where the last one is killed, nobody asks the installation anything.
    """
    settings = Settings(
        journal=JournalSettings(prefix=prefix, actor="archive", custom_kinds=tuple(one.kind for one in CUSTOM)),
        kafka={"bootstrap.servers": services.bootstrap_servers},
        lake=LakeSettings(path=str(folder / "lake")),
        elasticsearch=ElasticsearchSettings(url=services.elasticsearch_url, index=prefix),
        stack=StackSettings(home=str(folder)),
    )
    folder.mkdir(parents=True)
    epochs = ensure_topics(settings)
    write_journal(settings, steps(count))
    fold(settings, ensure_topics(settings), runs, folder)
    index = index_all(settings, epochs, folder / "indexer.log")
    lake = Lake(settings.lake.path)
    whole = "crash_at" not in runs[-1]
    asked = None
    if whole:
        with Journal.connect(settings) as journal:
            asked = answers(journal)
    digests = digests_of(lake, epochs) if whole else {}
    about = About(prefix, version("metajournal"), digests_text(served_digests()), runs, digests)
    forget_place(Path(lake.path))
    archive.write(about, topics_of(settings), index, asked, Path(lake.path))


def forget_place(lake: Path) -> None:
    """Leave out of the tables' logs where the lake stood, which they tell of their making and nobody reads."""
    for log in lake.rglob("_delta_log/*.json"):
        log.write_text(log.read_text("utf-8").replace(str(lake), "/lake"), "utf-8")


def topics_of(settings: Settings) -> list[Topic]:
    """Every topic of an installation."""
    admin = AdminClient({"bootstrap.servers": settings.kafka["bootstrap.servers"], "log_level": 0})
    names = sorted(one.topic for one in wanted_topics(settings))
    found = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    configs = {
        resource.name: {key: entry.value for key, entry in sorted(future.result().items()) if entry.source == own}
        for resource, future in found.items()
    }
    return capture(settings, {name: configs[name] for name in names})


def main(out: Path) -> None:
    release = version("metajournal")
    short = "v" + release.replace(".", "")
    with tempfile.TemporaryDirectory() as place, provide(Path(place) / "services") as services:
        for name, prefix, count, runs in (
            (release, short, 1_100, RUNS),
            (f"{release}-killed", f"{short}k", 60, KILLED_RUNS),
        ):
            archive = Archive(out / name)
            make(archive, services, Path(place) / name, prefix, count, runs)
            assert archive.bytes <= MOST_BYTES, f"{name} has {archive.bytes:,} bytes"
            print(f"{name}: {archive.bytes:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
