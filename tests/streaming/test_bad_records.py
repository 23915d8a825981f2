"""Whatever is written straight to a journal topic: what is no event ends shelved and copied, everything else lands.

The dead-letter topic's header names are Kafka Connect's (KIP-298).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Message, Producer

from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.lake.tables import Lake
from metajournal.producers.shelving import shelve
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.hashing import DIGEST_HEADER, digest, partition_of
from metajournal.schemas.positions import Position, offset_of, position
from metajournal.schemas.settings import Settings
from metajournal.stack.supervisor import read_told
from tests.builders import header_for, record_of
from tests.processes import running_stream, stream
from tests.topics import folded_to_the_end, outcomes, read
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]
PURCHASES = dataset("default", "purchases")
OTHER = dataset("default", "other")
KEY = f"default/{PURCHASES}".encode()
PARTITIONS = 4
HERE = partition_of(KEY, PARTITIONS)
Headers = list[tuple[str, str | bytes | None]]


class Raw(NamedTuple):
    """A record as anybody may write it, and the reason that it is shelved for; None: it is no bad one."""

    reason: str | None
    value: bytes | None
    key: bytes | None = KEY
    headers: Headers | None = None
    """With the value's own digest where None."""
    partition: int = HERE


def registered(number: int = 1, **header: Any) -> bytes:
    event = EntityRegistered(PURCHASES)
    return record_of(event, number, header=header_for(event, number, **header)).value or b""


EVENT = registered()
PREFIX, BODY = EVENT[:10], EVENT[10:]
FULL = 4 * 1024 * 1024
BAD = [
    Raw("bad-digest", EVENT, headers=[(DIGEST_HEADER, bytes(16))]),
    Raw("bad-digest", EVENT, headers=[(DIGEST_HEADER, b"")]),
    Raw("bad-digest", b"\xff" * 900 * 1024, headers=[(DIGEST_HEADER, digest(b"other"))]),
    Raw("no-digest", EVENT, headers=[]),
    Raw("no-digest", EVENT, headers=[(DIGEST_HEADER, None)]),
    Raw("no-digest", EVENT, headers=[(DIGEST_HEADER, digest(EVENT)), (DIGEST_HEADER, digest(EVENT))]),
    Raw("no-digest", None, None, headers=[]),
    Raw("no-digest", bytes(FULL - 600), headers=[]),
    Raw("no-digest", b"small", b"\0" * (FULL - 600), headers=[]),
    Raw("no-digest", b"small", headers=[("x-trace", b"\0" * (FULL - 600))]),
    Raw("not-single-object", None),
    Raw("not-single-object", b""),
    Raw("not-single-object", b"\xc3"),
    Raw("not-single-object", b"{}" + BODY),
    Raw("not-single-object", bytes(900 * 1024)),
    Raw("too-large", EVENT + bytes(2 * 1024 * 1024)),
    Raw("undecodable", PREFIX),
    Raw("undecodable", EVENT + b"\0"),
    Raw("undecodable", EVENT[:-1]),
    Raw("undecodable", PREFIX + bytes(16) + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),  # a text of 2**62 bytes
    Raw("undecodable", PREFIX + bytes(16) + b"\x01"),  # of -1
    Raw("undecodable", PREFIX + b"\xff" * 900 * 1024),
    Raw("wrong-key", EVENT, None),
    Raw("wrong-key", EVENT, b"\0" * 1_000_000),
    Raw("wrong-key", registered(tenant="other")),
    Raw("wrong-key", registered(aggregate=str(OTHER))),
    Raw("wrong-partition", EVENT, partition=(HERE + 1) % PARTITIONS),
]


def hostile() -> list[Raw]:
    """Events that can be read, and that the rules reject."""
    many = tuple(f"dataset:default/other{number}" for number in range(1_000))
    crowded = TagsAdded(PURCHASES, [""] * 900_000)
    return [
        Raw(None, registered(2, entities=(str(PURCHASES), str(OTHER)))),
        Raw(None, registered(3, entities=many)),
        Raw(None, registered(4, event_time=-(1 << 63))),
        Raw(None, registered(5, event_time=(1 << 63) - 1)),
        Raw(None, registered(6, type="catalog.EntityDeleted.1")),
        Raw(None, record_of(crowded, 7).value),
    ]


