"""The index: its settings, its mapping, and the alias that searches use.

Core analysis only, because `terms` has split every word before: keyword fields and text fields on the built-in
`whitespace` analyzer, so one mapping serves the test server, 8.19 and 9.x. `dynamic: strict` makes a field that this
page does not declare an error. The alias `<index>` points to a concrete index `<index>-000001`, so a rebuild can swap
it in one step. `_meta` names the mapping's version and digest: a package with another mapping says so and stops.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final

from elasticsearch import ApiError, Elasticsearch

from .connection import url_of
from .errors import AliasReplacedError, IndexMissingError, MappingMismatchError

MAPPING_VERSION: Final = 6
"""Raised with every change of the mapping or of what `documents` writes; an index of another version is rebuilt."""

SEARCHED_DIGESTS: Final = frozenset({"0012ad20e52629f2", "d8df9e9566ba936e", "4bfb2f830ac233cd"})
"""Of earlier mappings that searches take as they are until the indexer has rebuilt the index. In version 3 texts have
no lengths and descriptions stand among the other values, so that the order is coarser. Both 3 and 4 lack the fields
for words of tags and values together, so that typing errors in these are not found, and those of texts like `\u2122x`,
which begin with what is no word of theirs, so that `tm*` does not find them. All three find repositories by their
default branches too, without a reason. All other hits are the same."""

POSITIONS_ID: Final = "positions"
"""`_id` of the document that says how far the index shows the journal; no entity's `_id` (32 hex digits) is equal."""

REBUILD_ID: Final = "rebuild"
"""`_id` of the document that says how far a rebuild of this index is; it is gone when the index is in use."""

KEPT_IDS: Final = frozenset({POSITIONS_ID, REBUILD_ID})
"""Documents that are no entity's."""

LONGEST_PATTERN: Final = 32_766
"""Characters of a pattern that the index takes: as many as its longest term has bytes."""

_KEYWORD: Final = {"type": "keyword"}
_FILTER: Final = {"type": "keyword", "doc_values": False}
_WORDS: Final = {"type": "text", "analyzer": "whitespace", "norms": False}
_RANKED: Final = {"type": "text", "analyzer": "whitespace"}
"""Words that say how well a hit fits: with lengths (norms), one byte a document and field."""
_NEAR: Final = {"type": "text", "analyzer": "whitespace", "norms": False, "index_options": "docs"}
"""Words of several fields, for those that resemble one: what finds them is built once for all."""
_STORED: Final = {"type": "object", "enabled": False}

_SCOPE: Final[dict[str, Any]] = {
    "tags": _KEYWORD,
    "tag_words": _RANKED | {"copy_to": "near_tag_words"},
    "tag_facet": _KEYWORD,
    "keys": _KEYWORD,
    "hashed_keys": _KEYWORD,
    "suggest_key": _KEYWORD,
    "pairs": _FILTER,
    "pair_words": _WORDS,
    "whole": _FILTER,
    "odd_whole": _FILTER,
    "words": _RANKED | {"copy_to": "near_words"},
}
_SYSTEM: Final[dict[str, Any]] = {
    "description_words": _RANKED,
    "fields": _FILTER,
    "field_words": _RANKED | {"copy_to": "near_words"},
    "typed": _FILTER,
    "typed_words": _WORDS,
}

PROPERTIES: Final[dict[str, Any]] = {
    "tenant": _KEYWORD,
    "urn": _KEYWORD,
    "kind": _KEYWORD,
    "namespace": _KEYWORD,
    "name": _KEYWORD,
    "name_words": _RANKED,
    "name_length": {"type": "short", "index": False},
    "odd_name": _FILTER,
    "identity": _FILTER,
    "odd_identity": _FILTER,
    "identity_words": _RANKED,
    "near_tag_words": _NEAR,
    "near_words": _NEAR,
    "suggest_name": _KEYWORD,
    "tag_facet": _KEYWORD,
    "created": {"type": "long"},
    "logical_timestamp": {"type": "long"},
    "deleted": {"type": "boolean"},
    "unindexed": {"type": "boolean"},
    "user": {"properties": _SCOPE},
    "system": {"properties": _SCOPE | _SYSTEM},
    "entity": _STORED,
    "positions": _STORED,
}


