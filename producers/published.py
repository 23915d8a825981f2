"""Publishing of schemas: each stands in `<prefix>.schemas` before its first event, so the journal explains itself.

Key: the fingerprint, 16 hexadecimal digits; value: the schema's JSON. The topic is read once for each emitter, so a
restart writes nothing that is there already; two producers at once write the same, which compaction makes one.
"""

from __future__ import annotations

import threading

from ..schemas.encoding.known import current_contracts
from ..schemas.settings import Settings
from .compacted import read_all, write_all


class SchemaPublisher:
    """Publishes the schemas of one emitter's events, each once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = settings.journal.topics.schemas
        self._lock = threading.Lock()
        self._there: set[str] | None = None

    def publish(self, event_type: str) -> None:
        """Return when the schema of an event type is in the schemas topic.

        Raises:
            KafkaUnavailableError: it could not be read or written.
        """
        with self._lock:
            if self._there is None:
                self._there = set(read_all(self._settings, self._topic))
            # All current schemas of this domain go together: one wait instead of one for each event type.
            domain = event_type.partition(".")[0]
            contracts = [
                contract for contract in current_contracts().values() if contract.event_type.startswith(f"{domain}.")
            ]
            missing = {f"{contract.fingerprint:016x}": contract.text.encode() for contract in contracts}
            missing = {key: text for key, text in missing.items() if key not in self._there}
            if missing:
                write_all(self._settings, self._topic, missing)
                self._there.update(missing)
