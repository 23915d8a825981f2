"""What a source is: something that reads one real system and says what it found there.

Left to whom: what of it is new is `plan`'s, sending is `bringing`'s. A source knows nothing of the journal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from ..domains.catalog.urns import program
from ..schemas.errors import InputError, OperatorError, UnavailableError
from ..schemas.urn import Urn
from .found import Found, Past, Problem, Progress

APP: Final = "ingest"
"""Namespace of the programs that sources are."""
SERVICE: Final = "service"
MARK: Final = "source."
"""How the SYSTEM property begins by which a source knows what it brought; behind it stand the source's kind and id."""
_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

Tell = Callable[[Progress], None]
"""Takes the progress of a reading."""


class Identity(NamedTuple):
    """Who brings something in.

    Attributes:
        kind: what sort of source it is, `databases`.
        id: its own name, the same in every run; `[a-z0-9][a-z0-9._-]*`, at most 64 characters.
        prefix: how the keys of its properties begin, `database.`; all SYSTEM properties with it are the source's.
    """

    kind: str
    id: str
    prefix: str

    @property
    def actor(self) -> str:
        """Who its events are by."""
        return f"{APP}/{self.kind}/{self.id}"

    @property
    def mark(self) -> str:
        """The SYSTEM property of what it brought."""
        return f"{MARK}{self.kind}.{self.id}"

    @property
    def program(self) -> Urn:
        """Whose runs its runs are."""
        return program(APP, self.kind, SERVICE, self.id)


class Source(Protocol):
    """A system to read."""

    @property
    def identity(self) -> Identity:
        """Who it is."""

    @property
    def systems(self) -> Sequence[Urn]:
        """What a run of it reads, as lineage names it: a database, a bucket, a cluster."""

    @property
    def lists_all(self) -> bool:
        """Whether a whole read names everything that is there; if not, what is not found is not gone."""

    def read(self, tell: Tell) -> Iterator[Found | Past | Problem]:
        """All that the system holds, each entity once, and the runs in it that are over.

        It is whole when it comes to its end without a `Problem`.

        Raises:
            SourceError, SourceUnavailableError: the system cannot be read, or not any further.
        """


class SourceError(OperatorError):
    """A source cannot be read as it was asked for; nothing was brought in or deleted."""

    CODE = "source-unreadable"
    HINT = "Correct what is named, and run the same command again: it goes on from what is there."


class SourceUnavailableError(UnavailableError):
    """A source's system does not answer, or ended while it was read; nothing was brought in or deleted."""

    CODE = "source-unavailable"
    HINT = "Check that the system runs and can be reached from here, then run the same command again."


def checked_id(text: str) -> str:
    """A source's id.

    Raises:
        InputError: it is none.
    """
    if not _ID.fullmatch(text):
        raise InputError(
            f"{text!r:.80} is not a valid source id.",
            code="bad-source-id",
            hint="Use at most 64 small letters, digits, `.`, `_` and `-`, beginning with a letter or digit.",
        )
    return text


def id_of(text: str) -> str:
    """An id that follows from any text: what an id cannot hold is a dash."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:64].rstrip("-._") or "source"
