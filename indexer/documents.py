"""State documents to index documents.

Job: lay an entity's names and metadata open as entries (what a search can match, text by text), and turn them into
the term fields that `mapping` declares and `query` asks. The state document itself is kept whole under `entity`, so a
hit shows what the journal says, not what the terms look like.
Left to others: splitting and folding (terms), which fields there are (mapping), which of them a query asks (query).
Invariant: every entity within the journal's limits gives a document that Elasticsearch takes, and the terms of the
scopes USER and SYSTEM never share a field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

from . import terms
from .schema_fields import schema_fields

Scope = Literal["USER", "SYSTEM"]
Sort = Literal["name", "kind", "namespace", "tag", "property", "schema"]
Document = dict[str, Any]

SCOPES: Final[tuple[Scope, ...]] = ("USER", "SYSTEM")
SCHEMA_KEY: Final = "schema"
CREATION_KEY: Final = "creation_time"
MAX_KEYED_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of words under full keys in one document; beyond it the keys before the words are digests."""
MAX_KEY_CHARACTERS: Final = 100
"""Longest encoded key that stands in full before a word; a longer one is a digest."""
_MAX_TIME_MS: Final = 253_402_300_799_999


class Entry(NamedTuple):
    """One text of an entity that a search can match.

    Args:
        sort: what it is.
        scope: whose metadata it is; None for names, kinds and namespaces, which any scope filter lets through.
        key: property key, path of the schema field, else empty.
        text: the name, tag, property value or schema field name; the words of a schema that cannot be parsed.
        type: type of the schema field, else empty.
    """

    sort: Sort
    scope: Scope | None
    key: str
    text: str
    type: str = ""


