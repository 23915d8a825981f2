"""What users ask an archived installation, and what they are answered, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, is_dataclass
from functools import partial
from typing import Any, Final

from metajournal.client import Journal
from metajournal.domains.files.urns import file_urn
from metajournal.schemas.errors import UnknownEntityError
from metajournal.schemas.hashing import partition_of, record_key
from metajournal.schemas.positions import Position
from tests.archive import FIRST_DAY
from tests.builders import NOON
from tests.upgrades.journal import DATASETS, DAY_MS, ENTITIES, PLACES, PROGRAMS, RUNS, STREAMS

_QUERIES: Final = (
    "orders",
    "Kundenaufträge",
    "tags:pii",
    "tags:gold owner:alice",
    "properties:Größe",
    "rows:1",
    "description:Beschreibung",
    "日本",
    "fields:id",
    "NOT tags:pii",
)
_DAYS: Final = (NOON, FIRST_DAY * DAY_MS + DAY_MS, NOON * 2)
_FILES: Final = [file_urn("nebraska", "nginx", f"f{number}") for number in range(1, 6)]


def answers(journal: Journal) -> dict[str, Any]:
    """Every question with its answer; those of the lake are asked as at now, those of the index of all it shows."""
    found: dict[str, Any] = {}
    for tenant in ("default", "acme"):

        def ask(word: str, question: Callable[..., Any], of: Iterable[Any], tenant: str = tenant) -> None:
            found.update({f"{tenant}: {word} {one}": _answer(question, one, tenant) for one in of})

        ask("show", journal.show, [*ENTITIES[::2], *_FILES])
        ask("metadata", journal.metadata, STREAMS)
        ask("history", journal.history, [*DATASETS[:2], *_FILES[:2]])
        ask("lineage", journal.lineage.of, [*DATASETS[:3], *STREAMS, _FILES[0]])
        ask("run", journal.lineage.run, RUNS[::3])
        ask("runs", journal.lineage.runs, PROGRAMS)
        ask("accesses", journal.lineage.accesses, RUNS[::3])
        ask("latest write", journal.lineage.latest_write, [*DATASETS[:5], *STREAMS])
        ask("search", partial(_hits, journal), _QUERIES)
        ask("names", journal.suggest_names, ("", "o"))
        ask("keys", journal.suggest_keys, ("", "o"))
        ask("files", lambda day, tenant: list(journal.files.find(start=0, end=day, tenant=tenant)), _DAYS)
        ask("work", lambda work, tenant: list(journal.files.find(work_id=work, tenant=tenant)), ("w1", "w-2"))
        ask("latest", lambda place, tenant: journal.files.latest(place[1], place[0], tenant=tenant), PLACES)
        ask("as at", partial(_then, journal), _places(journal, tenant))
    plain: dict[str, Any] = json.loads(json.dumps(found, default=_plain))
    return plain


def _places(journal: Journal, tenant: str) -> list[Position]:
    """Where the journal speaks of an entity."""
    topic = journal.settings.journal.topics.journal("catalog")
    partition = partition_of(record_key(tenant, DATASETS[0]), journal.epochs[topic].partitions)
    try:
        rows = journal.history(DATASETS[0], tenant=tenant)
    except UnknownEntityError:
        return []
    return [Position(topic, partition, row.logical_timestamp) for row in rows]


def _then(journal: Journal, at: Position, tenant: str) -> Any:
    return journal.show(DATASETS[0], tenant=tenant, as_at=at)


def _hits(journal: Journal, query: str, tenant: str) -> Any:
    results = journal.search(query, tenant=tenant, limit=200, sort="name", facets=True)
    return [results.total, [(hit.urn, hit.document) for hit in results.hits], results.facets]


def _answer(question: Callable[..., Any], about: Any, tenant: str) -> Any:
    try:
        return question(about, tenant=tenant)
    except UnknownEntityError:
        return "unknown"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    assert isinstance(value, Mapping), f"{value!r} has no form in JSON"
    return dict(value)
