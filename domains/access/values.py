"""What users get of access, and its JSON shapes. No hash stands in any of them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ...schemas.shapes import WHOLE, Named
from .keys import CODE_LABEL, SESSION_LABEL

GRANT: Final = {"role": str, "pattern": str}
PRINCIPAL: Final = Named("Principal", {
    "tenant": str, "name": str, "enabled": bool, "grants": [GRANT], "logical_timestamp": int,
})  # fmt: skip
KEY: Final = Named("Key", {
    "tenant": str, "principal": str, "id": str, "label": str, "not_after": WHOLE, "once": bool,
    "logical_timestamp": int,
})  # fmt: skip
ROLE: Final = {"name": str, "actions": [str], "constant": bool, "logical_timestamp": int}


class PrincipalInfo(NamedTuple):
    """A principal.

    Attributes:
        grants: (role, pattern) of each.
        keys: how many hold, those included that have expired.
        logical_timestamp: position of its newest change, for `expected`.
    """

    tenant: str
    name: str
    enabled: bool
    grants: tuple[tuple[str, str], ...]
    keys: int
    logical_timestamp: int


class KeyInfo(NamedTuple):
    """A key that has not ended.

    Attributes:
        id: 24 hexadecimal digits.
        not_after: milliseconds UTC after which it is refused; None: never.
        once: it is good for one exchange only.
        logical_timestamp: position at which it was issued, for `expected`.
    """

    tenant: str
    principal: str
    id: str
    label: str
    not_after: int | None
    once: bool
    logical_timestamp: int

    @property
    def use(self) -> str:
        """What it is good for: "key" as a bearer's, "session" as a cookie, "code" for one login."""
        return {SESSION_LABEL: "session", CODE_LABEL: "code"}.get(self.label, "code" if self.once else "key")


class RoleInfo(NamedTuple):
    """A role.

    Attributes:
        actions: sorted.
        constant: every journal has it; no event changes it.
        logical_timestamp: position of its newest change, for `expected`; 0 of a constant one.
    """

    name: str
    actions: tuple[str, ...]
    constant: bool
    logical_timestamp: int = 0


def principal_json(info: PrincipalInfo) -> dict[str, Any]:
    """A principal as JSON."""
    grants = [{"role": role, "pattern": pattern} for role, pattern in info.grants]
    return {**info._asdict(), "grants": grants}


def key_json(info: KeyInfo) -> dict[str, Any]:
    """A key as JSON."""
    return info._asdict()


def role_json(info: RoleInfo) -> dict[str, Any]:
    """A role as JSON."""
    return {**info._asdict(), "actions": list(info.actions)}
