"""Events of the catalog: entities and their annotations.

Each class is one event type, kept in step with its contract in `contracts/catalog/`. What an event means is the
rules' business. An instance is immutable by convention and by `frozen`; lists become tuples, mappings are copied.

Source: docs/concepts.md; the source text's sections on metadata and business metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from ...schemas.errors import Fault, InvalidEventError
from ...schemas.events.base import as_dict, as_tuple, as_urn, text_fault
from ...schemas.events.checks import (
    choice_faults,
    count_faults,
    empty_faults,
    foreign_faults,
    keys_faults,
    optional_text_faults,
    plain_choice,
    plain_keys,
    plain_properties,
    properties_faults,
    reserved_faults,
    scope_faults,
    urn_faults,
)
from ...schemas.limits import MAX_ENTRIES
from ...schemas.urn import Urn

USER: Final = "USER"
SYSTEM: Final = "SYSTEM"
BOTH: Final = "BOTH"

_set = object.__setattr__


class SchemaField(NamedTuple):
    """One field of a schema that is given as a list."""

    name: str
    type: str


Schema: TypeAlias = "str | Iterable[tuple[str, str]]"
"""Avro JSON text, kept also where it cannot be parsed, or (name, type) pairs."""


@dataclass(frozen=True, slots=True, init=False)
class CatalogEvent:
    """What the catalog's events share: the one entity they are about."""

    TYPE: ClassVar[str] = ""

    entity: Urn

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The entity alone. Raises: InvalidEventError: the entity is no URN."""
        entity = self.entity
        return (entity,) if type(entity) is Urn else (self._urn(),)

    @property
    def aggregate(self) -> Urn:
        """The entity's aggregate. Raises: InvalidEventError: the entity is no URN."""
        return self._urn().aggregate

    def _urn(self) -> Urn:
        if type(self.entity) is not Urn:
            raise InvalidEventError(urn_faults("entity", self.entity))
        return self.entity

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field (`tags[2]`, `properties['k']`); empty for a valid one."""
        return urn_faults("entity", self.entity)


@dataclass(frozen=True, slots=True, init=False)
class EntityRegistered(CatalogEvent):
    """An entity exists; registering again updates it. Its properties and tags are added in scope USER."""

    TYPE: ClassVar[str] = "catalog.EntityRegistered.1"
    NESTED: ClassVar[Mapping[str, type[Any]]] = {"metajournal.catalog.v1.SchemaField": SchemaField}

    description: str | None
    schema: str | tuple[SchemaField, ...] | None
    properties: dict[str, str]
    tags: tuple[str, ...]

    def __init__(
        self,
        entity: Urn | str,
        description: str | None = None,
        schema: Schema | None = None,
        properties: Mapping[str, str] | None = None,
        tags: Iterable[str] = (),
    ) -> None:
        _set(self, "entity", as_urn(entity))
        _set(self, "description", description)
        _set(self, "schema", schema if schema is None or isinstance(schema, str) else _as_fields(schema))
        _set(self, "properties", {} if properties is None else as_dict(properties))
        _set(self, "tags", as_tuple(tags))

    @classmethod
    def from_wire(
        cls,
        entity: str,
        description: str | None,
        schema_text: str | None,
        schema_fields: tuple[SchemaField, ...] | None,
        properties: dict[str, str],
        tags: tuple[str, ...],
    ) -> EntityRegistered:
        """The event from its contract's fields behind the header, in their order (other classes take them as given)."""
        return cls(entity, description, schema_fields if schema_text is None else schema_text, properties, tags)

    @property
    def schema_text(self) -> str | None:
        """The schema where it is Avro JSON text (its form on the wire)."""
        return self.schema if isinstance(self.schema, str) else None

    @property
    def schema_fields(self) -> tuple[SchemaField, ...] | None:
        """The schema where it is a list of fields (its form on the wire)."""
        return None if isinstance(self.schema, str) else self.schema

    def validate(self) -> list[Fault]:
        if self._plain():
            return []
        faults = urn_faults("entity", self.entity) + foreign_faults(self.entity)
        faults += optional_text_faults("description", self.description) + _schema_faults(self.schema)
        return faults + properties_faults("properties", self.properties) + keys_faults("tags", self.tags)

    def _plain(self) -> bool:
        return (
            type(self.entity) is Urn
            and self.entity.domain == "catalog"
            and (self.description is None or (isinstance(self.description, str) and self.description.isascii()))
            and (self.schema is None or (isinstance(self.schema, str) and self.schema.isascii()))
            and plain_properties(self.properties)
            and plain_keys(self.tags)
        )


