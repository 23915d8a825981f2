"""What librdkafka is really told, read back from librdkafka itself; and what a user may not take back."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException

from metajournal.producers.kafka import (
    ErrorLog,
    make_admin,
    make_consumer,
    make_producer,
    producer_config,
    wait_for_broker,
)
from metajournal.producers.kafka_log import QuietLog
from metajournal.schemas.errors import ConfigError, KafkaUnavailableError
from metajournal.schemas.settings import ClientSettings, Settings
from tests.wait import eventually

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def logged() -> Any:
    """The lines of the logger that librdkafka's log goes to."""
    handler, logger = Lines(), logging.getLogger("metajournal.kafka")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(before)


def read_back(make: Callable[[Settings], Any], poll: Callable[[Any], Any], lines: list[str]) -> dict[str, str]:
    """The settings that librdkafka says it has changed from its defaults (`debug=conf` prints them)."""
    client = make(Settings(kafka={**NOWHERE, "debug": "conf", "socket.keepalive.enable": "true"}))

    def printed() -> list[str]:
        poll(client)
        pairs = [line.partition("]:   ")[2] for line in lines if "]:   " in line]
        return pairs if any(line.endswith("Default topic configuration:") for line in lines) else []

    pairs = eventually(printed, what="librdkafka's print of its settings")
    return dict(pair.split(" = ", 1) for pair in pairs)


def test_a_producer_has_the_settings_that_the_journal_rests_on(logged: list[str]) -> None:
    told = read_back(lambda settings: make_producer(settings, ErrorLog()), lambda one: one.poll(0.1), logged)
    needed = {
        "enable.idempotence": "true",
        "request.required.acks": "-1",
        "partitioner": "murmur2_random",
        "message.timeout.ms": "30000",
        "queue.buffering.max.messages": "100000",
        "message.max.bytes": str(4 * 1024 * 1024),
        "client.id": "metajournal-producer",
        "socket.keepalive.enable": "true",
        "metadata.broker.list": "127.0.0.1:1",
    }
    assert {key: told.get(key) for key in needed} == needed


def test_a_consumer_has_the_settings_that_the_journal_rests_on(logged: list[str]) -> None:
    told = read_back(lambda settings: make_consumer(settings, ErrorLog()), lambda one: one.consume(1, 0.1), logged)
    needed = {
        "check.crcs": "true",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "error",
        "client.id": "metajournal-reader",
        "socket.keepalive.enable": "true",
    }
    assert {key: told.get(key) for key in needed} == needed
    # Equal to librdkafka's own default, so it is not among the changed ones; read_uncommitted would be.
    assert told.get("isolation.level", "read_committed") == "read_committed"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enable.idempotence", "false"),
        ("acks", "1"),
        ("request.required.acks", "0"),
        ("partitioner", "consistent_random"),
        ("check.crcs", "false"),
        ("enable.auto.commit", "true"),
        ("isolation.level", "read_uncommitted"),
        ("auto.offset.reset", "latest"),
        ("message.max.bytes", "1000000"),
        ("delivery.timeout.ms", "1"),
        ("message.timeout.ms", "1"),
        ("linger.ms", "5"),
        ("queue.buffering.max.messages", "7"),
        ("transactional.id", "mine"),
        ("transaction.timeout.ms", "60000"),
    ],
)
def test_no_user_setting_weakens_what_the_journal_rests_on(key: str, value: str) -> None:
    for make in (make_producer, make_consumer, make_admin):
        with pytest.raises(ConfigError, match=r"^kafka\.") as caught:
            make(Settings(kafka={**NOWHERE, key: value}), ErrorLog())
        assert caught.value.data["key"].startswith("kafka.")


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_a_setting_of_unreadable_bytes_is_refused_before_librdkafka_ends_the_process(value: str) -> None:
    for make in (make_producer, make_consumer, make_admin):
        for said in ({"client.id": value}, {value: "x"}):
            with pytest.raises(ConfigError, match="not UTF-8"):
                make(Settings(kafka={**NOWHERE, **said}), ErrorLog())


