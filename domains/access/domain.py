"""Access: principals with their keys, and roles. It is never indexed, and its entities take no annotations."""

from __future__ import annotations

from typing import Final

from ...schemas.domain import Actions, Domain, Kind

DOMAIN: Final = Domain(
    "access",
    __package__,
    kinds=(
        Kind("access-principal", "access", 1, 1),
        Kind("access-key", "access", 2, 2, "access-principal", 1),
        Kind("access-role", "access", 1, 1),
    ),
    event_types=(
        "access.PrincipalRegistered.1",
        "access.PrincipalDisabled.1",
        "access.RolesGranted.1",
        "access.RolesRevoked.1",
        "access.KeyIssued.1",
        "access.KeyRevoked.1",
        "access.RoleDefined.1",
        "access.RoleDeleted.1",
    ),
    reasons=("unknown-entity", "protected", "retired", "disabled", "exists", "too-large"),
    next_steps=(
        ("unknown-entity", "Register the principal, or define the role, first."),
        ("protected", "Every journal has this role as it is; define one of another name."),
        ("retired", "The name of a deleted role never returns; choose another one."),
        ("disabled", "Enable the principal first."),
        ("exists", "Make another key."),
        ("too-large", "Take grants away, or end keys, first; the detail names the limit."),
    ),
    has_changes=False,
    has_documents=False,
    actions=Actions("Access", ("Read", "Write")),
)
