"""Keys: `mjk_<id>_<secret>_<CRC-32>`, made here and never taken from a caller; looked up by id, compared by hash.

The id has 96 random bits, the secret 256: so many that a plain SHA-256 of the whole text suffices. The check sum tells
a mistyped key from a wrong one, and lets scanners of source code recognize one. Sessions and one-time codes are keys
too, known by their labels: a session's is taken as a cookie only, a code buys one session.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import zlib
from typing import Final

from ...schemas.errors import InputError

SESSION_LABEL: Final = "session"
CODE_LABEL: Final = "one-time code"
SESSION_S: Final = 12 * 3600
"""Seconds that a session lasts."""
CODE_S: Final = 600
"""Seconds in which a code buys one."""
OWN_LABELS: Final = frozenset({SESSION_LABEL, CODE_LABEL})
"""Those that nobody else's keys may have."""
_ID_BYTES: Final = 12
_SECRET_BYTES: Final = 32
_FORM: Final = re.compile(r"mjk_([0-9a-f]{24})_[0-9a-f]{64}_([0-9a-f]{8})")
_NO_HASH: Final = "0" * 64


def check_label(label: str | None) -> None:
    """Refuse the label of sessions and codes for a key of another use. Raises: InputError."""
    if label in OWN_LABELS:
        raise InputError(f"A key cannot be called {label!r}.", code="bad-label", hint="Choose another label.")


class KeyText:
    """A key as its holder has it. It is shown by its id alone.

    Attributes:
        id: 24 hexadecimal digits.
        text: the whole, to be shown once.
    """

    __slots__ = ("id", "text")

    def __init__(self, key_id: str, text: str) -> None:
        self.id = key_id
        self.text = text

    def __repr__(self) -> str:
        return f"<key {self.id}>"

    @property
    def hash(self) -> str:
        """SHA-256 of the text, 64 hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def is_of(self, stored_hash: str | None) -> bool:
        """Whether this is the key of a hash, in the same time whether there is one or not."""
        equal = hmac.compare_digest(self.hash, stored_hash or _NO_HASH)
        return equal and stored_hash is not None


def make_key() -> KeyText:
    """A new key."""
    key_id = secrets.token_hex(_ID_BYTES)
    rest = f"mjk_{key_id}_{secrets.token_hex(_SECRET_BYTES)}"
    return KeyText(key_id, f"{rest}_{_check_sum(rest)}")


def parse_key(text: str) -> KeyText | None:
    """The key that a text is; None where it is none, or was mistyped."""
    form = _FORM.fullmatch(text)
    if form is None or _check_sum(text.rpartition("_")[0]) != form[2]:
        return None
    return KeyText(form[1], text)


def _check_sum(rest: str) -> str:
    return f"{zlib.crc32(rest.encode()):08x}"