def mapping_digest() -> str:
    """Digest of the mapping and its version."""
    text = json.dumps([MAPPING_VERSION, PROPERTIES], sort_keys=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def index_body() -> dict[str, Any]:
    """Settings and mappings of a new index."""
    return {
        "settings": {
            "index": {
                "refresh_interval": "-1",
                "number_of_shards": 1,
                "auto_expand_replicas": "0-1",
                "max_regex_length": LONGEST_PATTERN,
            }
        },
        "mappings": {
            "dynamic": "strict",
            "_meta": {"metajournal": {"version": MAPPING_VERSION, "digest": mapping_digest()}},
            "_source": {"includes": ["entity", "positions"]},  # terms are derived; hits show the entity
            "properties": PROPERTIES,
        },
    }


def concrete_name(alias: str, number: int = 1) -> str:
    """Name of the n-th index behind an alias."""
    return f"{alias}-{number:06d}"


def is_concrete(name: str, alias: str) -> bool:
    """Whether a name is that of an index behind an alias, now or once."""
    number = name.removeprefix(f"{alias}-")
    return number != name and number.isascii() and number.isdecimal()


def own_alias(name: str) -> str:
    """The alias that belongs to one concrete index for ever, and that only its indexer uses.

    A write to it goes to that index or nowhere: it neither follows a swap nor makes an index by mistake.
    """
    return f"{name}.own"


def concrete_of(client: Elasticsearch, alias: str) -> str:
    """Name of the index behind an alias now.

    Raises:
        IndexMissingError: there is no such alias.
        AliasReplacedError: an index has that name.
    """
    try:
        name: str = max(client.indices.get_alias(name=alias).body)
    except ApiError as error:
        if error.status_code == 404:
            _refuse_index(client, alias)
            raise IndexMissingError(alias) from error
        raise
    return name


def _refuse_index(client: Elasticsearch, alias: str) -> None:
    """Refuse a name that an index has.

    Raises:
        AliasReplacedError: it has.
    """
    try:
        names = client.indices.get_alias(index=alias).body  # by the indexes' own names, whatever was asked for
    except ApiError as error:
        if error.status_code == 404:
            return
        raise
    if alias in names:
        raise AliasReplacedError(alias, url_of(client))


def ensure_index(client: Elasticsearch, alias: str) -> str:
    """Make the index and its aliases where they are missing; the concrete index's name.

    Raises:
        MappingMismatchError: the alias points to an index with another mapping.
        AliasReplacedError: an index has that name.
    """
    if not client.indices.exists_alias(name=alias):
        try:
            _make(client, alias)
        except ApiError:
            _refuse_index(client, alias)
            if not client.indices.exists_alias(name=alias):  # else a rebuild was faster
                raise
    name = check_mapping(client, alias)
    client.indices.put_alias(index=name, name=own_alias(name))
    return name


def _make(client: Elasticsearch, alias: str) -> None:
    number = 1
    while not _made(client, alias, concrete_name(alias, number)):
        number += 1


def _made(client: Elasticsearch, alias: str, name: str) -> bool:
    """Make an index, or adopt the one of that name; False where a rebuild is filling that, or was killed at it."""
    try:
        client.indices.create(index=name, aliases={alias: {"is_write_index": True}}, **index_body())
    except ApiError as error:
        if error.error != "resource_already_exists_exception":
            raise
        if _is_being_rebuilt(client, name):
            return False
        _adopt(client, alias, name)
    return True


def _is_being_rebuilt(client: Elasticsearch, name: str) -> bool:
    """Whether an index is a rebuild's, which has not put it into use; in its first moment it holds no document."""
    if client.exists(index=name, id=REBUILD_ID):
        return True
    meta = client.indices.get_mapping(index=name).body[name]["mappings"].get("_meta", {}).get("metajournal", {})
    return bool(meta.get("rebuild")) and not client.exists(index=name, id=POSITIONS_ID)


def _adopt(client: Elasticsearch, alias: str, name: str) -> None:
    """Give the alias to an index that was made before and lost it, or that another indexer is making right now."""
    client.indices.put_alias(index=name, name=alias, is_write_index=True)


def check_mapping(client: Elasticsearch, alias: str) -> str:
    """Name of the index behind the alias, once its mapping is known to be this package's.

    Raises:
        IndexMissingError: there is no such alias.
        MappingMismatchError: the mapping is another one.
        AliasReplacedError: an index has that name.
    """
    try:
        mappings = client.indices.get_mapping(index=alias).body
    except ApiError as error:
        if error.status_code == 404:
            raise IndexMissingError(alias) from error
        raise
    name: str = max(mappings)
    if name == alias:
        raise AliasReplacedError(alias, url_of(client))
    meta = mappings[name]["mappings"].get("_meta", {}).get("metajournal", {})
    if meta.get("digest") != mapping_digest():
        raise MappingMismatchError(alias, name, meta.get("version"), MAPPING_VERSION)
    return name
