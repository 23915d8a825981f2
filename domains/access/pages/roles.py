"""Pages of roles: what each allows and who has it, with forms that define and delete those of the journal's own.

A definition replaces the one that its sender saw; where somebody else has changed it, both are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ....schemas.endpoints import READ, WRITE, Need, Request
from ....schemas.errors import InputError, UnknownEntityError
from ....schemas.pages import Page, Sent, Shown, seen_state
from ....schemas.urn import Urn
from ..client import checked_action, checked_name
from ..events import RoleDefined, RoleDeleted
from ..http import HEARD_S, check_definition, readable_roles
from ..rights import WRITE_ACCESS, known_actions
from ..urns import principal_urn, role_urn
from .refilled import Form, refilled

_RIGHTS: Final = "rights"
_OF_THE_FORM: Final = frozenset({"role", "expected"})


def _urn(parts: Mapping[str, str]) -> Urn:
    return role_urn(checked_name("role", parts["role"]))


def _address(name: str) -> str:
    return f"/access/roles/{name}"


def _role(journal: Any, request: Request) -> Shown:
    name = request.parts["role"]
    with journal.access.opened(timeout_s=HEARD_S) as known:
        found = [one for one in readable_roles(known, request) if one.name == name]
        principals = known.principals(request.tenant)
    if not found:
        raise UnknownEntityError(str(request.entity))
    holders = [
        (one.name, pattern)
        for one in principals if request.may(READ, principal_urn(one.name))
        for role, pattern in one.grants if role == name
    ]  # fmt: skip
    values = {
        "role": found[0], "holders": holders, "actions": sorted(known_actions()),
        "may_write": not found[0].constant and request.may(WRITE, request.entity),
    }  # fmt: skip
    return Shown("access/role.html", values)


def _named(request: Request) -> str:
    """The role that a form names. Raises: InputError: none can have that name."""
    return checked_name("role", request.body.get("role", "").strip())


def _chosen(request: Request) -> list[str]:
    """The actions that are ticked. Raises: InputError: none is, or there is no such action."""
    chosen = [checked_action(name) for name in sorted(request.body) if name not in _OF_THE_FORM]
    if not chosen:
        raise InputError("A role must allow something.", hint="Tick an action, or delete the role.")
    return chosen


def _define(request: Request) -> Sent:
    name = _named(request)
    return Sent(RoleDefined(role_urn(name), _chosen(request)), seen_state(request), _address(name))


def _may_define(request: Request) -> Sequence[Need]:
    """Of a form whose name none can have any role: it is shown again."""
    try:
        return (Need(WRITE, role_urn(_named(request))),)
    except InputError:
        return (Need(WRITE_ACCESS),)


def _define_refilled(request: Request, error: InputError) -> Shown:
    form = Form(
        "Define a role", "Not defined", "/access/roles", "Define", "/access", {"role": "Name"}, has_actions=True
    )
    return refilled(form, request, error)


def _check_defined(journal: Any, request: Request) -> None:
    check_definition(request, _named(request), _chosen(request))


def _define_again(request: Request, row: Any) -> Shown:
    is_there = row is not None and not row.deleted
    values = {
        "name": _named(request), "row": row if is_there else None, "wanted": _chosen(request),
        "now": row.record["actions"] if is_there else [],
    }  # fmt: skip
    return Shown("access/role_conflict.html", values, 412)


def _delete(request: Request) -> Sent:
    return Sent(RoleDeleted(request.entity), seen_state(request), "/access")


def _delete_again(request: Request, row: Any) -> Shown:
    """What has changed is not deleted unseen."""
    name = request.parts["role"]
    return Shown("access/changed.html", {"name": name, "back": _address(name), "row": row}, 412)


ROLE_PAGES: Final = (
    Page("GET", "/access/roles/{role}", "A role: what it allows, and who has it.", show=_role, urn=_urn),
    Page(
        "POST", "/access/roles", "Define a role, or define it anew.", WRITE, form=_define, needs=_may_define,
        check=_check_defined, again=_define_again, refill=_define_refilled, audited=_RIGHTS,
    ),
    Page(
        "POST", "/access/roles/{role}/delete", "Delete a role; its name never returns.", WRITE, form=_delete, urn=_urn,
        again=_delete_again, audited=_RIGHTS,
    ),
)  # fmt: skip
"""The rows of roles."""
