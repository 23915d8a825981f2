"""The nodes of a manifest as data: their URNs, what each reads, and the results of tests. Pure.

A model that dbt writes nothing for (ephemeral) is not data; its readers count as reading what it reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...domains.catalog.naming import TWO_PARTS, data, table_name
from ...schemas.errors import InvalidUrnError
from ...schemas.hashing import canonical_json
from ...schemas.urn import Urn
from ..found import Problem
from .artifacts import mapping, text_of, texts_of

RELATIONS: Final = ("model", "seed", "snapshot", "source")
"""Resource types that are tables and views of the database."""
_EPHEMERAL: Final = "ephemeral"

Node = Mapping[str, Any]


class Relations:
    """The nodes of a manifest that are data of the database.

    Args:
        namespace: of the database.
        adapter: dbt's name for the kind of database.
    """

    def __init__(self, manifest: Mapping[str, Any], namespace: str, adapter: str) -> None:
        self._namespace = namespace
        self._two_parts = adapter in TWO_PARTS
        every = {**mapping(manifest, "nodes"), **mapping(manifest, "sources")}
        self.nodes: dict[str, Node] = {name: node for name, node in every.items() if isinstance(node, Mapping)}
        self.urns: dict[str, Urn] = {}
        self.problems: list[Problem] = []
        for name, node in self.nodes.items():
            if node.get("resource_type") in RELATIONS and not _is_ephemeral(node):
                self._add(name, node)

    def _add(self, name: str, node: Node) -> None:
        try:
            self.urns[name] = data(self._namespace, self._name(node))
        except InvalidUrnError as error:
            self.problems.append(Problem(name[:200], error.message))

    def _name(self, node: Node) -> str:
        own = text_of(node.get("identifier")) or text_of(node.get("alias")) or text_of(node.get("name"))
        return table_name(self.schema_name(node), own) if own else ""

    def schema_name(self, node: Node) -> str:
        """The schema of a node with its database, as lineage names it."""
        database = None if self._two_parts else text_of(node.get("database"))
        return table_name(database, text_of(node.get("schema")))

    @property
    def schemas(self) -> frozenset[str]:
        """The schemas of all data, with their database."""
        return frozenset(self.schema_name(self.nodes[name]) for name in self.urns)

    def upstreams(self, name: str) -> frozenset[Urn]:
        """The data that a node reads."""
        made: set[Urn] = set()
        seen, left = {name}, list(_depends_on(self.nodes.get(name)))
        while left:
            upstream = left.pop()
            if upstream in seen:
                continue
            seen.add(upstream)
            if upstream in self.urns:
                made.add(self.urns[upstream])
            elif upstream in self.nodes and _is_ephemeral(self.nodes[upstream]):
                left += _depends_on(self.nodes[upstream])
        return frozenset(made - {self.urns.get(name)})

    def tested(self, test: Node) -> list[str]:
        """The nodes that a test is about: the one it is attached to, else those that it reads."""
        attached = text_of(test.get("attached_node"))
        reads = [name for name in _depends_on(test) if name in self.urns]
        if attached:
            return [attached] if attached in self.urns else []
        key = text_of(test.get("file_key_name")).rpartition(".")[2]  # `models.orders`, before manifest 10
        return [name for name in reads if key and self.nodes[name].get("name") == key] or reads


def _is_ephemeral(node: Node) -> bool:
    return mapping(node, "config").get("materialized") == _EPHEMERAL


def _depends_on(node: Node | None) -> list[str]:
    return texts_of(mapping(node, "depends_on").get("nodes"))


def properties_of(node: Node, groups: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A node's own properties, without the prefix."""
    yield "type", text_of(node.get("resource_type"))
    config = mapping(node, "config")
    plain = {
        "id": node.get("unique_id"),
        "materialized": config.get("materialized"),
        "package": node.get("package_name"),
        "path": node.get("original_file_path"),
        "source": node.get("source_name"),
        "loader": node.get("loader"),
        "access": node.get("access"),
        "group": node.get("group"),
        "sql": text_of(node.get("raw_code")).strip() if node.get("resource_type") != "seed" else None,
    }
    yield from ((key, value) for key, value in plain.items() if isinstance(value, str) and value)
    meta = {**mapping(config, "meta"), **mapping(node, "meta")}
    if owner := owner_of(meta, groups.get(text_of(node.get("group")))):
        yield "owner", owner
    for key, value in meta.items():
        if isinstance(key, str) and (text := _shown(value)):
            yield f"meta.{key}", text
    for name, column in _columns(node):
        if description := text_of(column.get("description")).strip():
            yield f"comment.{name}", description
        if tags := tags_of(column):
            yield f"tags.{name}", ", ".join(tags)


def owner_of(meta: Mapping[str, Any], group: Any) -> str:
    """The owner of a node: from its meta, or from its group."""
    for owner in (meta.get("owner"), mapping(group, "owner")):
        if isinstance(owner, Mapping):
            parts = [*texts_of(owner.get("name")), *texts_of(owner.get("email"))]
            if parts:
                return ", ".join(parts)
        elif texts_of(owner):
            return ", ".join(texts_of(owner))
    return ""


def tags_of(node: Node) -> tuple[str, ...]:
    """The tags of a node or a column, in their order."""
    return tuple(sorted({*texts_of(node.get("tags")), *texts_of(mapping(node, "config").get("tags"))}))


def description_of(node: Node) -> str | None:
    """What a node is, in words; a source without its own has that of its group of sources."""
    return text_of(node.get("description")).strip() or text_of(node.get("source_description")).strip() or None


def schema_of(node: Node, cataloged: Node | None) -> tuple[tuple[str, str], ...] | None:
    """The columns with types: as the database has them, else as the project declares them; None: not all are known."""
    if cataloged is not None:
        columns = [column for column in mapping(cataloged, "columns").values() if isinstance(column, Mapping)]
        columns.sort(key=lambda column: index if isinstance(index := column.get("index"), int) else 0)
        named = [(text_of(column.get("name")), text_of(column.get("type")).lower()) for column in columns]
    else:
        named = [(name, text_of(column.get("data_type")).lower()) for name, column in _columns(node)]
        if not all(kind for _, kind in named):
            return None
    return tuple((name, kind or "unknown") for name, kind in named if name) or None


def _columns(node: Node) -> Iterator[tuple[str, Node]]:
    for key, column in mapping(node, "columns").items():
        if isinstance(column, Mapping) and (name := text_of(column.get("name")) or text_of(key)):
            yield name, column


def _shown(value: Any) -> str:
    """A value of meta as text; what has none is left out."""
    if isinstance(value, str):
        return value
    if value is None or value in ([], {}):
        return ""
    try:
        return canonical_json(value).decode()
    except (TypeError, ValueError):
        return json.dumps(value, sort_keys=True)
