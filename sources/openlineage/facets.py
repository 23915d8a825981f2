"""The facets of a dataset or job, collected event by event; the newest of each facet counts. Pure.

A facet that no event has changes nothing, so earlier metadata from it stays; one with `_deleted` removes it.
Source: OpenLineage specification 2-0-2, facets of datasets and jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from ...schemas.urn import Urn
from ..found import Found

_SAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "schema": ("schema", "comment.*"),
    "documentation": ("description",),
    "ownership": ("owner",),
    "tags": ("tags", "tags.*"),
    "dataSource": ("source", "uri"),
    "datasetType": ("type", "subtype"),
    "storage": ("storage", "format"),
    "version": ("version",),
    "columnLineage": ("upstream.*",),
    "sql": ("sql",),
    "jobType": ("type", "integration", "processing"),
    "sourceCodeLocation": ("code",),
}
"""The facets that are read, and of what each speaks: keys as `Found.keeps` has them."""


class Facets:
    """What is known about one dataset or job.

    Args:
        entity: its URN.
        is_job: whether it is a job.
    """

    def __init__(self, entity: Urn, *, is_job: bool) -> None:
        self._entity = entity
        self._is_job = is_job
        self._newest: dict[str, tuple[int, Mapping[str, Any]]] = {}

    def add(self, facets: Any, at_ms: int) -> None:
        """Take the facets of an event in."""
        if not isinstance(facets, Mapping):
            return
        for name, facet in facets.items():
            if name in _SAYS and isinstance(facet, Mapping) and self._newest.get(name, (at_ms, None))[0] <= at_ms:
                self._newest[name] = at_ms, facet

    def found(self) -> Found:
        """The entity."""
        facets = {name: facet for name, (_, facet) in self._newest.items() if facet.get("_deleted") is not True}
        silent = {key for name, keys in _SAYS.items() if name not in self._newest for key in keys}
        spoken = {key for name in self._newest for key in _SAYS[name]}
        fields = list(_fields(_listed(facets.get("schema"), "fields")))
        properties = dict(_properties(facets, fields))
        if self._is_job:
            properties.setdefault("type", "job")
        return Found(
            self._entity,
            _text(facets.get("documentation"), "description") or None,
            tuple((name, kind) for name, kind, _ in fields) or None,
            properties,
            tuple(sorted(_tags(facets))),
            columns=dict(_column_lineage(facets.get("columnLineage"))),
            keeps=frozenset(silent - spoken),
        )


def _fields(fields: Sequence[Any], above: str = "") -> Iterator[tuple[str, str, str]]:
    """Name, type and description of each column; of nested ones with those above them: `address.city`."""
    for field in fields:
        if name := _text(field, "name"):
            yield f"{above}{name}", _text(field, "type") or "unknown", _text(field, "description")
            yield from _fields(_listed(field, "fields"), f"{above}{name}.")


def _properties(
    facets: Mapping[str, Mapping[str, Any]], fields: Sequence[tuple[str, str, str]]
) -> Iterator[tuple[str, str]]:
    plain = {
        "owner": ", ".join(_text(owner, "name") for owner in _listed(facets.get("ownership"), "owners")),
        "source": _text(facets.get("dataSource"), "name"),
        "uri": without_secrets(_text(facets.get("dataSource"), "uri")),
        "type": _text(facets.get("datasetType"), "datasetType") or _text(facets.get("jobType"), "jobType"),
        "subtype": _text(facets.get("datasetType"), "subType"),
        "storage": _text(facets.get("storage"), "storageLayer"),
        "format": _text(facets.get("storage"), "fileFormat"),
        "version": _text(facets.get("version"), "datasetVersion"),
        "sql": _text(facets.get("sql"), "query").strip(),
        "integration": _text(facets.get("jobType"), "integration"),
        "processing": _text(facets.get("jobType"), "processingType"),
        "code": without_secrets(_text(facets.get("sourceCodeLocation"), "url")),
    }
    yield from ((key, value) for key, value in plain.items() if value.strip(", "))
    yield from ((f"comment.{name}", comment) for name, _, comment in fields if comment)
    by_field: dict[str, list[str]] = {}
    for tag in _listed(facets.get("tags"), "tags"):
        if field := _text(tag, "field"):
            by_field.setdefault(field, []).append(_tag(tag))
    yield from ((f"tags.{field}", ", ".join(sorted(filter(None, tags)))) for field, tags in by_field.items())


def _tags(facets: Mapping[str, Mapping[str, Any]]) -> set[str]:
    tags = (tag for tag in _listed(facets.get("tags"), "tags") if not _text(tag, "field"))
    return {text for tag in tags if (text := _tag(tag))}


def _tag(tag: Any) -> str:
    """`key`, or `key:value` where the value says more than that it is there."""
    key, value = _text(tag, "key"), _text(tag, "value")
    return key if not value or value.lower() in ("true", key.lower()) else f"{key}:{value}" if key else ""


def _column_lineage(facet: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    fields = facet.get("fields") if isinstance(facet, Mapping) else None
    for name, of in fields.items() if isinstance(fields, Mapping) else ():
        columns = {
            f"{_text(column, 'name')}.{_text(column, 'field')}"
            for column in _listed(of, "inputFields")
            if _text(column, "name") and _text(column, "field")
        }
        if columns and isinstance(name, str):
            yield name, tuple(sorted(columns))


def without_secrets(address: str) -> str:
    """An address without user, password and query, which may contain secrets."""
    try:
        parts = urlsplit(address.removeprefix("jdbc:"))
    except ValueError:
        return ""
    if not parts.netloc:
        return "" if "@" in address or "password" in address.lower() else address
    host = parts.netloc.rpartition("@")[2].partition(";")[0]
    return f"{parts.scheme}://{host}{parts.path.partition(';')[0]}"


def _listed(value: Any, name: str) -> Sequence[Any]:
    listed = value.get(name) if isinstance(value, Mapping) else None
    return listed if isinstance(listed, list) else []


def _text(value: Any, name: str) -> str:
    text = value.get(name) if isinstance(value, Mapping) else None
    return text if isinstance(text, str) else ""
