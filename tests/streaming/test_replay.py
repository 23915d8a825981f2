"""Records of the journal topic that are folded again: all of a range, or an error that says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from metajournal.schemas.errors import KafkaUnavailableError, MetajournalError, StreamError
from metajournal.schemas.hashing import DIGEST_HEADER
from metajournal.schemas.positions import position
from metajournal.schemas.settings import JournalSettings, Settings
from metajournal.stack.jars import ensure_parts
from metajournal.stack.kafka import start_kafka
from metajournal.streaming import replay
from tests.model import JournalRecord
from tests.topics import write

KEY = ("damaged.journal.catalog", 0)
VALUES = [b"first", b"second", b"third"]


class Told:
    """A message as Kafka's client gives it: a record, or an error in its place."""

    def __init__(self, offset: int, error: KafkaError | None = None) -> None:
        self._offset, self._error = offset, error

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset

    def topic(self) -> str:
        return KEY[0]

    def partition(self) -> int:
        return KEY[1]

    def value(self) -> bytes:
        return VALUES[self._offset]

    key = value

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


class Reading:
    """A consumer that is given these messages one by one, and goes on behind each."""

    def __init__(self, messages: list[Told]) -> None:
        self._waiting, self._next = messages, 0

    def assign(self, _: object) -> None:
        pass

    def position(self, _: object) -> list[TopicPartition]:
        return [TopicPartition(*KEY, self._next)]

    def consume(self, *_: object, **__: object) -> list[Told]:
        message = self._waiting.pop(0)
        self._next = max(self._next, message.offset() + 1)
        return [message]

    def close(self) -> None:
        pass


def replayed(settings: Settings) -> list[bytes]:
    slices = replay.kafka_slices(settings, KEY, position(1, 0), position(1, len(VALUES)), 100)
    return [value for _, rows in slices for value in rows["value"].to_pylist()]


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Any:
    def of(second: KafkaError | None) -> list[bytes]:
        messages = [Told(0), *([] if second is None else [Told(0, second)]), Told(1), Told(2)]
        monkeypatch.setattr(replay, "make_consumer", lambda *_, **__: Reading(messages))
        return replayed(Settings())

    return of


@pytest.mark.parametrize(
    ("code", "kind", "named"),
    [
        (KafkaError._BAD_MSG, StreamError, "journal-records-damaged"),
        (KafkaError._BAD_COMPRESSION, StreamError, "journal-records-damaged"),
        (KafkaError.OFFSET_OUT_OF_RANGE, StreamError, "journal-lost-records"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaUnavailableError, "kafka-unavailable"),
        (KafkaError.UNKNOWN, KafkaUnavailableError, "kafka-unavailable"),
    ],
)
def test_an_error_that_does_not_pass_ends_the_reading_though_the_client_would_go_on(
    reading: Any, code: int, kind: type[MetajournalError], named: str
) -> None:
    with pytest.raises(kind) as refused:
        reading(KafkaError(code, "why"))
    assert (refused.value.code, "why" in str(refused.value)) == (named, named != "journal-lost-records")


@pytest.mark.parametrize("code", [None, KafkaError._PARTITION_EOF, KafkaError._TRANSPORT, KafkaError._TIMED_OUT])
def test_every_record_is_read_also_where_a_broker_was_away_for_a_moment(reading: Any, code: int | None) -> None:
    assert reading(None if code is None else KafkaError(code)) == VALUES


@contextmanager
def edited(tmp_path: Path, edit: Callable[[bytes], bytes]) -> Iterator[Settings]:
    """A broker of this test's own that holds three records, whose file was changed on its disk."""
    broker = start_kafka(ensure_parts(("kafka",)), tmp_path / "kafka")
    try:
        settings = Settings(
            journal=JournalSettings(prefix="damaged", actor="tests"), kafka={"bootstrap.servers": broker.endpoint}
        )
        administrator = AdminClient({"bootstrap.servers": broker.endpoint})
        administrator.create_topics([NewTopic(KEY[0], 1, 1)])[KEY[0]].result(30)
        for number, value in enumerate(VALUES):
            write(settings, [JournalRecord(0, position(1, number), 0, b"key", value, b"digest")])
        assert replayed(settings) == VALUES
        (segment,) = (tmp_path / "kafka" / "data" / f"{KEY[0]}-0").glob("*.log")
        with segment.open("r+b") as file:  # in its place: the broker has it open
            content = file.read()
            file.seek(0)
            file.write(edit(content))
        yield settings
    finally:
        broker.stop()


def crc32c(content: bytes) -> int:
    """Castagnoli's checksum, which Kafka has of each batch."""
    crc = 0xFFFF_FFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F6_3B78 if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


def with_odd_header(content: bytes) -> bytes:
    """The second batch with a header's name that is not UTF-8, and the checksum of that. Source: KIP-98's record batch:
    the length at 8, the checksum at 17, of what stands behind it."""
    begin = 12 + int.from_bytes(content[8:12])
    end = begin + 12 + int.from_bytes(content[begin + 8 : begin + 12])
    name = DIGEST_HEADER.encode()
    batch = content[begin:end].replace(name, name[:-1] + b"\xff")
    assert crc32c(content[begin + 21 : end]) == int.from_bytes(content[begin + 17 : begin + 21])
    return content[:begin] + batch[:17] + crc32c(batch[21:]).to_bytes(4) + batch[21:] + content[end:]


@pytest.mark.services
@pytest.mark.long
def test_a_batch_that_is_damaged_on_the_brokers_disk_ends_the_reading_and_says_what_to_do(tmp_path: Path) -> None:
    with edited(tmp_path, lambda content: content.replace(VALUES[1], VALUES[1].upper())) as settings:
        with pytest.raises(StreamError, match="0 has damaged records") as refused:
            replayed(settings)
        assert refused.value.code == "journal-records-damaged"
        assert "--from journal" in refused.value.hint


@pytest.mark.services
@pytest.mark.long
def test_a_header_whose_name_is_not_utf8_ends_the_reading_so_that_sparks_source_reads_it(tmp_path: Path) -> None:
    with edited(tmp_path, with_odd_header) as settings:
        for _ in range(60):  # a call that the interpreter has made fast does not look for the error of Kafka's client
            with pytest.raises(
                replay.UnreadRangeError, match="a header at offset 1 whose name is not UTF-8"
            ) as refused:
                replayed(settings)
        assert refused.value.code == "journal-records-unreadable"