@dataclass(frozen=True, slots=True, init=False)
class EntityDeleted(CatalogEvent):
    """An entity is gone, and its annotations with it; an app takes its programs along."""

    TYPE: ClassVar[str] = "catalog.EntityDeleted.1"

    def __init__(self, entity: Urn | str) -> None:
        _set(self, "entity", as_urn(entity))

    def validate(self) -> list[Fault]:
        if type(self.entity) is Urn and self.entity.domain == "catalog":
            return []
        return urn_faults("entity", self.entity) + foreign_faults(self.entity)


@dataclass(frozen=True, slots=True, init=False)
class PropertiesSet(CatalogEvent):
    """Properties of one scope are added, or updated where the key exists."""

    TYPE: ClassVar[str] = "catalog.PropertiesSet.1"

    properties: dict[str, str]
    scope: str

    def __init__(self, entity: Urn | str, properties: Mapping[str, str], scope: str = USER) -> None:
        _set(self, "entity", as_urn(entity))
        _set(self, "properties", as_dict(properties))
        _set(self, "scope", scope)

    def validate(self) -> list[Fault]:
        if type(self.entity) is Urn and self.scope == USER and self.properties and plain_properties(self.properties):
            return []
        faults = urn_faults("entity", self.entity) + scope_faults(self.scope)
        faults += properties_faults("properties", self.properties) + empty_faults("properties", self.properties)
        return faults + reserved_faults("properties", self.properties, self.scope)


@dataclass(frozen=True, slots=True, init=False)
class PropertiesReplaced(CatalogEvent):
    """Replaces all properties of one scope; properties that the fold itself maintains in SYSTEM stay."""

    TYPE: ClassVar[str] = "catalog.PropertiesReplaced.1"

    properties: dict[str, str]
    scope: str

    def __init__(self, entity: Urn | str, properties: Mapping[str, str], scope: str = USER) -> None:
        _set(self, "entity", as_urn(entity))
        _set(self, "properties", as_dict(properties))
        _set(self, "scope", scope)

    def validate(self) -> list[Fault]:
        faults = urn_faults("entity", self.entity) + scope_faults(self.scope)
        faults += properties_faults("properties", self.properties)
        return faults + reserved_faults("properties", self.properties, self.scope)


@dataclass(frozen=True, slots=True, init=False)
class PropertiesRemoved(CatalogEvent):
    """The named properties of one scope are gone, or all of them."""

    TYPE: ClassVar[str] = "catalog.PropertiesRemoved.1"

    keys: tuple[str, ...]
    all: bool
    scope: str

    def __init__(
        self,
        entity: Urn | str,
        keys: Iterable[str] = (),
        all: bool = False,  # noqa: A002  (the domain's word)
        scope: str = USER,
    ) -> None:
        _set(self, "entity", as_urn(entity))
        _set(self, "keys", as_tuple(keys))
        _set(self, "all", all)
        _set(self, "scope", scope)

    def validate(self) -> list[Fault]:
        if type(self.entity) is Urn and self.scope == USER and plain_choice(self.keys, self.all):
            return []
        faults = urn_faults("entity", self.entity) + scope_faults(self.scope) + keys_faults("keys", self.keys)
        return faults + choice_faults("keys", self.keys, self.all) + reserved_faults("keys", self.keys, self.scope)


