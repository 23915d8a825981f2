"""The rules of access: who is there, what each is granted, which keys hold, and what roles allow.

A principal never ends: one that is disabled keeps its grants, and all its keys end. A key that ended, and the name of a
role that was deleted, never return. Whether a key has expired is its reader's business: rules read no clock.
Rejected is what breaks one of these, in this order: the form, the precondition, `unknown-entity`, `protected`,
`retired`, `disabled`, `exists`, `too-large`. Source: docs/concepts.md, "Access".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...rules import Reading, Rule
from ...rules.admission import refusal, stale
from ...rules.entity import At, EntityRow, Reads, RowReader
from ...rules.outcome import UNCHANGED, Accepted, Outcome, Rejected
from ...rules.plain import ended_row, entity_row, live, origin
from ...schemas.header import Header
from ...schemas.limits import MAX_ENTITY_BYTES
from ...schemas.urn import Urn
from .events import (
    KeyIssued,
    KeyRevoked,
    PrincipalDisabled,
    PrincipalRegistered,
    RoleDefined,
    RoleDeleted,
    RolesGranted,
    RolesRevoked,
)
from .rows import AccessKeyRow, AccessPrincipalKey, AccessPrincipalRow
from .urns import CONSTANT_ROLES, KEY

MAX_GRANTS: Final = 1000
MAX_KEYS: Final = 1000
"""Most keys of a principal that have not ended: its end, which ends them all, is one event."""
_GRANT_BYTES: Final = 6
"""What a grant counts for besides its two texts: brackets and quotes."""

_Decision = Callable[[Header, Any, At, EntityRow | None, RowReader], Outcome]
"""What an event that is in order does; the newest row of its first entity is given, also of one that ended."""


def _rule(decide: _Decision) -> Rule:
    """The rule of an event: its form and its precondition come first."""

    def judged(header: Header, event: Any, at: At, rows: RowReader) -> Outcome:
        refused = refusal(header, event)
        if refused is not None:
            return refused
        entity = event.entities[0]
        newest = rows.entity(entity)
        refused = stale(header, entity, live(newest))
        return decide(header, event, at, newest, rows) if refused is None else refused

    return judged


def _unknown(entity: Urn) -> Rejected:
    return Rejected("unknown-entity", {"entity": str(entity)})


# Principals


def _registered(
    header: Header, event: PrincipalRegistered, at: At, newest: EntityRow | None, _: RowReader
) -> Outcome:  # fmt: skip
    record = _record(newest)
    if record.get("enabled"):
        return UNCHANGED
    enabled = {"enabled": True, "grants": record.get("grants", [])}
    return Accepted((entity_row(header, at, event.principal, newest, record=enabled),))


def _disabled(
    header: Header, event: PrincipalDisabled, at: At, newest: EntityRow | None, rows: RowReader
) -> Outcome:  # fmt: skip
    if newest is None:
        return _unknown(event.principal)
    record = _record(newest)
    if not record["enabled"]:
        return UNCHANGED
    keys = sorted((row for row in rows.members(event.principal, (KEY,)) if not row.deleted), key=lambda row: row.urn)
    changed = [entity_row(header, at, event.principal, newest, record={**record, "enabled": False})]
    changed += [ended_row(header, at, row, seq=seq) for seq, row in enumerate(keys, 1)]
    ended = [_ended_key(header, at, row, seq) for seq, row in enumerate(keys)]
    return Accepted(tuple(changed), (*ended, _count(header, at, event.principal, 0)))


def _granted(
    header: Header, event: RolesGranted, at: At, newest: EntityRow | None, _: RowReader
) -> Outcome:  # fmt: skip
    if newest is None:
        return _unknown(event.principal)
    record = _record(newest)
    before = {tuple(grant) for grant in record["grants"]}
    after = before.union(event.grants)
    if after == before:
        return UNCHANGED
    size_bytes = sum(len(role) + len(pattern) + _GRANT_BYTES for role, pattern in after)
    if len(after) > MAX_GRANTS or size_bytes > MAX_ENTITY_BYTES:
        limits = {"limit": MAX_GRANTS, "limit_bytes": MAX_ENTITY_BYTES}
        detail = {"entity": str(event.principal), "grants": len(after), "size_bytes": size_bytes, **limits}
        return Rejected("too-large", detail)
    return Accepted((_with_grants(header, at, newest, after),))


def _grants_revoked(
    header: Header, event: RolesRevoked, at: At, newest: EntityRow | None, _: RowReader
) -> Outcome:  # fmt: skip
    if newest is None:
        return _unknown(event.principal)
    before = {tuple(grant) for grant in _record(newest)["grants"]}
    after = set() if event.all else before.difference(event.grants)
    return UNCHANGED if after == before else Accepted((_with_grants(header, at, newest, after),))


def _with_grants(header: Header, at: At, newest: EntityRow, grants: set[tuple[Any, ...]]) -> EntityRow:
    record = {**_record(newest), "grants": [list(grant) for grant in sorted(grants)]}
    return entity_row(header, at, Urn.parse(newest.urn), newest, record=record)


# Keys


def _issued(header: Header, event: KeyIssued, at: At, newest: EntityRow | None, rows: RowReader) -> Outcome:
    principal = event.aggregate
    row = rows.entity(principal)
    if row is None:
        return _unknown(principal)
    if not _record(row)["enabled"]:
        return Rejected("disabled", {"entity": str(principal)})
    if newest is not None:  # also one that ended
        return Rejected("exists", {"entity": str(event.key)})
    count = _live_keys(rows, principal)
    if count >= MAX_KEYS:
        return Rejected("too-large", {"entity": str(principal), "keys": count + 1, "limit": MAX_KEYS})
    record = {"not_after": event.not_after, "label": event.label, "once": event.once}
    values = (event.hash, event.not_after, event.label, event.once)
    key = AccessKeyRow._make((header.tenant, event.key, *origin(header, at), *values))
    entity = entity_row(header, at, event.key, None, record=record)
    return Accepted((entity,), (key, _count(header, at, principal, count + 1)))


def _revoked(header: Header, event: KeyRevoked, at: At, newest: EntityRow | None, rows: RowReader) -> Outcome:
    if newest is None:
        return _unknown(event.key)
    if newest.deleted:
        return UNCHANGED
    count = _live_keys(rows, event.aggregate)
    facts = (_ended_key(header, at, newest, 0), _count(header, at, event.aggregate, count - 1))
    return Accepted((ended_row(header, at, newest),), facts)


def _ended_key(header: Header, at: At, before: EntityRow, seq: int) -> AccessKeyRow:
    """The row of a key that ends; its hash is not needed any more."""
    record = _record(before)
    values = (None, record["not_after"], record["label"], record["once"])
    return AccessKeyRow._make((header.tenant, before.urn, *origin(header, at, seq=seq, deleted=True), *values))


def _live_keys(rows: RowReader, principal: Urn) -> int:
    row: AccessPrincipalRow | None = rows.fact(AccessPrincipalKey(principal))
    return 0 if row is None else row.live_keys


def _count(header: Header, at: At, principal: Urn, live_keys: int) -> AccessPrincipalRow:
    return AccessPrincipalRow._make((header.tenant, principal, *origin(header, at), live_keys))


# Roles


def _defined(header: Header, event: RoleDefined, at: At, newest: EntityRow | None, _: RowReader) -> Outcome:
    if event.role.name in CONSTANT_ROLES:
        return Rejected("protected", {"entity": str(event.role)})
    if newest is not None and newest.deleted:
        return Rejected("retired", {"entity": str(event.role)})
    record = {"actions": sorted({*event.actions})}
    if newest is not None and newest.record == record:
        return UNCHANGED
    return Accepted((entity_row(header, at, event.role, newest, record=record),))


def _role_deleted(
    header: Header, event: RoleDeleted, at: At, newest: EntityRow | None, _: RowReader
) -> Outcome:  # fmt: skip
    if event.role.name in CONSTANT_ROLES:
        return Rejected("protected", {"entity": str(event.role)})
    if newest is None:
        return _unknown(event.role)
    return UNCHANGED if newest.deleted else Accepted((ended_row(header, at, newest),))


def _record(row: EntityRow | None) -> Mapping[str, Any]:
    return {} if row is None or row.record is None else row.record


def _reads_keys(_: Header, event: PrincipalDisabled) -> Reads:
    return Reads(members=(KEY,))


def _reads_count(_: Header, event: KeyIssued | KeyRevoked) -> Reads:
    return Reads((AccessPrincipalKey(event.aggregate),))


RULES: Final[Mapping[str, Rule]] = {
    PrincipalRegistered.TYPE: _rule(_registered),
    PrincipalDisabled.TYPE: _rule(_disabled),
    RolesGranted.TYPE: _rule(_granted),
    RolesRevoked.TYPE: _rule(_grants_revoked),
    KeyIssued.TYPE: _rule(_issued),
    KeyRevoked.TYPE: _rule(_revoked),
    RoleDefined.TYPE: _rule(_defined),
    RoleDeleted.TYPE: _rule(_role_deleted),
}
READS: Final[Mapping[str, Reading]] = {
    PrincipalDisabled.TYPE: _reads_keys,
    KeyIssued.TYPE: _reads_count,
    KeyRevoked.TYPE: _reads_count,
}
