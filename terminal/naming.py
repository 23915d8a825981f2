"""What somebody may have meant by a URN that is none, or by a kind that nobody else has.

Left to whom: what a URN is says `schemas/urn.py`; nothing here is taken without being typed again.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final
from urllib.parse import unquote_to_bytes

from ..schemas.errors import InvalidUrnError
from ..schemas.kinds import KINDS
from ..schemas.urn import urn

_NEAR: Final = 0.85
"""`datset` and `apps` are near enough, `team` and `stream` are not."""


def meant_urn(text: str) -> str | None:
    """The URN that a text becomes by percent-encoding; None where that makes none, or changes nothing."""
    kind, _, path = text.partition(":")
    try:
        meant = urn(kind, *(unquote_to_bytes(part).decode() for part in path.split("/")))
    except (InvalidUrnError, ValueError):
        return None
    return None if meant == text else str(meant)


def meant_kind(kind: str) -> str | None:
    """The standard kind that another one nearly is."""
    return None if kind in KINDS else next(iter(get_close_matches(kind, KINDS, 1, _NEAR)), None)