def test_the_same_value_may_be_said_again() -> None:
    said = {**NOWHERE, "acks": "-1", "enable.idempotence": "TRUE", "isolation.level": "read_committed"}
    assert producer_config(Settings(kafka=said))["acks"] == "all"


def test_a_misspelt_key_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.serverz"):
        make_producer(Settings(kafka={**NOWHERE, "bootstrap.serverz": "a"}), ErrorLog())


def test_the_client_s_own_settings_reach_librdkafka() -> None:
    client = ClientSettings(queue_events=5, delivery_timeout_s=1.5, linger_ms=2.5)
    config = producer_config(Settings(client=client))
    assert (config["queue.buffering.max.messages"], config["delivery.timeout.ms"], config["linger.ms"]) == (
        5,
        1500,
        2.5,
    )


@pytest.mark.thorough
def test_an_absent_broker_is_said_in_time_and_nothing_is_written_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    errors = ErrorLog()
    producer = make_producer(Settings(kafka=NOWHERE), errors)
    start = time.monotonic()
    with pytest.raises(KafkaUnavailableError, match=r"No Kafka broker answers at 127\.0\.0\.1:1 "):
        wait_for_broker(producer, errors, servers="127.0.0.1:1", timeout_s=1.0)
    assert time.monotonic() - start < 6
    assert errors.latest is not None
    assert capfd.readouterr().err == ""


@pytest.mark.thorough
def test_a_listener_that_never_answers_is_said_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        servers = f"127.0.0.1:{deaf.getsockname()[1]}"
        errors = ErrorLog()
        producer = make_producer(Settings(kafka={"bootstrap.servers": servers}), errors)
        with pytest.raises(KafkaUnavailableError, match=servers):
            wait_for_broker(producer, errors, servers=servers, timeout_s=0.6)


@pytest.mark.thorough
def test_lines_of_librdkafka_that_nobody_can_act_on_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    errors = ErrorLog()
    producer = make_producer(Settings(kafka={"bootstrap.servers": "127.0.0.1:1", "check.crcs": "true"}), errors)
    with caplog.at_level(logging.DEBUG, "metajournal.kafka"):
        for _ in range(20):
            producer.poll(0.05)
        logging.getLogger("metajournal.kafka").warning("something else")
    said = [record.getMessage() for record in caplog.records]
    assert "something else" in said
    assert [line for line in said if "CONFWARN" in line or "GETPID" in line] == []


@pytest.mark.thorough
def test_a_broker_that_is_away_is_logged_once_and_not_with_each_attempt(logged: list[str]) -> None:
    consumer = make_consumer(Settings(kafka=NOWHERE), ErrorLog())
    for _ in range(10):
        with pytest.raises(KafkaException):
            consumer.list_topics(timeout=0.1)
    consumer.poll(0.1)
    assert len([line for line in logged if line.startswith("FAIL [")]) == 1
    consumer.close()


def test_a_line_that_keeps_coming_is_told_again_with_their_number(logged: list[str]) -> None:
    now = 0.0
    log = QuietLog((), lambda: now)
    for attempt in range(41):
        log.log(logging.ERROR, "FAIL [%s] refused (after %dms)", "thread", attempt)
        log.log(logging.DEBUG, "asked")
        now += 1.0
    log.log(logging.ERROR, "FAIL [thread] closed")
    assert logged.count("asked") == 41
    assert [line for line in logged if line != "asked"] == [
        "FAIL [thread] refused (after 0ms)",
        "FAIL [thread] refused (after 30ms) (29 more like this since)",
        "FAIL [thread] closed",
    ]


def test_only_so_many_lines_are_remembered(logged: list[str]) -> None:
    log = QuietLog((), lambda: 0.0)
    for number in range(1_000):
        log.log(logging.WARNING, f"line {number}")
    assert len(logged) == 1_000
    assert len(log._told) <= 200
