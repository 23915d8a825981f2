"""Which index searches use, and how far it shows the journal: for those who ask about one event."""

from __future__ import annotations

from typing import Final

from ...schemas.positions import Cut
from ...schemas.settings import Settings
from ..connection import make_client
from ..waiting import Deadline

_ASKED_S: Final = 2.0
_REFUSED_S: Final = 0.5
"""A server that refuses connections is away, not slow."""


def shown_by(settings: Settings) -> tuple[str, Cut]:
    """The index behind the alias, and the next position of each journal partition that it does not show.

    Raises:
        IndexMissingError, SearchUnavailableError: there is none, or Elasticsearch does not answer.
        MappingMismatchError: another version made it.
    """
    wanted = settings.elasticsearch
    client = make_client(settings)
    try:
        deadline = Deadline(client, wanted.url, _ASKED_S, refused_s=_REFUSED_S)
        shown = deadline.shown(wanted.index, {})
        names = deadline.ask(lambda client: client.indices.get_alias(name=wanted.index)).body
        return ", ".join(sorted(names)), shown.vector
    finally:
        client.close()
