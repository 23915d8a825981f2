"""The catalog over HTTP: the source's metadata endpoints in their four forms, search by namespace, and registration.

Source: the source text's section "REST APIs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...indexer.search.in_steps import Searching, in_steps
from ...schemas.endpoints import DELETE, READ, SYSTEM, WRITE, Answer, Endpoint, Need, Parameter, Request, number
from ...schemas.errors import InvalidUrnError
from ...schemas.hashing import canonical_json, digest
from ...schemas.shapes import METADATA, RECORDED
from ...schemas.urn import Urn
from ...values import metadata_json, moment, point
from .domain import PROGRAM_TYPES
from .events import (
    BOTH,
    USER,
    CatalogEvent,
    EntityDeleted,
    EntityRegistered,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesReplaced,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
)
from .urns import app, dataset, program, stream

if TYPE_CHECKING:
    from ...rules.entity import EntityRow

NAMESPACE: Final = "/v3/namespaces/{ns}"
TYPES: Final[Mapping[str, str]] = {
    word: one for one in PROGRAM_TYPES for word in (one, one + ("" if one.endswith("s") else "s"))
}
"""How a program's type is written, singular or plural."""
_TARGETS: Final = ("app", "program", "dataset", "stream")
_PROGRAM: Final = "latest_write_program"
"""A computed property that names another entity."""
_WRITTEN: Final = "latest_write_time"
"""When that wrote."""
_PAGE: Final = 1_000
_POINTS: Final[Mapping[str, Callable[[str], Any]]] = {"as_at": point, "as_of": moment}


@dataclass(frozen=True)
class Form:
    """One way to name an entity in a path.

    Args:
        path: the template.
        what: what it names.
        urn: its URN, from the parts.
        words: what a part is one of.
    """

    path: str
    what: str
    urn: Callable[[Mapping[str, str]], Urn]
    words: Mapping[str, Mapping[str, str]]


DATASET: Final = Form(
    f"{NAMESPACE}/datasets/{{d}}", "a dataset", lambda parts: dataset(parts["ns"], parts["d"]), {}
)  # fmt: skip
APP: Final = Form(f"{NAMESPACE}/apps/{{a}}", "an app", lambda parts: app(parts["ns"], parts["a"]), {})
PROGRAM: Final = Form(
    f"{NAMESPACE}/apps/{{a}}/{{type}}/{{p}}", "a program",
    lambda parts: program(parts["ns"], parts["a"], parts["type"], parts["p"]), {"type": TYPES},
)  # fmt: skip
STREAM: Final = Form(f"{NAMESPACE}/streams/{{s}}", "a stream", lambda parts: stream(parts["ns"], parts["s"]), {})
STREAM_READ: Final = Form(f"{NAMESPACE}/stream/{{s}}", STREAM.what, STREAM.urn, {})
FORMS: Final = (DATASET, APP, PROGRAM, STREAM)


class _Searching(Protocol):
    """What searches, and what computes metadata of scope SYSTEM."""

    @property
    def search(self) -> Searching: ...

    def metadata(self, entity: Urn, scope: str, **asked: Any) -> Any: ...


@dataclass(frozen=True)
class Registration:
    """The body of a registration."""

    description: str | None = None
    schema: str | list[tuple[str, str]] | None = None
    properties: dict[str, str] | None = None
    tags: list[str] | None = None


def _set_properties(request: Request) -> PropertiesSet:
    return PropertiesSet(request.entity, request.body)


def _add_tags(request: Request) -> TagsAdded:
    return TagsAdded(request.entity, request.body)


def _remove_properties(request: Request) -> PropertiesRemoved:
    return PropertiesRemoved(request.entity, all=True)


def _remove_property(request: Request) -> PropertiesRemoved:
    return PropertiesRemoved(request.entity, [request.parts["key"]])


def _remove_tags(request: Request) -> TagsRemoved:
    return TagsRemoved(request.entity, all=True)


def _remove_tag(request: Request) -> TagsRemoved:
    return TagsRemoved(request.entity, [request.parts["tag"]])


def _clear(request: Request) -> MetadataCleared:
    return MetadataCleared(request.entity, USER)


def _register(request: Request) -> EntityRegistered:
    given = request.body or Registration()
    return EntityRegistered(request.entity, given.description, given.schema, given.properties, given.tags or ())


def _delete(request: Request) -> EntityDeleted:
    return EntityDeleted(request.entity)


def _properties(row: EntityRow, request: Request, journal: Any) -> Answer:
    return Answer(dict(row.user_properties))


def _tags(row: EntityRow, request: Request, journal: Any) -> Answer:
    return Answer(list(row.user_tags))


def _metadata(row: EntityRow, request: Request, journal: Any) -> Answer:
    return Answer(metadata_json(row.user_properties, row.user_tags))


def _system(journal: _Searching, request: Request) -> Answer:
    """Properties of scope SYSTEM, with the latest write, which comes without an event about the entity itself.

    Who may not read the program that wrote is told neither its name nor when it did.
    """
    found = journal.metadata(
        request.entity, "SYSTEM", tenant=request.tenant, at_least=request.at_least or None,
        **{name: read(request.query[name]) for name, read in _POINTS.items() if name in request.query},
    )  # fmt: skip
    named = {key: found.properties[key] for key in sorted(found.properties)}
    if not _may_be_named(named.get(_PROGRAM), request):
        named = {key: value for key, value in named.items() if key not in (_PROGRAM, _WRITTEN)}
    return Answer(named, etag=digest(canonical_json(named)).hex(), weak=True)


