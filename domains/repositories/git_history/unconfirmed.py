"""What an import has sent and does not know yet to be accepted: two rounds of commits.

An import runs ahead of the verdicts. Once a round is full it asks for those of the round before, which are known by
then, so it hardly waits; and what is staged behind a commit that was refused stays within two rounds. Rounds end at
commits. Of each branch the last commit of a round speaks for the others: each expects the one before it as the head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from ....schemas.errors import RejectedError
from ..rows import NOTHING_STAGED, staged_digest

ROUND_COMMITS: Final = 256
ROUND_PATHS: Final = 65_536
"""A round is full with so many commits, or staged paths."""


class Sent(NamedTuple):
    """An event that was sent.

    Attributes:
        digest: of its record, 16 bytes.
        receipt: by what the sink knows it.
    """

    digest: bytes
    receipt: Any


class Sink(Protocol):
    """Where events go."""

    tenant: str

    def send(self, event: Any, event_time: int | None = None) -> Sent:
        """Send an event after all before."""
        ...

    def confirm(self, sent: Sent) -> None:
        """Wait for the verdict on an event. Raises: RejectedError: it was refused."""
        ...


class _Round:
    """Commits in the order in which they were sent, and what was staged for them."""

    def __init__(self) -> None:
        self.commits: dict[str, list[Sent]] = {}
        self.staged: dict[str, list[bytes]] = {}
        """Digests of the records, by branch."""
        self.number = 0
        self.paths = 0

    @property
    def is_full(self) -> bool:
        return self.number >= ROUND_COMMITS or self.paths >= ROUND_PATHS


class Unconfirmed:
    """The two rounds.

    Args:
        confirm: as of `Sink`.
    """

    def __init__(self, confirm: Callable[[Sent], None]) -> None:
        self._confirm = confirm
        self._before, self._latest = _Round(), _Round()

    def staged(self, branch: str, sent: Sent, paths: int) -> None:
        """So many paths were staged on a branch."""
        self._latest.staged.setdefault(branch, []).append(sent.digest)
        self._latest.paths += paths

    def committed(self, branch: str, sent: Sent) -> None:
        """A commit was sent. Raises: RejectedError: one of the round before was refused."""
        self._latest.commits.setdefault(branch, []).append(sent)
        self._latest.number += 1
        if self._latest.is_full:
            self._accepted(self._before)
            self._before, self._latest = self._latest, _Round()

    def confirm(self) -> None:
        """Wait for the verdicts on all commits. Raises: RejectedError: one was refused."""
        self._accepted(self._before)
        self._accepted(self._latest)

    def _accepted(self, commits: _Round) -> None:
        """Raises: RejectedError: why the first one of a branch was refused; those behind it only follow from that."""
        for sent in commits.commits.values():
            try:
                self._confirm(sent[-1])
            except RejectedError:
                for one in sent:
                    self._confirm(one)
                raise

    def has_staged(self, branch: str) -> bool:
        """Whether something was staged on a branch."""
        return branch in self._before.staged or branch in self._latest.staged

    def is_all_of(self, branch: str, events: int, staging_digest: str) -> bool:
        """Whether what is staged on a branch are the last events that were sent for it, and nothing else.

        Args:
            events, staging_digest: of what is staged there.
        """
        sent = [*self._before.staged.get(branch, ()), *self._latest.staged.get(branch, ())]
        made = NOTHING_STAGED
        for digest in sent[max(0, len(sent) - events) :]:
            made = staged_digest(made, digest)
        return 0 < events <= len(sent) and made == staging_digest
