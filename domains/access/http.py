"""Principals, keys and roles over HTTP; nobody gives more than they have.

What changes rights goes through these rows alone, never as an event of a body: a grant is held against all that its
giver may do. Source: the page of access, "Rights".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...schemas.endpoints import READ, WRITE, Answer, Endpoint, Made, Need, Parameter, Request, number
from ...schemas.errors import ForbiddenError, InputError, UnknownEntityError
from ...schemas.limits import MAX_ENTRIES
from ...schemas.shapes import RECORDED
from ...schemas.urn import Urn
from .client import checked_action, checked_grants, checked_name, unknown_role
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
from .keys import check_label, make_key
from .urns import CONSTANT_ROLES, key_urn, principal_urn, role_urn
from .values import (
    GRANT,
    KEY,
    PRINCIPAL,
    ROLE,
    PrincipalInfo,
    RoleInfo,
    key_json,
    principal_json,
    role_json,
)

if TYPE_CHECKING:
    from .directory import Directory
    from .rights import Rights

_AT: Final = "/api/v1/access"
_READ_ACCESS: Final = "ReadAccess"
ADMIN: Final = CONSTANT_ROLES[0]
_MOST_PAGE: Final = 1_000
HEARD_S: Final = 5.0
"""Seconds that a request waits until the newest rights were heard of; a thread waits with it."""
_LIST: Final = (number("limit", "Most entries of a page.", _MOST_PAGE), Parameter("cursor", "Of the page before."))
_N = TypeVar("_N", PrincipalInfo, RoleInfo)


@dataclass(frozen=True)
class GrantBody:
    """A role on what a pattern names."""

    role: str
    pattern: str


@dataclass(frozen=True)
class GrantsBody:
    """Grants."""

    grants: list[GrantBody]


@dataclass(frozen=True)
class KeyBody:
    """What a key is for, and until when it is good, milliseconds UTC."""

    label: str = ""
    not_after: int | None = None


@dataclass(frozen=True)
class RoleBody:
    """What a role allows."""

    actions: list[str]


def _principal(parts: Mapping[str, str]) -> Urn:
    return principal_urn(checked_name("principal", parts["principal"]))


def _role(parts: Mapping[str, str]) -> Urn:
    return role_urn(checked_name("role", parts["role"]))


# Events


def _register(request: Request) -> PrincipalRegistered:
    return PrincipalRegistered(request.entity)


def _disable(request: Request) -> PrincipalDisabled:
    return PrincipalDisabled(request.entity)


def _grant(request: Request) -> RolesGranted:
    return RolesGranted(request.entity, checked_grants(_pairs(request)))


def _take(request: Request) -> RolesRevoked:
    named = (request.parts["role"], request.parts["pattern"])
    return RolesRevoked(request.entity, checked_grants([named]))


def _take_all(request: Request) -> RolesRevoked:
    return RolesRevoked(request.entity, all=True)


def _issue(request: Request) -> Made:
    """A key, whose text is in this answer and nowhere else."""
    given, key = request.body or KeyBody(), make_key()
    check_label(given.label)
    event = KeyIssued(key_urn(request.parts["principal"], key.id), key.hash, given.not_after, given.label)
    return Made(event, {"key": key.text, "key_id": key.id})


def _end_key(request: Request) -> KeyRevoked:
    return KeyRevoked(key_urn(request.parts["principal"], request.parts["key"]))


def _check_count(given: Sequence[Any], what: str) -> None:
    """Refuse more than an event holds before any of it is looked at. Raises: InputError."""
    if len(given) > MAX_ENTRIES:
        text = f"A request has at most {MAX_ENTRIES:,} {what}, this one {len(given):,}."
        raise InputError(text, code="too-many", hint="Send several requests.")


def _define(request: Request) -> RoleDefined:
    return RoleDefined(request.entity, [checked_action(action) for action in request.body.actions])


def _end_role(request: Request) -> RoleDeleted:
    return RoleDeleted(request.entity)


def _pairs(request: Request) -> list[tuple[str, str]]:
    _check_count(request.body.grants, "grants")
    return [(grant.role, grant.pattern) for grant in request.body.grants]


# Nobody gives more than they have


def check_grant(journal: Any, request: Request) -> None:
    """Refuse what goes beyond the giver's rights, and a role that is not defined to whoever may know which are."""
    grants = checked_grants(_pairs(request))
    _check_covers(request, _rights(journal, request, grants), "grants")
    known = [*CONSTANT_ROLES, *journal.access.kept.roles_of(request.tenant)]
    for grant in grants:
        if grant.role not in known and request.may(READ, role_urn(grant.role)):
            raise unknown_role(grant.role, [one for one in known if _may_know(one, request)])


