"""The events of sessions: a session is a key that pages take as a cookie, and that ends by itself.

A one-time code buys one: it is revoked first, as the row that its buyer saw, so of two buyers one wins, in whichever
process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .events import KeyIssued, KeyRevoked
from .keys import CODE_LABEL, SESSION_LABEL, SESSION_S, make_key
from .urns import key_urn

LASTS_S: Final = SESSION_S
MOST_STALE: Final = 10
"""Expired sessions and codes that one login ends: more than it makes."""


def issued(principal: str, now_ms: int) -> tuple[str, KeyIssued]:
    """A new session: its key, which goes into a cookie and nowhere else, and the event that makes it good.

    Args:
        principal: whose session it is.
        now_ms: milliseconds UTC.
    """
    key = make_key()
    until_ms = now_ms + LASTS_S * 1000
    return key.text, KeyIssued(key_urn(principal, key.id), key.hash, until_ms, SESSION_LABEL)


def stale(journal: Any, tenant: str, principal: str, now_ms: int) -> Sequence[KeyRevoked]:
    """The events that end a principal's expired sessions and codes, the oldest first: they count among its keys until
    then, of which there may be 1,000."""
    keys = journal.access.kept.keys(tenant, principal)
    expired = [one for one in keys if one.label in (SESSION_LABEL, CODE_LABEL) and (one.not_after or now_ms) < now_ms]
    return [ended(principal, one.id) for one in expired[:MOST_STALE]]


def ended(principal: str, key_id: str) -> KeyRevoked:
    """The event that ends a session, or a code that was used."""
    return KeyRevoked(key_urn(principal, key_id))
