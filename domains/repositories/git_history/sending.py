"""Events of an import to a journal, each with a header that is known here, so that its record's digest is known too.

Verdicts come from the follower of the repository's partition; where a process cannot have one, from the stream.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from ....lake_client import ConnectedJournal
from ....producers.actor import actor_of
from ....producers.ids import EventIds
from ....producers.receipts import Receipt
from ....producers.verdicts import Outcome
from ....schemas.encoding.codec import encode
from ....schemas.errors import OperatorError, RejectedError, UnavailableError
from ....schemas.hashing import digest
from ....schemas.header import Header
from ....schemas.ids import id_text
from ....schemas.positions import Position
from ....schemas.urn import Urn


class Follow(Protocol):
    """What follows an aggregate (`consumers.followers.Follow`)."""

    def verdict(self, position: Position, *, timeout_s: float | None = None) -> Outcome:
        """The verdict on an event, ahead of the stream's."""
        ...

    def close(self) -> None:
        """Stop following."""
        ...


class FollowingJournal(ConnectedJournal, Protocol):
    """A journal that can follow an aggregate."""

    def follow(self, entity: Urn | str) -> Follow:
        """`Journal.follow`."""
        ...


class JournalSink:
    """Sends the events of one repository, in order.

    Args:
        journal: where to.
        repository: URN of the repository.
        actor: who imports; as of `emit`.
        timeout_s: seconds to wait for a verdict.
    """

    def __init__(self, journal: FollowingJournal, repository: Urn, actor: str | None, timeout_s: float) -> None:
        self.tenant = journal.settings.journal.tenant
        self._journal = journal
        self._repository = repository
        self._actor = actor or actor_of(journal.settings)
        self._timeout_s = timeout_s
        self._new_id = EventIds()
        self._last: Receipt | None = None
        self._follow: Follow | None = None
        self._follows = True

    def send(self, event: Any, event_time: int | None = None) -> bytes:
        """Send an event after all before; gives its record's digest. Raises: as `emit`."""
        now_ms = time.time_ns() // 1_000_000
        event_id, when = self._new_id(now_ms), now_ms if event_time is None else event_time
        header = Header(event_id, self.tenant, event.TYPE, event.aggregate, event.entities, self._actor, when)
        self._last = self._journal.emit(
            event, actor=self._actor, event_time=when, event_id=id_text(event_id),
            block_s=self._journal.settings.client.delivery_timeout_s,
        )  # fmt: skip
        return digest(encode(event, header))

    def outcome(self) -> Outcome:
        """The verdict on what was sent last, from the stream: the lake has it a moment later.

        Raises:
            NotYetVisibleError, OutcomeUnknownError, KafkaUnavailableError: as `Receipt.outcome`.
        """
        assert self._last is not None  # something was sent
        return self._last.outcome(self._timeout_s)

    def confirm(self) -> None:
        """Wait for the verdict on what was sent last.

        Raises:
            RejectedError: it was refused: something else has changed the repository. Others as `outcome`.
        """
        assert self._last is not None  # something was sent
        outcome = self._followed(self._last.position) or self.outcome()
        try:
            outcome.raise_if_rejected()
        except RejectedError as error:
            error.advise(
                "Something else changed the repository meanwhile. Run the import again: it goes on from there."
            )
            raise

    def wait(self) -> None:
        """Wait until the lake has all that was sent. Raises: NotYetVisibleError: it did not in time."""
        self._journal.flush()
        if self._last is not None:
            self._journal.wait(self._last, timeout_s=self._timeout_s)

    def close(self) -> None:
        """Stop following."""
        if self._follow is not None:
            self._follow.close()
            self._follow = None

    def _followed(self, position: Position) -> Outcome | None:
        """The follower's verdict; None where this process has none."""
        try:
            if self._follow is None and self._follows:
                self._follow = self._journal.follow(self._repository)
            return None if self._follow is None else self._follow.verdict(position, timeout_s=self._timeout_s)
        except (OperatorError, UnavailableError):
            self._follows = False
            self.close()
            return None
