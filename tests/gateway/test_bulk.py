"""The second producer of a gateway: used where many send at once, and made anew where it ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.request import urlopen

import pytest

from metajournal import EntityRegistered, Journal, RunStarted, dataset
from metajournal import run as run_urn
from metajournal.gateway import bulk
from metajournal.gateway.bulk import MANY, Bulk
from metajournal.producers import published
from metajournal.producers.kafka import Noted
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import InputError
from metajournal.schemas.settings import Settings
from metajournal.stack.ports import free_ports


@pytest.fixture(scope="module")
def journal(gateway_settings: Settings) -> Iterator[Journal]:
    ensure_topics(gateway_settings)
    with Journal.connect(gateway_settings) as connected:
        yield connected


@asynccontextmanager
async def gathering(journal: Journal) -> AsyncIterator[Bulk]:
    """One whose second producer is there."""
    made = Bulk(journal)
    try:
        assert made.emit(MANY) == journal.emit, "nobody waits for it to be made"
        await until(lambda: made.emit(MANY) != journal.emit)
        yield made
    finally:
        await made.close()


async def until(holds: Any) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


def test_few_are_not_kept_waiting_for_more_and_many_are_gathered(journal: Journal) -> None:
    async def run() -> None:
        async with gathering(journal) as made:
            assert made.emit(MANY - 1) == journal.emit
            emit = made.emit(MANY)
            assert emit.__self__.settings.client.linger_ms > journal.settings.client.linger_ms  # type: ignore[attr-defined]
            receipts = [emit(EntityRegistered(dataset("bulk", f"d{number}"))) for number in range(50)]
            await asyncio.gather(*receipts)
            assert len({receipt.position for receipt in receipts}) == 50

    asyncio.run(run())


def test_no_event_waits_for_its_schema(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever emits first of a domain would look for it in Kafka, with everybody else waiting."""

    async def run() -> None:
        async with gathering(journal) as made:
            monkeypatch.setattr(published, "read_all", None)
            monkeypatch.setattr(published, "write_all", None)
            await made.emit(MANY)(EntityRegistered(dataset("bulk", "first")))
            await made.emit(MANY)(RunStarted(run_urn("bulk", "a", "flow", "f", "r"), 1))

    asyncio.run(run())


def test_at_the_end_all_of_it_is_in_the_journal(journal: Journal) -> None:
    async def run() -> list[Any]:
        async with gathering(journal) as made:
            emit = made.emit(MANY)
            receipts = [emit(EntityRegistered(dataset("bulk", f"e{number}"))) for number in range(20)]
        assert [receipt.acknowledged for receipt in receipts] == [True] * 20
        with pytest.raises(InputError):
            emit(EntityRegistered(dataset("bulk", "late")))
        return receipts

    asyncio.run(run())


def test_one_that_sends_no_more_is_made_anew(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_AGAIN_S", 0.0)

    async def run() -> None:
        async with gathering(journal) as made:
            broken = made.emit(MANY).__self__  # type: ignore[attr-defined]
            broken.errors.fatal = Noted(time.monotonic(), -150, "it ended")
            assert made.emit(MANY) == journal.emit
            await until(lambda: made.emit(MANY) != journal.emit)
            assert made.emit(MANY).__self__ is not broken  # type: ignore[attr-defined]
            await made.emit(MANY)(EntityRegistered(dataset("bulk", "again")))

    asyncio.run(run())


def test_where_it_cannot_be_made_the_first_one_takes_everything(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    """And it is not tried again at each event."""

    async def run() -> None:
        made = Bulk(journal)
        made._journal = _Elsewhere(journal)  # type: ignore[assignment]
        for _ in range(3):
            assert made.emit(MANY) == journal.emit
            await until(lambda: made._making is None)
        await made.close()

    asyncio.run(run())
    assert caplog.text.count("Events of many senders are not gathered") == 1


def test_what_it_sends_counts_with_what_the_client_sends(gateway_settings: Settings) -> None:
    (port,) = free_ports(1)

    def counted() -> dict[str, float]:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.partition(" ") for line in lines if line[0] != "#")}

    async def run(journal: Journal) -> None:
        async with gathering(journal) as made:
            await made.emit(MANY)(EntityRegistered(dataset("bulk", "counted")))
        journal.emit(EntityRegistered(dataset("bulk", "counted, too"))).position  # noqa: B018  (waits)

    client = replace(gateway_settings.client, metrics_port=port)
    with Journal.connect(replace(gateway_settings, client=client)) as journal:
        asyncio.run(run(journal))
        assert counted()["metajournal_client_events_total"] == 2
        counter = journal.emitter.counter
        assert counter is not None
        assert [*counter.waiting] == [journal.emitter], "one that is closed is not held on to"


class _Elsewhere:
    """A journal whose broker answers no more."""

    def __init__(self, journal: Journal) -> None:
        kafka = {**journal.settings.kafka, "bootstrap.servers": "127.0.0.1:9"}
        self.settings = replace(journal.settings, kafka=kafka)
        self.epochs, self.emit, self.emitter = journal.epochs, journal.emit, journal.emitter