def _may_be_named(value: str | None, request: Request) -> bool:
    """Whether a value may be read: one that is no URN is somebody's own words, since the name is anybody's."""
    try:
        return value is None or request.may(READ, Urn.parse(value))
    except InvalidUrnError:
        return True


def _search(journal: _Searching, request: Request) -> Answer:
    """Names of entities, best first, each once."""
    target = request.choice("target", ("all", *_TARGETS), "all")
    parts = in_steps(
        journal.search, request.query.get("query", ""), namespace=request.parts["ns"], tenant=request.tenant,
        kinds=list(_TARGETS) if target == "all" else [target], at_least=request.at_least or None,
        limit=request.whole("limit", _PAGE, _PAGE), cursor=request.query.get("cursor"), within=request.within,
    )  # fmt: skip
    names: dict[str, None] = {}
    following = None
    for part in parts:
        names |= dict.fromkeys(hit.name for hit in part.hits)
        following = part.cursor
    return Answer([*names], next=None if following is None else {"cursor": following})


def _may_search(request: Request) -> Sequence[Need]:
    return (Need(READ),)


_AS_AT: Final = Parameter(
    "as_at", "What the journal had recorded by a position, several of them, or a time.", read=point
)
_AS_OF: Final = Parameter("as_of", "What was true at a time, whenever it was recorded.", read=moment)
_THEN: Final = (_AS_AT, _AS_OF)


def _writes(form: Form) -> tuple[Endpoint, ...]:
    """The rows of a form that write."""
    rows: tuple[tuple[str, str, str, Callable[[Request], CatalogEvent], Any], ...] = (
        ("POST", "/metadata/properties", "Set properties of", _set_properties, dict[str, str]),
        ("POST", "/metadata/tags", "Add tags to", _add_tags, list[str]),
        ("DELETE", "/metadata/properties", "Remove all properties of", _remove_properties, None),
        ("DELETE", "/metadata/properties/{key}", "Remove a property of", _remove_property, None),
        ("DELETE", "/metadata/tags", "Remove all tags of", _remove_tags, None),
        ("DELETE", "/metadata/tags/{tag}", "Remove a tag of", _remove_tag, None),
        ("DELETE", "/metadata", "Remove all properties and tags of", _clear, None),
    )
    return tuple(
        Endpoint(
            method, form.path + path, f"{about} {form.what}, in scope USER.", WRITE, event=event, body=body,
            urn=form.urn, words=form.words, answer=RECORDED,
        )
        for method, path, about, event, body in rows
    )  # fmt: skip


def _reads(form: Form) -> tuple[Endpoint, ...]:
    """The rows of a form that read."""
    rows: tuple[tuple[str, str, Callable[[EntityRow, Request, Any], Answer], Any], ...] = (
        ("/metadata/properties", "Properties of", _properties, dict[str, str]),
        ("/metadata/tags", "Tags of", _tags, list[str]),
        ("/metadata", "Properties and tags of", _metadata, METADATA),
    )
    of_row = tuple(
        Endpoint(
            "GET", form.path + path, f"{about} {form.what}, of scope USER.", row=row, urn=form.urn, words=form.words,
            answer=answer, query=_THEN,
        )
        for path, about, row, answer in rows
    )  # fmt: skip
    system = Endpoint(
        "GET", f"{form.path}/metadata/properties/system", f"Properties of {form.what}, of scope SYSTEM.", read=_system,
        urn=form.urn, words=form.words, answer=dict[str, str], query=_THEN, is_fresh=True,
    )  # fmt: skip
    return (*of_row, system)


ENDPOINTS: Final = (
    *(row for form in FORMS for row in (*_writes(form), *_reads(form))),
    *_reads(STREAM_READ),
    Endpoint(
        "GET", f"{NAMESPACE}/metadata/search", "Names of entities in a namespace that match a query, best first.",
        read=_search, needs=_may_search, answer=list[str], waits_itself=True,
        query=(
            Parameter("query", "As /api/v1/search has it."),
            Parameter("target", "app, program, dataset or stream; all of them if omitted."),
            number("limit", "Most entities of a page.", _PAGE),
            Parameter("cursor", "Of the page before."),
        ),
    ),
    Endpoint(
        "POST", "/api/v1/entities/{urn}", "Register an entity, or update it.", WRITE, event=_register, creates=True,
        body=Registration, optional_body=True, answer=RECORDED, created=201,
    ),
    Endpoint("DELETE", "/api/v1/entities/{urn}", "Delete an entity.", DELETE, event=_delete, answer=RECORDED),
)  # fmt: skip
"""The catalog's rows."""


def _write_need(event: Any) -> Sequence[Need]:
    return tuple(Need(WRITE, entity) for entity in event.entities)


def _delete_need(event: Any) -> Sequence[Need]:
    return tuple(Need(DELETE, entity) for entity in event.entities)


def _scope_need(event: Any) -> Sequence[Need]:
    """Annotations of scope SYSTEM need a right of their own, those of both scopes both."""
    actions = {USER: (WRITE,), BOTH: (WRITE, SYSTEM)}.get(event.scope, (SYSTEM,))
    return tuple(Need(action, entity) for entity in event.entities for action in actions)


NEEDS: Final[Mapping[str, Callable[[Any], Sequence[Need]]]] = {
    EntityRegistered.TYPE: _write_need,
    EntityDeleted.TYPE: _delete_need,
    **{
        kind.TYPE: _scope_need
        for kind in (PropertiesSet, PropertiesRemoved, PropertiesReplaced, TagsAdded, TagsRemoved, MetadataCleared)
    },
}
"""The rights that the catalog's events need."""
