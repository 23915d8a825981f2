"""The events of sessions: a session is a key that pages take as a cookie, and that ends by itself.

A one-time code buys one: it is revoked first, as the row that its buyer saw, so of two buyers one wins, in whichever
process.
"""

from __future__ import annotations

from .events import KeyIssued, KeyRevoked
from .keys import SESSION_LABEL, SESSION_S, make_key
from .urns import key_urn

LASTS_S = SESSION_S


def issued(principal: str, now_ms: int) -> tuple[str, KeyIssued]:
    """A new session: its key, which goes into a cookie and nowhere else, and the event that makes it good.

    Args:
        principal: whose session it is.
        now_ms: milliseconds UTC.
    """
    key = make_key()
    until_ms = now_ms + LASTS_S * 1000
    return key.text, KeyIssued(key_urn(principal, key.id), key.hash, until_ms, SESSION_LABEL)


def ended(principal: str, key_id: str) -> KeyRevoked:
    """The event that ends a session, or a code that was used."""
    return KeyRevoked(key_urn(principal, key_id))
