"""Pages of principals, keys, sessions, roles and the audit; nobody gives more than they have.

Rights are asked as the rows of the API ask for them. A new key is shown once, on the page that answers its form. A form
bears the state that its sender saw, but for keys, which only begin and end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ....schemas.endpoints import READ, WRITE, Need, Request
from ....schemas.errors import InputError, UnknownEntityError
from ....schemas.pages import Page, Section, Sent, Shown, seen_state
from ....schemas.urn import Urn
from ..client import checked_grants, checked_name
from ..events import KeyIssued, KeyRevoked, PrincipalDisabled, PrincipalRegistered, RolesGranted, RolesRevoked
from ..http import HEARD_S, GrantBody, GrantsBody, check_grant, check_holder, readable_roles
from ..keys import CODE_LABEL, CODE_S, check_label, make_key
from ..rights import READ_ACCESS, WRITE_ACCESS, known_actions
from ..urns import key_urn, principal_urn
from .audit import AUDIT_PAGE
from .refilled import Form, refilled
from .roles import ROLE_PAGES
from .sessions import SESSIONS_PAGE

_RIGHTS: Final = "rights"
_OF: Final = "/access/principals/{principal}"


def _urn(parts: Mapping[str, str]) -> Urn:
    return principal_urn(checked_name("principal", parts["principal"]))


def _address(name: str) -> str:
    return f"/access/principals/{checked_name('principal', name)}"


def _access(journal: Any, request: Request) -> Shown:
    with journal.access.opened(timeout_s=HEARD_S) as known:
        found, roles = known.principals(request.tenant), readable_roles(known, request)
    shown = [one for one in found if request.may(READ, principal_urn(one.name))]
    values = {
        "principals": shown, "roles": roles, "actions": sorted(known_actions()),
        "may_write": request.rights.anywhere(WRITE_ACCESS),
    }  # fmt: skip
    return Shown("access/access.html", values)


def _principal(journal: Any, request: Request) -> Shown:
    name = request.parts["principal"]
    with journal.access.opened(timeout_s=HEARD_S) as known:
        found = [one for one in known.principals(request.tenant) if one.name == name]
        keys, roles = known.keys(request.tenant, name), readable_roles(known, request)
    if not found:
        raise UnknownEntityError(str(request.entity), hint="`/access` lists all principals.")
    values = {
        "principal": found[0], "keys": keys, "at": _address(name), "roles": roles, "now_ms": request.at_ms,
        "may_write": request.may(WRITE, request.entity),
    }  # fmt: skip
    return Shown("access/principal.html", values)


def _register(request: Request) -> Sent:
    entity = _named(request)
    return Sent(PrincipalRegistered(entity), None, _address(entity.name))


def _named(request: Request) -> Urn:
    """The principal that a form names. Raises: InputError: none can have that name."""
    return principal_urn(checked_name("principal", request.body.get("principal", "").strip()))


def _may_register(request: Request) -> Sequence[Need]:
    """Of a form whose name none can have any principal: it is shown again."""
    try:
        return (Need(WRITE, _named(request)),)
    except InputError:
        return (Need(WRITE_ACCESS),)


def _register_refilled(request: Request, error: InputError) -> Shown:
    form = Form(
        "Register a principal", "Not registered", "/access/principals", "Register", "/access",
        {"principal": "New principal"},
    )  # fmt: skip
    return refilled(form, request, error)


def _check_registered(journal: Any, request: Request) -> None:
    """Who enables a principal can give it a key."""
    check_holder(journal, replace(request, parts={"principal": _named(request).name}))


def _grant(request: Request) -> Sent:
    return _granted(request, seen_state(request))


def _granted(request: Request, expected: int) -> Sent:
    return Sent(RolesGranted(request.entity, checked_grants([_pair(request)])), expected, _back(request))


def _grant_refilled(request: Request, error: InputError) -> Shown:
    back, fields = _back(request), {"role": "Role", "pattern": "On"}
    title = f"Grant a role to {request.parts['principal']}"
    return refilled(Form(title, "Not granted", f"{back}/grant", "Grant", back, fields), request, error)


def _grant_again(request: Request, row: Any) -> Sent:
    """A grant is there or not, whoever said so first."""
    return _granted(request, _state(row))


def _state(row: Any) -> int:
    return 0 if row is None else row.logical_timestamp


def _check_given(journal: Any, request: Request) -> None:
    check_grant(journal, replace(request, body=GrantsBody([GrantBody(*_pair(request))])))


def _take(request: Request) -> Sent:
    return _taken(request, seen_state(request))


def _taken(request: Request, expected: int) -> Sent:
    return Sent(RolesRevoked(request.entity, checked_grants([_pair(request)])), expected, _back(request))


def _take_again(request: Request, row: Any) -> Sent:
    return _taken(request, _state(row))


def _pair(request: Request) -> tuple[str, str]:
    return request.body.get("role", "").strip(), request.body.get("pattern", "").strip()


def _disable(request: Request) -> Sent:
    return Sent(PrincipalDisabled(request.entity), seen_state(request), _back(request))


def _enable(request: Request) -> Sent:
    return Sent(PrincipalRegistered(request.entity), seen_state(request), _back(request))


def _changed(request: Request, row: Any) -> Shown:
    """Whoever has changed meanwhile is not ended, or given its grants back, unseen."""
    return Shown("access/changed.html", {"name": request.parts["principal"], "back": _back(request), "row": row}, 412)


def _issue(request: Request) -> Sent:
    """A key, or a one-time code; its text is on the answer's page and nowhere else."""
    fields, key, name = request.body, make_key(), request.parts["principal"]
    is_code = fields.get("use") == "code"
    label = CODE_LABEL if is_code else fields.get("label", "").strip()
    if not is_code:
        check_label(label)
    until_ms = request.at_ms + CODE_S * 1000 if is_code else _until_ms(request)
    event = KeyIssued(key_urn(name, key.id), key.hash, until_ms, label, is_code)
    shown = Shown("access/key.html", {"key": key.text, "name": name, "is_code": is_code, "back": _back(request)})
    return Sent(event, None, _back(request), shown)