def _may_know(role: str, request: Request) -> bool:
    return role in CONSTANT_ROLES or request.may(READ, role_urn(role))


def check_holder(journal: Any, request: Request) -> None:
    """Whoever has a key made for a principal, or enables one, can act as that principal."""
    name = request.parts["principal"]
    if name != request.actor:
        _check_covers(request, _rights(journal, request, journal.access.kept.grants(request.tenant, name)), name)


def _check_role(journal: Any, request: Request) -> None:
    check_definition(request, request.parts["role"], request.body.actions)


def check_definition(request: Request, role: str, named: Sequence[str]) -> None:
    """Whoever defines a role gives what it allows to all who have it."""
    from .rights import Rights

    _check_count(named, "actions")
    actions = frozenset(checked_action(action) for action in named)
    _check_covers(request, Rights([(role, "*")], {role: actions}), f"role {role}")


def _rights(journal: Any, request: Request, grants: Sequence[tuple[str, str]]) -> Rights:
    """What grants allow, and may come to allow: a role that is not defined yet can be defined as anything."""
    from .rights import Rights

    roles = journal.access.kept.roles_of(request.tenant)
    defined = {*CONSTANT_ROLES, *roles}
    return Rights([(role if role in defined else ADMIN, pattern) for role, pattern in grants], roles)


def _check_covers(request: Request, rights: Rights, what: str) -> None:
    if not request.rights.covers(rights):
        raise ForbiddenError(
            f"The rights of {what} go beyond those of this key.", code="more-than-own",
            hint="Nobody gives more than they have: ask somebody who may do all of it.",
        )  # fmt: skip


# Questions


def _principals(journal: Any, request: Request) -> Answer:
    found = journal.access.principals(tenant=request.tenant, timeout_s=HEARD_S)
    page, following = _page_of([one for one in found if request.may(READ, principal_urn(one.name))], request)
    return Answer([principal_json(one) for one in page], next=following)


def _one_principal(journal: Any, request: Request) -> Answer:
    name = request.parts["principal"]
    found = [one for one in journal.access.principals(tenant=request.tenant, timeout_s=HEARD_S) if one.name == name]
    if not found:
        raise UnknownEntityError(str(request.entity))
    shown = principal_json(found[0])
    shown.pop("keys")  # they come and go without a change of the principal, which is what the tag names
    return Answer(shown, etag=str(found[0].logical_timestamp))


def _keys(journal: Any, request: Request) -> Answer:
    _one_principal(journal, request)
    found = journal.access.keys(request.parts["principal"], tenant=request.tenant, timeout_s=HEARD_S)
    return Answer([{**key_json(one), "use": one.use} for one in found])


def _roles(journal: Any, request: Request) -> Answer:
    with journal.access.opened(timeout_s=HEARD_S) as known:
        page, following = _page_of(readable_roles(known, request), request, _place_of_role)
        return Answer([role_json(one) for one in page], next=following)


def _page_of(
    found: Sequence[_N], request: Request, place: Callable[[str], Any] = str
) -> tuple[list[_N], dict[str, str] | None]:
    """A page of what is named, in the order of `place`, and the query of the next one."""
    limit, after = request.whole("limit", _MOST_PAGE, _MOST_PAGE), request.query.get("cursor")
    ordered = sorted(found, key=lambda one: place(one.name))
    left = [one for one in ordered if after is None or place(one.name) > place(after)]
    return left[:limit], {"cursor": left[limit - 1].name} if len(left) > limit else None


