"""Emitters on the broker that librdkafka has in itself: no services, and whatever a test does to the client is true."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from metajournal.domains.catalog.events import TagsAdded
from metajournal.producers.emitter import Emitter
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.registry import served_domains
from metajournal.schemas.settings import ClientSettings, JournalSettings, Settings

PARTITIONS: Final = 4
"""Of every topic of that broker."""
_HANDLE: Final = object.__basicsize__
"""Where a producer of confluent_kafka holds librdkafka's: first of all."""


def mocked_settings(**client: Any) -> Settings:
    """Settings of clients that have a broker each."""
    return Settings(
        journal=JournalSettings(actor="tests"), kafka={"test.mock.num.brokers": "1"}, client=ClientSettings(**client)
    )


def mocked_emitter(partitions: int = PARTITIONS, **client: Any) -> Emitter:
    """An emitter of a journal whose record says so many partitions; its schemas count as published."""
    settings = mocked_settings(**client)
    topics = [settings.journal.topics.journal(domain) for domain in served_domains()]
    emitter = Emitter(settings, Epochs({topic: TopicEpoch(topic, 1, "an id", partitions) for topic in topics}))
    emitter._published.add(TagsAdded.TYPE)
    return emitter


def fail_for_good(producer: Producer) -> None:
    """Have a producer meet a fatal error. Source: rd_kafka_test_fatal_error, in librdkafka's rdkafka.h."""
    loaded = Path("/proc/self/maps").read_text("utf-8").splitlines()
    library = ctypes.CDLL(next(line.split()[-1] for line in loaded if "librdkafka" in line))
    handle = ctypes.c_void_p.from_address(id(producer) + _HANDLE)
    library.rd_kafka_test_fatal_error(handle, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, b"this is the end")
