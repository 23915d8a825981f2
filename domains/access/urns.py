"""Names of principals, keys and roles, the URNs that they make, and the patterns of grants.

A pattern is looked at by its form alone, not by the kinds that this process knows, so that every process judges a grant
alike. One that fits no entity allows nothing. Source: docs/concepts.md, "Access".
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from ...schemas.events.base import text_fault
from ...schemas.limits import MAX_URN_BYTES
from ...schemas.urn import Urn, urn

PRINCIPAL: Final = "access-principal"
KEY: Final = "access-key"
ROLE: Final = "access-role"
CONSTANT_ROLES: Final = ("admin", "developer", "analyst", "emitter")
"""Roles that every journal has: no event defines or deletes them."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,127}")
_KEY_ID: Final = re.compile(r"[0-9a-f]{24}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_ACTION: Final = re.compile(r"[A-Z][A-Za-z]{0,63}")
_KIND: Final = re.compile(r"[a-z][a-z0-9-]*")
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_LATER: Final = _PLAIN | frozenset(b"._$~+-")


def principal_urn(name: str) -> Urn:
    """URN of a principal. Raises: InvalidUrnError."""
    return urn(PRINCIPAL, name)


def key_urn(principal: str, key_id: str) -> Urn:
    """URN of a key, from its principal's name and its id. Raises: InvalidUrnError."""
    return urn(KEY, principal, key_id)


def role_urn(name: str) -> Urn:
    """URN of a role. Raises: InvalidUrnError."""
    return urn(ROLE, name)


def name_fault(value: Any) -> str | None:
    """What is wrong with the name of a principal or a role, or None."""
    return text_fault(value, empty=False) or _form_fault(value, _NAME)


def key_id_fault(value: Any) -> str | None:
    """What is wrong with the id of a key, or None; the value is not shown, since it may be a whole key."""
    if isinstance(value, str) and _KEY_ID.fullmatch(value):
        return None
    return "must be 24 hexadecimal digits in lower case: the id of the key, which is its second part"


def hash_fault(value: Any) -> str | None:
    """What is wrong with a hash, or None; the value is not shown, since it may be a key that was given by mistake."""
    if isinstance(value, str) and _HASH.fullmatch(value):
        return None
    return "must be 64 hexadecimal digits in lower case: the SHA-256 of the key"


def action_fault(value: Any) -> str | None:
    """What is wrong with the name of an action, or None; whether there is such an action is not looked at."""
    return text_fault(value, empty=False) or _form_fault(value, _ACTION)


def _form_fault(value: str, form: re.Pattern[str]) -> str | None:
    return None if form.fullmatch(value) else f"must match {form.pattern}, not {value!r:.80}"


class Pattern(NamedTuple):
    """A pattern of URNs, taken apart.

    Attributes:
        kind: of the entities; None: of any kind.
        parts: the leading parts of their paths, percent-encoded; of a whole URN all of them.
        whole: it is one entity's URN.
    """

    kind: str | None
    parts: tuple[str, ...]
    whole: bool


def parse_pattern(text: str) -> Pattern:
    """A pattern: `*`, `<kind>:*`, `<kind>:<parts>/*`, `*:<namespace>/*` or a whole URN.

    Raises:
        ValueError: it is none, with the reason; also what would do, where a star stands inside of a name.
    """
    if text == "*":
        return Pattern(None, (), whole=False)
    kind, colon, path = text.partition(":")
    if not colon or not path:
        raise ValueError(f"must be *, kind:*, kind:parts/*, *:namespace/* or a URN, not {text!r:.80}")
    if kind != "*" and not _KIND.fullmatch(kind):
        raise ValueError(f"must begin with a kind ([a-z][a-z0-9-]*) or *, not {kind!r:.80}")
    parts = path.split("/")
    last = parts.pop() if parts[-1] == "*" else None
    for place, part in enumerate(parts):
        _check_part(kind, parts[:place], part)
    if kind == "*" and (last is None or len(parts) != 1):
        raise ValueError(f"of every kind must be *:namespace/*, with one namespace, not {text!r:.80}")
    return Pattern(None if kind == "*" else kind, tuple(parts), whole=last is None)


def _check_part(kind: str, before: list[str], part: str) -> None:
    if "*" in part:
        leading = "/".join(before)
        wider = f"{kind}:{leading}/*" if before else f"{kind}:*" if kind != "*" else "*"
        stem = part.partition("*")[0]
        exact = f", or {kind}:{'/'.join([*before, stem])}/* for what is below {stem!r}" if stem else ""
        raise ValueError(
            f"must not have a star inside of a name, which would also take in other names that begin so: {part!r:.80}. "
            f"Use {wider}{exact}"
        )
    if not part or not _is_canonical(part):
        raise ValueError(f"must hold parts as in a URN, every other byte percent-encoded, not {part!r:.80}")


def _is_canonical(part: str) -> bool:
    """Whether a part is spelled as in a URN."""
    try:
        raw = decoded(part).encode()
    except ValueError:
        return False
    spelled = [chr(byte) if byte in (_LATER if place else _PLAIN) else f"%{byte:02X}" for place, byte in enumerate(raw)]
    return "".join(spelled) == part


def decoded(part: str) -> str:
    """The name that a part of a pattern stands for. Raises: ValueError: it is not percent-encoded UTF-8."""
    first, *rest = part.split("%")
    raw = first.encode("ascii")
    for piece in rest:
        raw += (bytes.fromhex(piece[:2]) if len(piece) >= 2 else b"\xff") + piece[2:].encode("ascii")
    return raw.decode("utf-8")


def pattern_fault(value: Any) -> str | None:
    """What is wrong with a pattern, or None."""
    why = text_fault(value, empty=False, limit_bytes=MAX_URN_BYTES)
    if why is not None:
        return why
    try:
        parse_pattern(value)
    except ValueError as error:
        return str(error)
    return None
