"""A second producer, for when many send at once: it waits some milliseconds for more, so that the broker is asked less.

One who sends alone is answered as soon as can be; of a hundred each event was a request to the broker of its own, which
took a fifth of what two processors can do. Order: whoever sends one event after another waits for the first to be
acknowledged, so it makes no difference which producer takes which.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from ..client import Journal
from ..producers.emitter import Emitter
from ..producers.receipts import Receipt
from ..schemas.errors import MetajournalError
from ..schemas.registry import domain_named, served

Emit = Callable[..., Receipt]
_log = logging.getLogger("metajournal.gateway")
MANY: Final = 8
"""Requests that send at the same time, from which on the second producer takes their events."""
_LINGER_MS: Final = 10.0
_AGAIN_S: Final = 5.0
"""Seconds until it is made again, where it could not be."""


class Bulk:
    """Which producer takes an event; of one event loop.

    Args:
        journal: the first one's.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._emitter: Emitter | None = None
        self._making: asyncio.Task[None] | None = None
        self._not_before = 0.0

    def emit(self, waiting: int) -> Emit:
        """What an event is given to.

        Args:
            waiting: requests that send now.
        """
        emitter = self._emitter
        if waiting < MANY:
            return self._journal.emit
        if emitter is not None and emitter.ended is None:
            return emitter.emit
        if self._making is None and asyncio.get_running_loop().time() >= self._not_before:
            self._making = asyncio.ensure_future(self._make())
        return self._journal.emit

    async def _make(self) -> None:
        """Connect beside the loop; in place of one that sends no more."""
        old, self._emitter = self._emitter, None
        try:
            if old is not None:
                await asyncio.to_thread(_close, old)
            self._emitter = await asyncio.to_thread(self._made)
        except MetajournalError as error:
            _log.warning("Events of many senders are not gathered: %s", error.message)
        finally:
            self._not_before = asyncio.get_running_loop().time() + _AGAIN_S
            self._making = None

    def _made(self) -> Emitter:
        settings = self._journal.settings
        client = replace(settings.client, linger_ms=max(_LINGER_MS, settings.client.linger_ms))
        emitter = Emitter(replace(settings, client=client), self._journal.epochs, beside=self._journal.emitter)
        try:
            publish_schemas(emitter, self._journal.epochs.domains)
        except MetajournalError:
            _close(emitter)
            raise
        return emitter

    async def close(self) -> None:
        """Wait for what is on its way, and let go of the connections."""
        if self._making is not None:
            with suppress(asyncio.CancelledError):
                await self._making
        if self._emitter is not None:
            await asyncio.to_thread(_close, self._emitter)


def publish_schemas(emitter: Emitter, domains: Iterable[str]) -> None:
    """Have the schemas of all events in the journal, so that no request waits for one: an emitter that lacks one looks
    for it in Kafka while whoever emits waits.

    Raises:
        KafkaUnavailableError: they could not be published.
    """
    known = {domain.name: domain for name in domains if (domain := domain_named(name)) is not None}
    known |= {domain.name: domain for domain in served() if domain.journal in known}
    for domain in known.values():
        if domain.package and domain.event_types:
            emitter.publish_schemas(domain.event_types[0])


def _close(emitter: Any) -> None:
    with suppress(MetajournalError):  # whoever waited for an event was told
        emitter.close()
