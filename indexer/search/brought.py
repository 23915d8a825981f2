"""Words of domains from outside, for a search without a connected journal: who explains a hit must know its domain.

A connected journal has taken in what it serves. Here that is done when a hit needs it: one that its domain says
something of, of a kind that no domain of this process has and an installed package brings. So most searches never ask
Kafka; where it does not answer, such a hit is shown without the reasons that its domain's words would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from ...schemas.errors import MetajournalError
from ...schemas.kinds import KINDS
from ...schemas.outside import is_brought
from ...schemas.settings import Settings

_ASKED_S: Final = 2.0


class BroughtWords:
    """Takes in the domains that a journal serves, once.

    Args:
        settings: the journal's prefix, and how to reach Kafka.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked = False

    def take_in(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Take in what explaining some hits needs."""
        unknown = {state["kind"] for state in states if state["kind"] not in KINDS and state.get("record")}
        if self._asked or not any(map(is_brought, unknown)):
            return
        from ...producers.topics import read_epochs  # most searches never need Kafka's client

        self._asked = True
        with suppress(MetajournalError):
            read_epochs(self._settings, timeout_s=_ASKED_S)
