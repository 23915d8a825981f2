"""The table as OpenAPI 3.1, from the types and shapes that its rows name.

Source: the OpenAPI Specification 3.1.1; JSON Schema 2020-12.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import msgspec

from ..schemas.endpoints import Answer, Endpoint
from .answer_schemas import AnswerSchemas, is_shape
from .routing import URN_PART

_PART: Final = re.compile(r"\{(\w+)\}")
_READS: Final = (400, 401, 403, 404, 406, 421, 429, 500, 503)
_WRITES: Final = (400, 401, 403, 404, 406, 408, 412, 413, 415, 421, 422, 429, 500, 503, 504)
_NEVER_SENDING: Final = (404, 412, 422, 429, 504)
_REF: Final = "#/components/schemas/{name}"
_PROBLEM: Final = {
    "type": "object",
    "required": ["title", "status", "code", "detail", "hint", "request_id"],
    "properties": {
        **{name: {"type": "string"} for name in ("title", "code", "detail", "hint", "request_id")},
        "status": {"type": "integer"},
        "faults": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
_HEADERS_OF_WRITES: Final = {
    "Idempotency-Key": "A UUIDv7 of the last or next 24 hours: a repeated request with it is the same event.",
    "If-Match": "The ETag that the entity must still have.",
    "Prefer": "`respond-async`, or `wait=n` seconds.",
}
_HEADERS_OF_MAKING: Final = {"If-None-Match": "`*`: nothing may be there yet."}
_HEADERS_OF_FEEDS: Final = {"Last-Event-ID": "The id of the last event that was received: the feed resumes behind it."}
_HEADERS_OF_READS: Final = {
    "If-Match": "An ETag; 412 where the answer has another one.",
    "If-None-Match": "An ETag; 304 where the answer still has it.",
    "Metajournal-At-Least": "Positions, separated by commas, that the answer must include.",
}


def _description(journal: Any, request: Any) -> Answer:
    raise NotImplementedError  # the application answers by itself


DESCRIPTION: Final = Endpoint(
    "GET", "/openapi.json", "This description of all addresses.", read=_description, is_public=True,
    answer=dict[str, Any],
)  # fmt: skip


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description of all endpoints."""
    types = list(dict.fromkeys(kind for row in endpoints for kind in (row.body, row.answer) if _is_type(kind)))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = dict(zip(types, schemas, strict=True))
    for schema in components.values():  # those of bodies, which take no other names
        schema["additionalProperties"] = False
    shapes = AnswerSchemas(_REF)
    paths: dict[str, dict[str, Any]] = {}
    for row in endpoints:
        answer = shapes.of(row.answer) if is_shape(row.answer) else by_type.get(row.answer, {})
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, by_type.get(row.body, {}), answer)
    return {
        "openapi": "3.1.0",
        "info": {"title": "metajournal", "version": version("metajournal")},
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM, **shapes.named, **components},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def statuses(endpoint: Endpoint) -> tuple[int, ...]:
    """Every status that an endpoint answers with."""
    if endpoint.is_public:
        return (200, 304, 400, 405, 406, 421, 500)
    if endpoint.event is not None:
        return (*dict.fromkeys((200, endpoint.created, 202)), *_WRITES)
    if endpoint.lines:
        return (200, 202, *_WRITES)
    if endpoint.sends is not None:
        return (200, *(status for status in _WRITES if status not in _NEVER_SENDING))
    if endpoint.feed is not None:
        return (200, *_READS)
    body = (408, 413, 415, 422) if endpoint.body is not None else ()
    return (200, 304, *_READS, 409, 410, 412, *body)


def _operation(row: Endpoint, body: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    headers = _headers(row)
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{row.method.lower()}{row.path}").strip("_"),
        "summary": row.about,
        "parameters": [
            *(_parameter("path", name, None, required=True) for name in _PART.findall(row.path)),
            *(_parameter("query", one.name, one.about, kind=one.type, required=one.required) for one in row.query),
            *(_parameter("header", name, about) for name, about in headers.items()),
        ],
        "responses": {
            str(status): {"description": _said(status), "content": _content(row, status, answer)}
            for status in sorted(statuses(row))
        },
    }
    if row.path.endswith(URN_PART) or row.urn is not None:
        about = "The entity's URN, where its name cannot stand in a path."
        operation["parameters"].append(_parameter("query", "urn", about))
    if row.body is not None:
        contents = {"application/json": {"schema": body}}
        if row.lines:
            contents["application/x-ndjson"] = {"schema": {"type": "string"}}
        operation["requestBody"] = {"required": not row.optional_body, "content": contents}
    if row.is_public:
        operation["security"] = []
    return operation


def _headers(row: Endpoint) -> Mapping[str, str]:
    """The headers of a request that mean something to an endpoint, with what each says."""
    if row.event is not None or row.lines:
        return {**_HEADERS_OF_WRITES, **(_HEADERS_OF_MAKING if row.creates else {})}
    if row.feed is not None:
        return _HEADERS_OF_FEEDS
    return {} if row.is_public or row.sends else _HEADERS_OF_READS


def _content(row: Endpoint, status: int, answer: Mapping[str, Any]) -> dict[str, Any]:
    if status == 304:
        return {}
    if status >= 400:
        return {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}}
    media_type = "application/json" if row.feed is None else "text/event-stream"
    return {media_type: {"schema": answer}}


def _parameter(
    where: str, name: str, about: str | None, *, kind: Any = str, required: bool = False
) -> dict[str, Any]:  # fmt: skip
    schema = {"type": {str: "string", int: "integer", bool: "boolean"}.get(kind, "string")}
    told = {} if about is None else {"description": about}
    return {"name": name, "in": where, "required": required, "schema": schema, **told}


def _said(status: int) -> str:
    from http import HTTPStatus

    return HTTPStatus(status).phrase


def _is_type(kind: Any) -> bool:
    return kind is not None and kind is not Any and not is_shape(kind)
