"""What the gateway's pages are about in tests of this folder: data with tags, changes, lineage, files and a repository,
beside the same with hostile texts in every place."""

from __future__ import annotations

import json
from typing import NamedTuple

from metajournal import (
    AccessesRecorded,
    EntityDeleted,
    EntityRegistered,
    PropertiesSet,
    RunStarted,
    TagsAdded,
    dataset,
    program,
    run,
    stream,
)
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from tests.gateway.indexed import index
from tests.gateway.serving import Served
from tests.gateway.test_files import record
from tests.gateway.test_pages_hostile import HOSTILE
from tests.repositories.staying import committed, created

ORDERS, TOTALS, GONE, CLICKS = (
    dataset("shop", "orders"),
    dataset("shop", "totals"),
    dataset("shop", "gone"),
    stream("shop", "clicks"),
)
NIGHTLY_PROGRAM = program("shop", "sums", "workflow", "nightly")
NIGHTLY = run("shop", "sums", "workflow", "nightly", "r1")
SCHEMA = '{"type":"record","name":"r","fields":[{"name":"total","type":"double"},{"name":"who","type":"string"}]}'
AT_MS = 1_700_000_000_000


def hostile_run(number: int) -> Urn:
    """The run whose id is a hostile text."""
    return run("hostile", "odd", "spark", f"p{number}", HOSTILE[number])


class Story(NamedTuple):
    """What only the journal knows of it: ids of an event that was accepted and of one that was rejected."""

    accepted: str
    rejected: str


def tell(server: Served, settings: Settings) -> Story:
    """Write it, fold it, and have the index show it."""
    story = _data(server)
    _hostile(server)
    _repositories(server)
    server.journal.flush()
    index(server, settings)
    return story


def _data(server: Served) -> Story:
    emit = server.journal.emit
    properties = {"team": "blue", "owner": "ada", "wiki": "https://wiki.example/orders", "code": "javascript:alert(1)"}
    emit(EntityRegistered(ORDERS, "All orders of the shop.", SCHEMA, properties, ["raw", "sales"]))
    emit(EntityRegistered(TOTALS, "Sums of a day.", None, {"team": "red"}, ["sales"]))
    emit(EntityRegistered(CLICKS, "Clicks of visitors.", None, {"rate": "high"}, []))
    emit(PropertiesSet(ORDERS, {"rows": "10"}), actor="bob")
    accepted = emit(PropertiesSet(ORDERS, {"rows": "20"}), actor="bob")
    emit(EntityRegistered(GONE))
    emit(EntityDeleted(GONE))
    rejected = emit(TagsAdded(dataset("shop", "nobody"), ["rejected"]))
    recorded = {"user": {"properties": {"engine": "spark"}}}
    emit(EntityRegistered(NIGHTLY_PROGRAM, "Sums of the night.", None, {"schedule": "daily"}, []))
    emit(RunStarted(NIGHTLY, AT_MS))
    emit(AccessesRecorded(NIGHTLY, [(ORDERS, "read", AT_MS, "reader", recorded), (TOTALS, "write", AT_MS, None, None)]))
    server.journal.files.record([record("web01", "syslog", number, "job-1") for number in range(3)])
    return Story(str(accepted.event_id), str(rejected.event_id))


def _hostile(server: Served) -> None:
    emit = server.journal.emit
    for number, text in enumerate(HOSTILE):
        actor = text if text.isprintable() else None
        schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": text, "type": "string", "doc": text}]})
        entity = dataset(text, text)
        emit(EntityRegistered(entity, text, schema, {text: text, "owner": text}, [text]), actor=actor)
        emit(PropertiesSet(entity, {text: text + "2", "plain": f"see {text}"}), actor=actor)
        emit(TagsAdded(entity, [f"t{number} {text}"], scope="SYSTEM"), actor=actor)
        told = {"user": {"properties": {text: text}}}
        emit(AccessesRecorded(hostile_run(number), [(entity, "read", AT_MS, text, told)]), actor=actor)
        emit(TagsAdded(dataset("nobody", text), [text]), actor=actor)


def _repositories(server: Served) -> None:
    created(server.journal, "prices")
    main = server.journal.repositories["prices"].branch("main")
    head = committed(main, "raw/0.csv", "out/0.csv")
    committed(main, *HOSTILE_PATHS)
    server.journal.repositories["prices"].branch("trial").create(head).position  # noqa: B018  (waits)


HOSTILE_PATHS = ("raw/1.csv", "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>')
