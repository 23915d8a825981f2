"""Rows of the tables of access: of each key its hash and whether it holds, of each principal how many keys hold.

What a principal is granted and what a role allows stands in their entities' records, like what a key is for; the hash
stands here alone, so that nothing which shows an entity shows it.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple


class AccessKeyRow(NamedTuple):
    """A key after one event.

    Attributes:
        urn: its URN.
        deleted: it was revoked, or its principal was disabled; it never holds again.
        hash: SHA-256 of its text, 64 hexadecimal digits; None once it has ended.
        not_after: milliseconds UTC after which it is refused; None: never.
        label: what it is for.
        once: it is good for one exchange only.
    """

    tenant: str
    urn: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    hash: str | None
    not_after: int | None
    label: str
    once: bool


class AccessKeyKey(NamedTuple("AccessKeyKey", [("urn", str)])):
    """The key of a row of `access_keys`, without the tenant."""

    __slots__ = ()
    TABLE: ClassVar[str] = "access_keys"


class AccessPrincipalRow(NamedTuple):
    """How many keys of a principal hold, after one event.

    Attributes:
        urn: its URN.
        live_keys: keys that were issued and did not end, expired ones too.
    """

    tenant: str
    urn: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    live_keys: int


class AccessPrincipalKey(NamedTuple("AccessPrincipalKey", [("urn", str)])):
    """The key of a row of `access_principals`, without the tenant."""

    __slots__ = ()
    TABLE: ClassVar[str] = "access_principals"


ROWS: Final = {AccessKeyRow: AccessKeyKey, AccessPrincipalRow: AccessPrincipalKey}
