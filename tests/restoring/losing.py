"""What a lost cluster leaves: topics that are deleted, and everything that readers of a journal see of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from metajournal import Journal
from metajournal.lake.digest import table_digest
from metajournal.lake.storage.kept_epochs import KeptEpochs
from metajournal.lake.tables import Lake
from metajournal.producers.compacted import read_all
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.consumers.stream import BrokerStream
from tests.wait import eventually


def lose(settings: Settings, topics: Iterable[str] | None = None) -> list[str]:
    """Delete topics, all of the journal by default, and wait until the broker no longer shows them."""
    admin = AdminClient(dict(settings.kafka))
    shown = admin.list_topics(timeout=10).topics
    own = [name for name in shown if name.startswith(f"{settings.journal.prefix}.")]
    there = own if topics is None else [name for name in topics if name in shown]
    for future in admin.delete_topics(there).values():
        future.result()
    eventually(lambda: not {*there} & {*admin.list_topics(timeout=10).topics}, 30, "the topics are gone")
    return there


def digests(settings: Settings, marks: Mapping[tuple[str, int], int]) -> dict[str, str]:
    """The digest of each table below some marks."""
    lake = Lake(settings.lake.path)
    lake.refresh()
    return {name: table_digest(table.delta, marks) for name, table in lake.tables.items() if table.exists()}


def journal_marks(settings: Settings) -> dict[tuple[str, int], int]:
    """The next position of each journal partition that the lake holds."""
    lake = Lake(settings.lake.path)
    lake.refresh(["journal"])
    names = settings.journal.topics
    served = ("catalog", "files", "access", "repositories")
    domains = {name for name in served if lake.journal.mark((names.journal(name), 0))}
    return {
        (names.journal(name), number): lake.journal.mark((names.journal(name), number))
        for name in domains
        for number in range(settings.journal.partitions)
    }


def told(settings: Settings, urns: Iterable[Any], events: Iterable[Position]) -> dict[str, Any]:
    """What a new process is told of old events: entities, histories, and each event's way."""
    with Journal.connect(settings) as journal:
        return {
            **{f"show {urn}": journal.show(urn) for urn in urns},
            **{f"history {urn}": journal.history(urn) for urn in urns},
            **{
                f"why {event}": [step._replace(seen=None) for step in journal.why(event).steps]  # type: ignore[arg-type]
                for event in events
            },
        }


def fold_here(settings: Settings) -> None:
    """What a start of the stream does, without Spark: fold all that the topics hold, and keep the epochs topic."""
    BrokerStream(settings).fold()
    where = settings.lake
    KeptEpochs(where.path, where.storage_options).keep(read_all(settings, settings.journal.topics.epochs))
