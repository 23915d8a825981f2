"""Events of an import to a journal, each with a header that is known here, so that its record's digest is known too.

What became of them is left to `verdicts`.
"""

from __future__ import annotations

import time
from typing import Any

from ....lake_client import ConnectedJournal
from ....producers.actor import actor_of
from ....producers.ids import EventIds
from ....producers.receipts import Receipt
from ....schemas.arguments import Inside
from ....schemas.encoding.codec import encode
from ....schemas.errors import NotYetVisibleError, RejectedError
from ....schemas.hashing import digest
from ....schemas.header import Header
from ....schemas.ids import id_text
from ....schemas.urn import Urn
from ..verdicts import Verdicts
from .unconfirmed import Sent


class JournalSink:
    """Sends the events of one repository, in order.

    Args:
        journal: where to.
        repository: URN of the repository.
        actor: who imports; as of `emit`.
        timeout_s: seconds to wait for a verdict, and for the lake.

    Attributes:
        tenant: whose events they are.
    """

    def __init__(self, journal: ConnectedJournal, repository: Urn, actor: str | None, timeout_s: float) -> None:
        self.tenant = journal.settings.journal.tenant
        self._journal = journal
        self._repository = repository
        self._actor = actor or actor_of(journal.settings)
        self._timeout_s = timeout_s
        self._verdicts = Verdicts.of(journal)
        self._new_id = EventIds()
        self._last: Receipt | None = None

    def send(self, event: Any, event_time: int | None = None) -> Sent:
        """Send an event after all before. Raises: as `emit`."""
        now_ms = time.time_ns() // 1_000_000
        event_id, when = self._new_id(now_ms), now_ms if event_time is None else event_time
        header = Header(event_id, self.tenant, event.TYPE, event.aggregate, event.entities, self._actor, when)
        self._last = self._journal.emit(
            event, actor=self._actor, event_time=when, event_id=id_text(event_id),
            block_s=self._journal.settings.client.delivery_timeout_s,
        )  # fmt: skip
        return Sent(digest(encode(event, header)), self._last)

    def confirm(self, sent: Sent) -> None:
        """Wait for the verdict on an event, as long as the lake comes nearer to it.

        Raises:
            RejectedError: it was refused. Others as `Verdicts.accepted` and `wait_for_lake`.
        """
        try:
            self._accepted(sent.receipt)
        except NotYetVisibleError:
            wait_for_lake(self._journal, sent.receipt, self._timeout_s)
            self._accepted(sent.receipt)

    def _accepted(self, receipt: Receipt) -> None:
        try:
            self._verdicts.accepted(receipt, self._repository, self.tenant, self._timeout_s)
        except RejectedError as error:
            error.advise("Something else changes the repository. Run the import again: it goes on from there.")
            raise

    def wait(self) -> None:
        """Wait until the lake has all that was sent. Raises: as `wait_for_lake` and `Journal.flush`."""
        self._journal.flush()
        if self._last is not None:
            wait_for_lake(self._journal, self._last, self._timeout_s)


def wait_for_lake(journal: ConnectedJournal, at_least: Inside, timeout_s: float) -> None:
    """Wait until the lake has an event, as long as it comes nearer.

    Args:
        timeout_s: seconds within which it must have come nearer.
    Raises:
        NotYetVisibleError: it has not.
    """
    behind = None
    while True:
        try:
            return journal.wait(at_least, timeout_s=timeout_s)
        except NotYetVisibleError as error:
            left = sum(error.behind.values())
            if behind is not None and left >= behind:
                raise
            behind = left