def _place_of_role(name: str) -> tuple[int, str]:
    constant = CONSTANT_ROLES.index(name) if name in CONSTANT_ROLES else len(CONSTANT_ROLES)
    return constant, name


def readable_roles(known: Directory, request: Request) -> list[RoleInfo]:
    """The roles that every journal has, and those of its own that may be read."""
    return [one for one in known.roles(request.tenant) if _may_know(one.name, request)]


def _me(journal: Any, request: Request) -> Answer:
    """Who asks, with their own grants: everybody may know these."""
    grants = journal.access.kept.grants(request.tenant, request.actor)
    given = [{"role": role, "pattern": pattern} for role, pattern in grants]
    return Answer({"tenant": request.tenant, "principal": request.actor, "grants": given})


def _any_access(request: Request) -> Sequence[Need]:
    return (Need(_READ_ACCESS),)


def _nothing(request: Request) -> Sequence[Need]:
    return ()


def _write(
    method: str, path: str, about: str, event: Callable[[Request], Any], *, body: Any = None,
    check: Callable[[Any, Request], None] | None = None, urn: Callable[[Mapping[str, str]], Urn] = _principal,
    created: int = 200, optional: bool = False, creates: bool = False, answer: Any = RECORDED,
) -> Endpoint:  # fmt: skip
    return Endpoint(
        method, _AT + path, about, WRITE, event=event, check=check, body=body, optional_body=optional, urn=urn,
        answer=answer, created=created, creates=creates, audited="rights",
    )  # fmt: skip


_OF: Final = "/principals/{principal}"
ENDPOINTS: Final = (
    Endpoint(
        "GET", f"{_AT}/me", "Who asks, and what they were granted.", read=_me, needs=_nothing,
        answer={"tenant": str, "principal": str, "grants": [GRANT]},
    ),
    Endpoint(
        "GET", f"{_AT}/principals", "Principals with their grants, by name.", read=_principals, needs=_any_access,
        answer=[{**PRINCIPAL, "keys": int}], query=_LIST,
    ),
    Endpoint("GET", _AT + _OF, "A principal.", read=_one_principal, urn=_principal, answer=PRINCIPAL),
    _write("POST", _OF, "Register a principal, or enable it again.", _register, check=check_holder, created=201,
           creates=True),
    _write("DELETE", _OF, "Disable a principal: its keys end permanently.", _disable),
    _write("POST", f"{_OF}/grants", "Grant roles on patterns.", _grant, body=GrantsBody, check=check_grant),
    _write("DELETE", f"{_OF}/grants", "Take all grants away.", _take_all),
    _write("DELETE", f"{_OF}/grants/{{role}}/{{pattern}}", "Take a grant away.", _take),
    Endpoint(
        "GET", f"{_AT}{_OF}/keys", "The keys of a principal that have not ended, without their text.", read=_keys,
        urn=_principal, answer=[{**KEY, "use": str}],
    ),
    _write(
        "POST", f"{_OF}/keys", "Make a key; its text is in this answer and nowhere else.", _issue, body=KeyBody,
        check=check_holder, created=201, optional=True, answer={**RECORDED, "key_id?": str, "key?": str},
    ),
    _write("DELETE", f"{_OF}/keys/{{key}}", "End a key permanently.", _end_key),
    Endpoint(
        "GET", f"{_AT}/roles", "Roles with what they allow: those of every journal, then its own by name.", read=_roles,
        needs=_any_access, answer=[ROLE], query=_LIST,
    ),
    _write("POST", "/roles/{role}", "Define a role, or define it anew.", _define, body=RoleBody, check=_check_role,
           urn=_role, creates=True),
    _write("DELETE", "/roles/{role}", "Delete a role; its name never returns.", _end_role, urn=_role),
)  # fmt: skip
"""The rows of access."""

NEEDS: Final[Mapping[str, Callable[[Any], Sequence[Need]]]] = {}
"""Its events are not taken from bodies of events, since rights on entities alone do not judge them."""