def document_id(tenant: str, urn: str) -> str:
    """`_id` of an entity's document."""
    return blake2b(f"{tenant}/{urn}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def entries(state: Mapping[str, Any]) -> Iterator[Entry]:
    """Everything of a state document that a search can match, names first."""
    yield Entry("name", None, "", state["name"])
    yield Entry("kind", None, "", state["kind"])
    if state["namespace"] is not None:
        yield Entry("namespace", None, "", state["namespace"])
    for scope in SCOPES:
        metadata = state[scope.lower()]
        for tag in metadata["tags"]:
            yield Entry("tag", scope, "", tag)
        for key, value in metadata["properties"].items():
            if scope == "SYSTEM" and key == SCHEMA_KEY:
                yield from _schema_entries(value)
            else:
                yield Entry("property", scope, key, value)


def _schema_entries(text: str) -> Iterator[Entry]:
    fields = schema_fields(text)
    if fields is None:
        yield Entry("schema", "SYSTEM", "", text)
        return
    for field in fields:
        yield Entry("schema", "SYSTEM", field.path, field.name, field.type)


def index_document(state: Mapping[str, Any]) -> Document:
    """The whole index document of an entity; of a deleted one a tombstone that queries leave out."""
    document = _identity(state)
    if state["deleted"]:
        return document
    split = list(map(_split, entries(state)))
    names = [one for one in split if one.entry.scope is None]
    document |= _name_fields(state, names)
    document["tag_facet"] = _unique([one.entry.text for one in split if one.entry.sort == "tag"])
    document["created"] = _created(state)
    hashed = sum(map(_keyed_bytes, split)) > MAX_KEYED_BYTES
    for scope in SCOPES:
        document[scope.lower()] = _scope_fields([one for one in split if one.entry.scope == scope], hashed)
    document["system"] |= _schema_term_fields([one for one in split if one.entry.sort == "schema"], hashed)
    for scope in SCOPES:
        document[scope.lower()] |= _key_fields(state["tenant"], list(state[scope.lower()]["properties"]))
    return document


def reduced_document(state: Mapping[str, Any], reason: str) -> Document:
    """What is indexed of an entity whose whole document Elasticsearch refuses: its names, and why no more."""
    bare = {**state, "user": _EMPTY, "system": _EMPTY}
    document = {**_identity(bare), "unindexed": True}
    document["entity"]["unindexed"] = reason[:2000]
    if state["deleted"]:
        return document
    names = list(map(_split, entries(bare)))
    return document | _name_fields(state, names)


_EMPTY: Final[Mapping[str, Any]] = {"properties": {}, "tags": []}


def _identity(state: Mapping[str, Any]) -> Document:
    return {
        "tenant": state["tenant"],
        "urn": state["urn"],
        "kind": state["kind"],
        "namespace": state["namespace"],
        "name": terms.whole(state["name"]),
        "deleted": state["deleted"],
        "logical_timestamp": state["logical_timestamp"],
        "entity": dict(state),
    }


_KEPT_KEYS: Final = 4096
"""Keys and types come again and again; what their terms are is remembered of this many."""


class _Split(NamedTuple):
    """An entry and what it is found by, worked out once.

    Args:
        entry: the text and where it stands.
        words: its words.
        line: the same as one text.
        whole: its whole, None where it is too long.
        wholes: that, and the one of a schema field's path, where they are not too long.
    """

    entry: Entry
    words: list[str]
    line: str
    whole: str | None
    wholes: list[str]


def _split(entry: Entry) -> _Split:
    words, wholes = terms.words(entry.text), whole_terms(entry)
    whole = wholes[0] if wholes and len(entry.text) <= terms.MAX_WHOLE_CHARACTERS else None
    return _Split(entry, words, " ".join(words), whole, wholes)


class _Key(NamedTuple):
    """A key as it stands before a value (`encoded`) and before a word (`token`, which takes `cost` bytes there)."""

    encoded: str
    token: str
    folded: str
    cost: int

    def line(self, words: list[str], hashed: bool) -> str:
        """A value's words, each under this key."""
        start = f"{hashed_key_token(self.folded) if hashed else self.token}="
        return start + f" {start}".join(words)


def _key_of_folded(folded: str) -> _Key:
    token = key_token(folded)
    return _Key(terms.encode(folded), token, folded, len(token.encode("utf-8", "replace")) + 8)


@lru_cache(_KEPT_KEYS)
def _key(key: str) -> _Key:
    return _key_of_folded(folded_key(key))


@lru_cache(_KEPT_KEYS)
def _type_keys(text: str) -> tuple[_Key, ...]:
    return tuple(map(_key_of_folded, type_terms(text)))


def _name_fields(state: Mapping[str, Any], names: list[_Split]) -> Document:
    return {
        "identity": _unique([one.whole for one in names]),
        "identity_words": _lines(names),
        "name_words": names[0].line,
        "suggest_name": suggestion(state["tenant"], state["name"]),
    }


def _scope_fields(mine: list[_Split], hashed: bool) -> Document:
    tags = [one for one in mine if one.entry.sort == "tag"]
    properties = [(_key(one.entry.key), one) for one in mine if one.entry.sort == "property"]
    return {
        "tags": _unique([one.whole for one in tags]),
        "tag_words": _lines(tags),
        "tag_facet": _unique([one.entry.text for one in tags]),
        "pairs": _unique([_pair(key, one.whole) for key, one in properties if one.whole is not None]),
        "pair_words": _unique([key.line(one.words, hashed) for key, one in properties if one.words]),
        "whole": _wholes(mine),
        "words": _lines(mine),
    }


def _key_fields(tenant: str, keys: list[str]) -> Document:
    return {
        "keys": _unique([_key(key).encoded for key in keys]),
        "suggest_key": _unique([suggestion(tenant, key) for key in keys]),
    }


def _schema_term_fields(schema: list[_Split], hashed: bool) -> Document:
    typed = [(kind, one) for one in schema if one.entry.type for kind in _type_keys(one.entry.type)]
    return {
        "fields": _wholes(schema),
        "field_words": _lines(schema),
        "typed": _unique([_pair(kind, term) for kind, one in typed for term in one.wholes]),
        "typed_words": _unique([kind.line(one.words, hashed) for kind, one in typed if one.words]),
    }


def _pair(key: _Key, whole: str) -> str:
    """As `terms.pair`, of a key that is known."""
    return f"{key.encoded}={terms.encode(whole)}"


def _wholes(split: list[_Split]) -> list[str]:
    """Wholes of all texts, and of the paths of schema fields."""
    return _unique([term for one in split for term in one.wholes])


def whole_terms(entry: Entry) -> list[str]:
    """The wholes that an entry is found by: its text, and the path of a schema field."""
    whole = terms.whole(entry.text)
    if entry.sort != "schema" or entry.key in ("", entry.text):
        return [] if whole is None else [whole]
    return _unique([whole, terms.whole(entry.key)])


def folded_key(key: str) -> str:
    """A property key as it is compared."""
    return terms.fold(key.strip())


def type_terms(text: str) -> list[str]:
    """What a schema field's type is found by: the whole, its words one after the other, and each word."""
    words = terms.words(text)
    return _unique([terms.whole(text), " ".join(words), *words])


def key_token(key: str) -> str:
    """The token of a folded key that stands before a word in `pair_words` and `typed_words`."""
    encoded = terms.encode(key)
    return encoded if len(encoded) <= MAX_KEY_CHARACTERS else hashed_key_token(key)


def hashed_key_token(key: str) -> str:
    """The short token of a folded key; no encoded key begins like it."""
    return f"~{terms.short_digest(key)}"


def suggestion(tenant: str, text: str) -> str:
    """The term of a completion: tenant, folded text to complete, text to show."""
    return f"{tenant}/{_key(text).encoded}={text}"


def _keyed_bytes(one: _Split) -> int:
    """Bytes that the words under their full keys take."""
    entry = one.entry
    if entry.sort == "property":
        return _key(entry.key).cost * len(one.words)
    if entry.sort == "schema" and entry.type:
        return sum([key.cost for key in _type_keys(entry.type)]) * len(one.words)
    return 0


def _lines(split: list[_Split]) -> list[str]:
    """Each text's words as one value; the gap between values keeps phrases inside one."""
    return _unique([one.line or None for one in split])


def _unique(found: Sequence[str | None]) -> list[str]:
    if not found:
        return []
    unique = dict.fromkeys(found)
    unique.pop(None, None)
    return list(unique)  # type: ignore[arg-type]  # None has just been taken out


def _created(state: Mapping[str, Any]) -> int | None:
    text = state["system"]["properties"].get(CREATION_KEY, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        return None
    return min(int(text), _MAX_TIME_MS)