@dataclass(frozen=True, slots=True, init=False)
class TagsAdded(CatalogEvent):
    """Tags of one scope are added; those that are there already change nothing."""

    TYPE: ClassVar[str] = "catalog.TagsAdded.1"

    tags: tuple[str, ...]
    scope: str

    def __init__(self, entity: Urn | str, tags: Iterable[str], scope: str = USER) -> None:
        _set(self, "entity", as_urn(entity))
        _set(self, "tags", as_tuple(tags))
        _set(self, "scope", scope)

    def validate(self) -> list[Fault]:
        if type(self.entity) is Urn and self.scope == USER and self.tags and plain_keys(self.tags):
            return []
        faults = urn_faults("entity", self.entity) + scope_faults(self.scope)
        return faults + keys_faults("tags", self.tags) + empty_faults("tags", self.tags)


@dataclass(frozen=True, slots=True, init=False)
class TagsRemoved(CatalogEvent):
    """The named tags of one scope are gone, or all of them."""

    TYPE: ClassVar[str] = "catalog.TagsRemoved.1"

    tags: tuple[str, ...]
    all: bool
    scope: str

    def __init__(
        self,
        entity: Urn | str,
        tags: Iterable[str] = (),
        all: bool = False,  # noqa: A002
        scope: str = USER,
    ) -> None:
        _set(self, "entity", as_urn(entity))
        _set(self, "tags", as_tuple(tags))
        _set(self, "all", all)
        _set(self, "scope", scope)

    def validate(self) -> list[Fault]:
        if type(self.entity) is Urn and self.scope == USER and plain_choice(self.tags, self.all):
            return []
        faults = urn_faults("entity", self.entity) + scope_faults(self.scope) + keys_faults("tags", self.tags)
        return faults + choice_faults("tags", self.tags, self.all)


@dataclass(frozen=True, slots=True, init=False)
class MetadataCleared(CatalogEvent):
    """All properties and tags of one scope are gone, or of both."""

    TYPE: ClassVar[str] = "catalog.MetadataCleared.1"

    scope: str

    def __init__(self, entity: Urn | str, scope: str = USER) -> None:
        _set(self, "entity", as_urn(entity))
        _set(self, "scope", scope)

    def validate(self) -> list[Fault]:
        faults = urn_faults("entity", self.entity)
        if self.scope != BOTH:
            faults += scope_faults(self.scope, both=True)
        return faults


EVENTS: Final[tuple[type[CatalogEvent], ...]] = (
    EntityRegistered,
    EntityDeleted,
    PropertiesSet,
    PropertiesRemoved,
    TagsAdded,
    TagsRemoved,
    MetadataCleared,
    PropertiesReplaced,
)


def _as_fields(schema: Any) -> Any:
    """(name, type) pairs as fields; what is no pair stays, for `validate` to name."""
    if not isinstance(schema, Iterable) or isinstance(schema, bytes | Mapping):
        return schema
    return tuple(SchemaField(*pair) if _is_pair(pair) else pair for pair in schema)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _schema_faults(schema: Any) -> list[Fault]:
    if schema is None or isinstance(schema, str):
        return optional_text_faults("schema", schema)
    if not isinstance(schema, tuple):
        return [Fault("schema", f"must be text or a list of (name, type) pairs, not {type(schema).__name__}")]
    faults = count_faults("schema", len(schema))
    for index, field in enumerate(schema[:MAX_ENTRIES]):
        faults += _field_faults(f"schema[{index}]", field)
    return faults


def _field_faults(at: str, field: Any) -> list[Fault]:
    if not isinstance(field, SchemaField):
        return [Fault(at, "must be a pair (name, type)")]
    whys = ((name, text_fault(value, empty=False)) for name, value in zip(field._fields, field, strict=True))
    return [Fault(f"{at}.{name}", why) for name, why in whys if why is not None]