def _issue_refilled(request: Request, error: InputError) -> Shown:
    back, fields = _back(request), {"label": "Label of the new key", "days": "Days"}
    title = f"Make a key of {request.parts['principal']}"
    form = Form(title, "No key was made", f"{back}/issue", "Make a key", back, fields, ("use",))
    return refilled(form, request, error)


def _until_ms(request: Request) -> int | None:
    """When a key ends. Raises: InputError: the days are no whole number."""
    text = request.body.get("days", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) <= 36_500 and len(text) <= 5):
        raise InputError("The days must be a whole number from 1 to 36,500.", hint="Omit them for a key without end.")
    return request.at_ms + int(text) * 86_400_000


def _end_key(request: Request) -> Sent:
    back = "/access/sessions" if request.body.get("from") == "sessions" else _back(request)
    return Sent(KeyRevoked(key_urn(request.parts["principal"], request.body.get("key", ""))), None, back)


def _back(request: Request) -> str:
    return _address(request.parts["principal"])


def _any_access(request: Request) -> Sequence[Need]:
    return (Need(READ_ACCESS),)


def _form(path: str, about: str, form: Callable[[Request], Sent], **more: Any) -> Page:
    return Page("POST", _OF + path, about, WRITE, form=form, urn=_urn, audited=_RIGHTS, **more)


PAGES: Final = (
    Page(
        "GET", "/access", "Principals and roles.", READ_ACCESS, show=_access, needs=_any_access, menu="Access",
    ),
    Page("GET", _OF, "A principal, its grants, keys and sessions.", show=_principal, urn=_urn),
    Page(
        "POST", "/access/principals", "Register a principal.", WRITE, form=_register, needs=_may_register,
        check=_check_registered, refill=_register_refilled, audited=_RIGHTS,
    ),
    _form(
        "/grant", "Grant a role on a pattern.", _grant, check=_check_given, again=_grant_again, refill=_grant_refilled,
    ),
    _form("/take", "Take a grant away.", _take, again=_take_again),
    _form("/disable", "Disable a principal: its keys end.", _disable, again=_changed),
    _form("/enable", "Enable a principal again.", _enable, check=check_holder, again=_changed),
    _form("/issue", "Make a key, shown once.", _issue, check=check_holder, refill=_issue_refilled),
    _form("/end", "End a key or a session.", _end_key),
    *ROLE_PAGES,
    SESSIONS_PAGE,
    AUDIT_PAGE,
)  # fmt: skip
"""The rows of access."""
SECTIONS: Final[tuple[Section, ...]] = ()
