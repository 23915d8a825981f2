"""The catalog's pages: annotations as they stand, forms that change them, and forms that register and delete.

A form bears what its sender saw. Where the entity has changed since, but not there, it is sent again; where it has
changed there, both are shown, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote, unquote_to_bytes

from ....indexer.schema_fields import schema_fields
from ....rules.entity import EntityRow
from ....schemas.endpoints import DELETE, WRITE, Need, Parameter, Request
from ....schemas.errors import InputError, InvalidUrnError
from ....schemas.pages import Page, Section, Sent, Shown, address_of, seen_state
from ....schemas.registry import has_documents
from ....schemas.urn import Urn, urn
from ..events import EntityDeleted, EntityRegistered, PropertiesRemoved, PropertiesSet, TagsAdded, TagsRemoved

_SCHEMA: Final = "schema"
_TIMES: Final = ("creation_time", "last_update_time")
"""Properties in milliseconds UTC, which the rules set."""
_MOST_FIELDS: Final = 500
_DOMAIN: Final = "catalog"
_SPELLING: Final = (
    "A URN looks like dataset:default/orders, stream:default/clicks or app:default/shop: the kind, then names that are"
    " separated by slashes."
)
_NO_FIELDS: Final = dict.fromkeys(("urn", "description", "schema", "properties", "tags"), "")


def _annotations(journal: Any, request: Request, row: EntityRow) -> Shown:
    """What stands in both scopes, with forms for that of users where they may write."""
    text = row.system_properties.get(_SCHEMA)
    fields = None if text is None else schema_fields(text)
    entity = request.entity
    values = {
        "row": row, "urn": entity, "quoted": quoted, "schema_text": text,
        "fields": None if fields is None else fields[:_MOST_FIELDS],
        "more_fields": 0 if fields is None else max(0, len(fields) - _MOST_FIELDS),
        "times": {key: int(text) for key, text in row.system_properties.items() if key in _TIMES},
        "may_write": not request.is_earlier and has_documents(entity.domain) and request.may(WRITE, entity),
        "may_delete": not request.is_earlier and _is_own(entity) and request.may(DELETE, entity),
    }  # fmt: skip
    return Shown("catalog/annotations.html", values)


def _is_own(urn: Urn) -> bool:
    return urn.domain == _DOMAIN


def quoted(text: str) -> str:
    """A text as a hidden field holds it: browsers change the ends of lines in plain ones."""
    return quote(text, safe="")


# --- forms that edit


def _edit(request: Request) -> Sent:
    return _sent(request, seen_state(request))


def _sent(request: Request, expected: int | None) -> Sent:
    back = address_of("/entity", request.entity, done="1")
    return Sent(_event(request.entity, request.body), expected, back)


def _event(entity: Urn, fields: Mapping[str, str]) -> Any:
    """The event that a form's fields ask for. Raises: InputError: they ask for none."""
    match fields.get("do"):
        case "set":
            return PropertiesSet(entity, {_key(fields): _value(fields)})
        case "remove":
            return PropertiesRemoved(entity, [_key(fields)])
        case "add-tag":
            return TagsAdded(entity, [fields.get("tag", "")])
        case "remove-tag":
            return TagsRemoved(entity, [_decoded(fields.get("named", ""))])
    raise InputError("The form does not say what to do.", code="bad-form", hint="Open the page again.")


def _key(fields: Mapping[str, str]) -> str:
    return _decoded(fields["named"]) if "named" in fields else fields.get("key", "")


def _value(fields: Mapping[str, str]) -> str:
    return _lines(fields.get("value", ""))


def _lines(text: str) -> str:
    """A text of a field as it was typed: browsers send the end of each line as two characters."""
    return text.replace("\r\n", "\n")


def _decoded(text: str) -> str:
    """A text as a form's hidden field has it. Raises: InputError: it is not UTF-8."""
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("The form is not UTF-8.", code="bad-form", hint="Open the page again.") from error


