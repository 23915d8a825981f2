"""Which kinds of entities may be emitted: those that a domain declares, and those of `journal.custom_kinds`.

An event is in the journal permanently, so a misspelt kind is refused before it is sent. That is the client's matter
alone: the rules accept any kind, and no verdict depends on the setting.
"""

from __future__ import annotations

from ..schemas.errors import UnknownKindError
from ..schemas.kinds import KINDS, nearest_kind
from ..schemas.settings import Settings
from ..schemas.urn import Urn


class KnownKinds:
    """The kinds that one emitter takes.

    Args:
        settings: the custom kinds.
    """

    def __init__(self, settings: Settings) -> None:
        self._custom = frozenset(settings.journal.custom_kinds)

    def check(self, aggregate: Urn) -> None:
        """Refuse an aggregate of an unknown kind; all entities of an event are of its aggregate, or its own members.

        Raises:
            UnknownKindError: nobody declares it.
        """
        kind = aggregate.kind
        if kind not in KINDS and kind not in self._custom:
            raise UnknownKindError(kind, aggregate, nearest_kind(kind, self._custom))
