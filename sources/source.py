"""What a source is: it reads one real system and reports what it found there.

`plan` determines what of it is new, `bringing` sends it. A source knows nothing of the journal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from ..domains.catalog.urns import program
from ..schemas.errors import InputError, OperatorError, UnavailableError
from ..schemas.urn import Urn
from .found import Found, Past, Problem, Progress

APP: Final = "ingest"
"""Namespace of the programs that sources are."""
SERVICE: Final = "service"
MARK: Final = "source."
"""Prefix of the SYSTEM property by which a source recognizes its entities; the source's kind and id follow."""
_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

Tell = Callable[[Progress], None]
"""Takes the progress of a reading."""


class Identity(NamedTuple):
    """Identity of a source.

    Attributes:
        kind: what sort of source it is, `databases`.
        id: its own name, the same in every run; `[a-z0-9][a-z0-9._-]*`, at most 64 characters.
        prefix: prefix of its properties' keys, `database.`; all SYSTEM properties with it belong to the source.
    """

    kind: str
    id: str
    prefix: str

    @property
    def actor(self) -> str:
        """The actor of its events."""
        return f"{APP}/{self.kind}/{self.id}"

    @property
    def mark(self) -> str:
        """The SYSTEM property on its entities."""
        return f"{MARK}{self.kind}.{self.id}"

    @property
    def program(self) -> Urn:
        """The program whose runs are the runs of this source."""
        return program(APP, self.kind, SERVICE, self.id)


class Source(Protocol):
    """A system to read."""

    @property
    def identity(self) -> Identity:
        """Its identity."""

    @property
    def systems(self) -> Sequence[Urn]:
        """What it reads, as named in lineage: a database, a bucket, a cluster."""

    @property
    def lists_all(self) -> bool:
        """Whether a complete read lists everything that exists; if not, what is not found may still exist."""

    def selects(self, entity: Urn, properties: Mapping[str, str]) -> bool:
        """Whether the latest read would have listed this entity if it existed.

        False for what the options leave out, or what belongs to another system: it may well exist.

        Args:
            entity: one that this source brought in.
            properties: its SYSTEM properties.
        """

    def read(self, tell: Tell) -> Iterator[Found | Past | Problem]:
        """Everything in the system, each entity once, and its finished runs.

        The read is complete if it ends without a `Problem`.

        Raises:
            SourceError, SourceUnavailableError: the system cannot be read, or not completely.
        """


class SourceError(OperatorError):
    """A source cannot be read as requested; nothing was added or deleted."""

    CODE = "source-unreadable"
    HINT = "Correct this, then run the same command again."


class SourceUnavailableError(UnavailableError):
    """A source's system does not answer, or stopped while it was read; nothing was added or deleted."""

    CODE = "source-unavailable"
    HINT = "Check that the system is running and can be reached from here, then run the same command again."


def checked_id(text: str) -> str:
    """A source's id.

    Raises:
        InputError: it is not valid.
    """
    if not _ID.fullmatch(text):
        raise InputError(
            f"{text!r:.80} is not a valid source id.",
            code="bad-source-id",
            hint="Use at most 64 lower-case letters, digits, `.`, `_` and `-`, beginning with a letter or digit.",
        )
    return text


def id_of(text: str) -> str:
    """An id derived from any text; characters that an id cannot contain become dashes."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:64].rstrip("-._") or "source"