def write(settings: Settings, records: list[Raw]) -> None:
    """Write each to its partition, in order."""
    servers = settings.kafka["bootstrap.servers"]
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": FULL, "log_level": 0})
    for one in records:
        own: Headers = [(DIGEST_HEADER, digest(one.value or b""))]
        headers = own if one.headers is None else one.headers
        topic = settings.journal.topics.journal("catalog")
        producer.produce(topic, one.value, one.key, headers=headers, partition=one.partition)
    assert producer.flush(30) == 0


def said(letter: Message, name: str) -> str:
    headers: Any = letter.headers()
    return str(dict(headers)[f"__connect.errors.{name}"], "utf-8")


def test_bad_records_end_shelved_copied_and_counted_and_everything_else_lands(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    good = [
        Raw(None, record_of(TagsAdded(PURCHASES, [f"t{number}"]), 100 + number).value) for number in range(len(BAD))
    ]
    between = [one for pair in zip(BAD, good, strict=True) for one in pair]
    write(settings, [Raw(None, EVENT), *between, *hostile()])
    with running_stream(settings, tmp_path / "stream.log") as process:
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold to the journal's end ({process.log})")
        assert process.stop() == 0, process.tail()

    lake = Lake(settings.lake.path)
    rows = lake.journal.query(
        "journal_partition, logical_timestamp, outcome, reason, key, event_payload", "true order by 1, 2"
    )
    shelved = [row for row in rows if row["outcome"] == "shelved"]
    assert sorted(row["reason"] for row in shelved) == sorted(one.reason or "" for one in BAD)
    assert [(row["key"], row["event_payload"]) for row in shelved if row["journal_partition"] == HERE] == [
        (one.key, one.value) for one in BAD if one.partition == HERE
    ]
    outcomes_here = [row["outcome"] for row in rows if row["outcome"] != "shelved"]
    assert outcomes_here == ["accepted"] * (1 + len(good)) + ["rejected"] * len(hostile())
    newest = lake.tables["entities"].query("user_tags", "true order by logical_timestamp desc limit 1")
    assert newest[0]["user_tags"] == sorted(f"t{number}" for number in range(len(good)))

    letters = read(settings, settings.journal.topics.dlq)
    at = {(int(said(one, "partition")), int(said(one, "offset"))): one for one in letters}
    assert at.keys() == {(row["journal_partition"], offset_of(row["logical_timestamp"])) for row in shelved}
    for row in shelved:
        letter = at[row["journal_partition"], offset_of(row["logical_timestamp"])]
        assert said(letter, "topic") == settings.journal.topics.journal("catalog")
        assert said(letter, "exception.class.name").endswith(row["reason"])
        whole = (letter.key(), letter.value()) == (row["key"], row["event_payload"])
        assert whole or "too large to copy" in said(letter, "exception.message") or not (row["event_payload"] or b"")

    told = [verdict for one in outcomes(settings) for verdict in one["verdicts"]]
    assert sum(outcome == "shelved" for _, outcome, *_ in told) == len(BAD)
    assert read_told(Path(settings.stack.home or "") / "stream.json")["verdicts"] == {
        "accepted": 1 + len(good),
        "rejected": len(hostile()),
        "shelved": len(BAD),
    }


def test_an_unknown_schema_stops_the_stream_until_an_operator_shelves_that_record(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    newer = b"\xc3\x01" + bytes(8) + BODY
    late = record_of(TagsAdded(PURCHASES, ["late"]), 2)
    write(settings, [Raw(None, EVENT), Raw(None, newer), Raw(None, late.value)])
    stopped = stream(settings, tmp_path / "stopped.log")
    assert stopped.ended(90) != 0
    at = Position(settings.journal.topics.journal("catalog"), HERE, position(1, 1))
    told = read_told(Path(settings.stack.home or "") / "stream.json")
    assert told["state"] == "failed"
    assert told["message"].startswith(f"unknown-schema: The record at {at} ")
    assert f"metajournal shelve {at.topic} {at.partition} {at.value}" in told["mend"]
    assert Lake(settings.lake.path).journal.mark((at.topic, at.partition)) == at.value
    shelve(settings, at)
    with running_stream(settings, tmp_path / "again.log") as process:
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold to the journal's end ({process.log})")
    rows = Lake(settings.lake.path).journal.query("outcome, reason", "true order by logical_timestamp")
    assert [(row["outcome"], row["reason"]) for row in rows] == [
        ("accepted", None),
        ("shelved", "operator"),
        ("accepted", None),
    ]
    assert [one.value() for one in read(settings, settings.journal.topics.dlq)] == [newer]
