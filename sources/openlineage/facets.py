"""The facets of a dataset or job, collected event by event; the newest of each facet counts. Pure.

A facet that no event has changes nothing, so earlier metadata from it stays; one with `_deleted` removes it.
Facets that came over HTTP are properties with the same prefix (`domains.lineage.kept`): they and their times stay.
Source: OpenLineage specification 2-0-2, facets of datasets and jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...domains.lineage import kept
from ...domains.lineage.facets import columns_of, description_of, is_removal, listed, text_of, without_secrets
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

_OF_DATA: Final = {"schema": "schema", "documentation": "description"}
"""The facets that become description and schema of data over HTTP, too."""
_SHARED: Final = frozenset({"storage", "version", "sql"})
"""The facets whose property has their name over HTTP, too."""


@dataclass(frozen=True, slots=True)
class FoundInEvents(Found):
    """A dataset or job that events describe.

    Attributes:
        at_ms: time of what also comes over HTTP at the same key, by facet, milliseconds UTC.
    """

    at_ms: Mapping[str, int] = field(default_factory=dict)

    def beside(self, properties: Mapping[str, str]) -> Found:
        """As `Found.beside`: without what came over HTTP and is as late or later; all that came there stays."""
        keys = {key.removeprefix(kept.PREFIX) for key in properties if key.startswith(kept.PREFIX)}
        late = kept.as_late(properties, self.at_ms)
        return replace(
            self,
            description=None if "documentation" in late else self.description,
            schema=None if "schema" in late else self.schema,
            properties={key: value for key, value in self.properties.items() if key not in late},
            keeps=self.keeps | {_OF_DATA[name] for name in late & _OF_DATA.keys()},
            leaves=frozenset({key for key in keys if not _is_own(key)} | (late & _SHARED)),
        )


_OWN: Final = frozenset(key for keys in _SAYS.values() for key in keys) - {"schema", "description", "tags"}


def _is_own(key: str) -> bool:
    """Whether a property is what files of events say."""
    return key in _OWN or any(key.startswith(name[:-1]) for name in _OWN if name.endswith("*"))


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

    def add(self, facets: Mapping[str, Any], at_ms: int) -> None:
        """Take the facets of an event in, by their names."""
        for name, facet in facets.items():
            if name in _SAYS and self._newest.get(name, (at_ms, None))[0] <= at_ms:
                self._newest[name] = at_ms, facet

    @property
    def _shared(self) -> set[str]:
        return {*_SHARED} if self._is_job else {*_SHARED, *_OF_DATA}

    def found(self) -> Found:
        """The entity."""
        facets = {name: facet for name, (_, facet) in self._newest.items() if not is_removal(facet)}
        silent = {key for name, keys in _SAYS.items() if name not in self._newest for key in keys}
        spoken = {key for name in self._newest for key in _SAYS[name]}
        fields = list(columns_of(facets.get("schema")))
        properties = dict(_properties(facets, fields))
        if self._is_job:
            properties.setdefault("type", "job")
        return FoundInEvents(
            self._entity,
            description_of(facets.get("documentation")),
            tuple((name, kind) for name, kind, _ in fields) or None,
            properties,
            tuple(sorted(_tags(facets))),
            columns=dict(_column_lineage(facets.get("columnLineage"))),
            keeps=frozenset(silent - spoken),
            at_ms={name: self._newest[name][0] for name in self._newest.keys() & self._shared},
        )


def _properties(
    facets: Mapping[str, Mapping[str, Any]], fields: Sequence[tuple[str, str, str]]
) -> Iterator[tuple[str, str]]:
    plain = {
        "owner": ", ".join(text_of(owner, "name") for owner in listed(facets.get("ownership"), "owners")),
        "source": text_of(facets.get("dataSource"), "name"),
        "uri": without_secrets(text_of(facets.get("dataSource"), "uri")),
        "type": text_of(facets.get("datasetType"), "datasetType") or text_of(facets.get("jobType"), "jobType"),
        "subtype": text_of(facets.get("datasetType"), "subType"),
        "storage": text_of(facets.get("storage"), "storageLayer"),
        "format": text_of(facets.get("storage"), "fileFormat"),
        "version": text_of(facets.get("version"), "datasetVersion"),
        "sql": text_of(facets.get("sql"), "query").strip(),
        "integration": text_of(facets.get("jobType"), "integration"),
        "processing": text_of(facets.get("jobType"), "processingType"),
        "code": without_secrets(text_of(facets.get("sourceCodeLocation"), "url")),
    }
    yield from ((key, value) for key, value in plain.items() if value.strip(", "))
    yield from ((f"comment.{name}", comment) for name, _, comment in fields if comment)
    by_field: dict[str, list[str]] = {}
    for tag in listed(facets.get("tags"), "tags"):
        if field := text_of(tag, "field"):
            by_field.setdefault(field, []).append(_tag(tag))
    yield from ((f"tags.{field}", ", ".join(sorted(filter(None, tags)))) for field, tags in by_field.items())


def _tags(facets: Mapping[str, Mapping[str, Any]]) -> set[str]:
    tags = (tag for tag in listed(facets.get("tags"), "tags") if not text_of(tag, "field"))
    return {text for tag in tags if (text := _tag(tag))}


def _tag(tag: Any) -> str:
    """`key`, or `key:value` where the value says more than that it is there."""
    key, value = text_of(tag, "key"), text_of(tag, "value")
    return key if not value or value.lower() in ("true", key.lower()) else f"{key}:{value}" if key else ""


def _column_lineage(facet: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    fields = facet.get("fields") if isinstance(facet, Mapping) else None
    for name, of in fields.items() if isinstance(fields, Mapping) else ():
        columns = {
            f"{text_of(column, 'name')}.{text_of(column, 'field')}"
            for column in listed(of, "inputFields")
            if text_of(column, "name") and text_of(column, "field")
        }
        if columns and isinstance(name, str):
            yield name, tuple(sorted(columns))