def _edit_again(request: Request, row: EntityRow | None) -> Sent | Shown:
    """Send a form again whose part of the entity is as it was seen; else show both."""
    if row is None or row.deleted:
        return Shown("catalog/conflict.html", {"urn": request.entity, "row": row, "now": None, "quoted": quoted}, 412)
    fields = request.body
    if fields.get("do") not in ("set", "remove"):
        return _sent(request, row.logical_timestamp)  # a tag is there or not, whoever said so first
    key = _key(fields)
    now, seen = row.user_properties.get(key), _decoded(fields["seen"]) if "seen" in fields else None
    wanted = _value(fields) if fields.get("do") == "set" else None
    if now in (seen, wanted):
        return _sent(request, row.logical_timestamp)
    values = {"urn": request.entity, "row": row, "key": key, "now": now, "seen": seen, "wanted": wanted}
    return Shown("catalog/conflict.html", {**values, "quoted": quoted}, 412)


# --- forms that register and delete


def _registration(journal: Any, request: Request) -> Shown:
    fields = {**_NO_FIELDS, "urn": request.query.get("entity", "")}
    return Shown("catalog/register.html", {"fields": fields, "problem": None})


def _refilled(request: Request, error: InputError) -> Shown:
    """The form as it was filled, with what is wrong with it."""
    hint = _spelling(error.text) if isinstance(error, InvalidUrnError) else error.hint
    problem = {"message": error.message, "hint": hint}
    return Shown("catalog/register.html", {"fields": {**_NO_FIELDS, **request.body}, "problem": problem})


def _spelling(text: str) -> str:
    """How to write a URN that is not valid: the one that was meant, where it lacks nothing but percent-encoding."""
    kind, _, path = text.partition(":")
    try:
        meant = urn(kind, *(unquote(part, errors="strict") for part in path.split("/")))
    except (InvalidUrnError, UnicodeDecodeError):
        return _SPELLING
    return f"Did you mean {meant}?"


def _register(request: Request) -> Sent:
    return _registered(request, 0)


def _registered(request: Request, expected: int) -> Sent:
    fields, entity = request.body, _named(request)
    event = EntityRegistered(
        entity, _lines(fields.get("description", "")) or None, _lines(fields.get("schema", "")).strip() or None,
        _properties(fields.get("properties", "")), _listed(fields.get("tags", "")),
    )  # fmt: skip
    return Sent(event, expected, address_of("/entity", entity, done="1"))


def _register_again(request: Request, row: EntityRow | None) -> Sent | Shown:
    if row is None or row.deleted:
        return _registered(request, 0 if row is None else row.logical_timestamp)
    return Shown("catalog/exists.html", {"urn": _named(request), "row": row}, 412)


def _named(request: Request) -> Urn:
    """The entity that the form names. Raises: InvalidUrnError."""
    return Urn.parse(request.body.get("urn", "").strip())


def _may_register(request: Request) -> Sequence[Need]:
    """Of a form whose URN is none anything: it is shown again."""
    try:
        return (Need(WRITE) if request.body is None else Need(WRITE, _named(request)),)
    except InvalidUrnError:
        return (Need(WRITE),)


def _listed(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _properties(text: str) -> dict[str, str]:
    """Properties, `key=value` a line. Raises: InputError: a line is none, or has a key that another one has."""
    found: dict[str, str] = {}
    for line in _listed(text):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{line!r:.80} is not a property.", hint="Write one a line, as key=value.")
        if key.strip() in found:
            raise InputError(f"The property {key.strip()!r:.80} is given twice.", code="given-twice")
        found[key.strip()] = value.strip()
    return found


def _delete(request: Request) -> Sent:
    return Sent(EntityDeleted(request.entity), seen_state(request), address_of("/entity", request.entity))


def _delete_again(request: Request, row: EntityRow | None) -> Sent | Shown:
    """What has changed is not deleted unseen."""
    return Shown("catalog/conflict.html", {"urn": request.entity, "row": row, "now": None, "quoted": quoted}, 412)


PAGES: Final = (
    Page("POST", "/edit/{urn}", "Change a property or a tag of scope USER.", WRITE, form=_edit, again=_edit_again),
    Page("POST", "/delete/{urn}", "Delete an entity.", DELETE, form=_delete, again=_delete_again),
    Page(
        "GET", "/register", "A form that registers an entity.", WRITE, show=_registration, needs=_may_register,
        query=(Parameter("entity", "Its URN."),), menu="Register",
    ),
    Page(
        "POST", "/register", "Register an entity that is not there yet.", WRITE, form=_register, again=_register_again,
        refill=_refilled, needs=_may_register,
    ),
)  # fmt: skip
"""The catalog's rows of pages."""
SECTIONS: Final[tuple[Section, ...]] = (_annotations,)
"""What it adds to an entity's page."""
