"""State documents to index documents.

Job: lay an entity's names and metadata open (what a search can match, text by text), and turn them into the term
fields that `mapping` declares and `query` asks. The state document itself is kept whole under `entity`, so a hit shows
what the journal says, not what the terms look like.
Left to others: splitting and folding (terms), keys in terms (keys), what a domain's record adds (`words` of its
folder), which fields there are (mapping), which of them a query asks (query).
Invariant: every entity within the journal's limits gives a document that Elasticsearch takes, and the terms of the
scopes USER and SYSTEM never share a field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

from ..schemas.kinds import domain_of_kind
from ..schemas.registry import role
from . import terms
from .keys import Key, key_of, keys_of_type, suggestion
from .schema_fields import SchemaField, schema_fields

Scope = Literal["USER", "SYSTEM"]
Sort = Literal["name", "kind", "namespace", "tag", "property", "schema"]
Document = dict[str, Any]

SCOPES: Final[tuple[Scope, ...]] = ("USER", "SYSTEM")
SCHEMA_KEY: Final = "schema"
DESCRIPTION_KEY: Final = "description"
CREATION_KEY: Final = "creation_time"
MAX_KEYED_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of words under full keys in one document; beyond it the keys before the words are digests."""
_SMALL_VALUES, _SMALL_SCHEMA = 5_000, 1_000
"""Characters of all values, and of a schema, that together stay below it whatever they are: a value has at most one
word a character in both readings, each under at most 408 bytes; a schema's types take 8 bytes a character for each."""
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


def entries(state: Mapping[str, Any], *, schema: bool = True) -> Iterator[Entry]:
    """Everything of a state document that a search can match, names first.

    Args:
        schema: whether the schema is parsed; otherwise its JSON stands there as one entry.
    """
    yield Entry("name", None, "", state["name"])
    yield Entry("kind", None, "", state["kind"])
    if state["namespace"] is not None:
        yield Entry("namespace", None, "", state["namespace"])
    for scope in SCOPES:
        for tag in state[scope.lower()]["tags"]:
            yield Entry("tag", scope, "", tag)
        for key, value in scope_properties(state, scope):
            if scope == "SYSTEM" and key == SCHEMA_KEY:
                yield from schema_entries(value) if schema else (Entry("schema", "SYSTEM", "", value),)
            else:
                yield Entry("property", scope, key, value)


class WordsFile(Protocol):
    """The file `words` of a domain: pure."""

    def words(self, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Key and text of all that an entity is found by besides its metadata, from what its domain says of it."""


def scope_properties(state: Mapping[str, Any], scope: Scope) -> Iterator[tuple[str, str]]:
    """Key and value of each property; what an entity's own domain says of it counts as SYSTEM."""
    yield from state[scope.lower()]["properties"].items()
    if scope == "SYSTEM" and state.get("record"):
        module = role(domain_of_kind(state["kind"]), "words")
        if module is not None:
            yield from cast(WordsFile, module).words(state["record"])


def schema_entries(text: str) -> Iterator[Entry]:
    """The fields of a schema; the text itself where it cannot be parsed."""
    fields = schema_fields(text)
    if fields is None:
        yield Entry("schema", "SYSTEM", "", text)
        return
    yield from map(schema_entry, fields)


def schema_entry(field: SchemaField) -> Entry:
    """A field of a schema as a text that a search can match."""
    return Entry("schema", "SYSTEM", field.path, field.name, field.type)


def whole_terms(entry: Entry) -> list[str]:
    """The wholes that an entry is found by: its text, and the path of a schema field."""
    both = (entry.text, entry.key) if entry.sort == "schema" and entry.key else (entry.text,)
    return _kept(map(terms.whole, both))


# --- the document: all texts of an entity are split at once, which is many times as fast as one by one


def index_document(state: Mapping[str, Any]) -> Document:
    """The whole index document of an entity; of a deleted one a tombstone that queries leave out."""
    document = _identity(state)
    if state["deleted"]:
        return document
    user, system = list(scope_properties(state, "USER")), list(scope_properties(state, "SYSTEM"))
    schema = [value for key, value in system if key == SCHEMA_KEY]
    fields = [field for text in schema for field in schema_entries(text)]
    parts = [
        _names(state),
        [*state["user"]["tags"], *[value for _, value in user]],
        [*state["system"]["tags"], *[value for key, value in system if key != SCHEMA_KEY]],
        [field.text for field in fields],
        [field.key or field.text for field in fields],
    ]
    names, own, given, texts, paths = _split(parts)
    document |= _name_fields(state, names)
    document["created"] = _created(state)
    document["tag_facet"] = list(dict.fromkeys([*state["user"]["tags"], *state["system"]["tags"]]))
    keys = [key_of(key) for key, _ in user], [key_of(key) for key, _ in system if key != SCHEMA_KEY]
    types = [keys_of_type(field.type) for field in fields]
    large = (len(fields) and len(schema[0]) > _SMALL_SCHEMA) or sum(map(len, own.lines + given.lines)) > _SMALL_VALUES
    if (
        large
        and _keyed_bytes(keys[0], own) + _keyed_bytes(keys[1], given) + _typed_bytes(types, texts) > MAX_KEYED_BYTES
    ):
        keys = [key.hashed for key in keys[0]], [key.hashed for key in keys[1]]
        types = [tuple(kind.hashed for kind in kinds) for kinds in types]
    document["user"] = _scope_fields(state["user"]["tags"], keys[0], own)
    document["system"] = _scope_fields(state["system"]["tags"], keys[1], given, described=True)
    if fields:
        _add_schema(document["system"], types, texts, paths.wholes)
    _add_keys(document["user"], user, state["tenant"])
    _add_keys(document["system"], system, state["tenant"])
    return document


def reduced_document(state: Mapping[str, Any], reason: str) -> Document:
    """What is indexed of an entity whose whole document Elasticsearch refuses: its names, and why no more."""
    bare = {**state, "user": _EMPTY, "system": _EMPTY, "unindexed": reason[:2000]}
    document = {**_identity(bare), "unindexed": True}
    if state["deleted"]:
        return document
    return document | _name_fields(state, *_split([_names(state)]))


_WORD: Final = re.compile(r"[^\W_]+")
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
        "entity": state,
    }


class _TextTerms(terms.Lines):
    """What some texts are found by."""

    @property
    def odd(self) -> list[str]:
        """The wholes that begin with what no word of their text begins with: `\u2122` becomes letters."""
        return [
            whole
            for line, uncut, whole in zip(self.lines, self.uncut, self.wholes, strict=True)
            if whole and not _begins_with_a_word(whole, uncut or line)
        ]

    @property
    def readings(self) -> list[list[str]]:
        """The lines of each text: one, or two where the text can be read in two ways; none without a word."""
        return [
            [first, uncut] if uncut else [first] if first else []
            for first, uncut in zip(self.lines, self.uncut, strict=True)
        ]

    @property
    def split(self) -> list[list[str]]:
        """The same without what is one plain word and the whole, where that is asked for as well."""
        return [
            [line for line in ((first, uncut) if uncut else (first,)) if line and (" " in line or line != whole)]
            for first, uncut, whole in zip(self.lines, self.uncut, self.wholes, strict=True)
        ]

    @property
    def counts(self) -> list[int]:
        """How many words each text has in all its readings."""
        pairs = zip(self.lines, self.uncut, strict=True)
        return [line.count(" ") + 1 + (uncut.count(" ") + 1 if uncut else 0) for line, uncut in pairs]


def _begins_with_a_word(whole: str, line: str) -> bool:
    """Whether each beginning of a whole that is one word begins the first word of a line as well."""
    first = line.partition(" ")[0]
    if whole.startswith(first) and first and not whole[len(first) : len(first) + 1].isalnum():  # nearly always
        return True
    run = _WORD.match(whole)
    return run is None or first.startswith(run[0][: terms.MAX_WORD_CHARACTERS])


def _split(parts: Sequence[Sequence[str]]) -> list[_TextTerms]:
    every = terms.lines_and_wholes([text for part in parts for text in part])
    terms_by_part, begin = [], 0
    for part in parts:
        end = begin + len(part)
        terms_by_part.append(_TextTerms(every.lines[begin:end], every.uncut[begin:end], every.wholes[begin:end]))
        begin = end
    return terms_by_part


def _names(state: Mapping[str, Any]) -> list[str]:
    return [state["name"], state["kind"], *([] if state["namespace"] is None else [state["namespace"]])]


def _name_fields(state: Mapping[str, Any], names: _TextTerms) -> Document:
    odd = names.odd
    apart = {"odd_identity": odd, "odd_name": odd[:1] if odd[0] == names.wholes[0] else []} if odd else {}
    return {
        **apart,
        "identity": _kept(names.wholes),
        "identity_words": _lines(names.readings[1:]),
        "name_length": max(1, names.counts[0]),
        "name_words": [names.lines[0], names.uncut[0]] if names.uncut[0] else names.lines[0],
        "suggest_name": suggestion(state["tenant"], terms.fold(state["name"].strip()), state["name"]),
    }


def _keyed_bytes(keys: Sequence[Key], text_terms: _TextTerms) -> int:
    """Bytes that the words of values take under their full keys; tags stand before the values."""
    counts = text_terms.counts[len(text_terms.lines) - len(keys) :]
    return sum([key.cost * count for key, count in zip(keys, counts, strict=True)])


def _typed_bytes(types: Sequence[tuple[Key, ...]], text_terms: _TextTerms) -> int:
    """The same for the names of the schema's fields under their types."""
    return sum(
        [sum([kind.cost for kind in kinds]) * count for kinds, count in zip(types, text_terms.counts, strict=True)]
    )


def _scope_fields(
    tags: Sequence[str], keys: Sequence[Key], text_terms: _TextTerms, *, described: bool = False
) -> Document:
    """The terms of a scope, of whose tags and then values the texts are.

    Args:
        described: whether a description's words stand apart from those of the other values: they weigh less.
    """
    wholes, readings = text_terms.wholes, text_terms.readings
    many = len(tags)
    paired = [(key.encoded, whole) for key, whole in zip(keys, wholes[many:], strict=True) if whole is not None]
    encoded = terms.encode_all([whole for _, whole in paired])
    split = text_terms.split[many:]
    values, apart = readings[many:], dict[str, list[str]]()
    if odd := text_terms.odd:
        apart["odd_whole"] = odd
    own = [number for number, key in enumerate(keys) if key.folded == DESCRIPTION_KEY] if described else []
    if own:
        apart["description_words"] = _lines(values[number] for number in own)
        values = [lines for number, lines in enumerate(values) if number not in own]
    return {
        "tags": _kept(wholes[:many]),
        "tag_words": _lines(readings[:many]),
        "tag_facet": list(tags),
        "pairs": [f"{key}={term}" for (key, _), term in zip(paired, encoded, strict=True)],
        "pair_words": [key.line(line) for key, lines in zip(keys, split, strict=True) for line in lines],
        "hashed_keys": [f"{key.encoded}={key.token}" for key in keys if key.token.startswith("~")],
        "whole": _kept(wholes),
        "words": _lines(values),
        **apart,
    }


def _add_keys(document: Document, properties: Iterable[tuple[str, str]], tenant: str) -> None:
    known = [(key, key_of(key)) for key, _ in properties]
    document["keys"] = list(dict.fromkeys([parsed.encoded for _, parsed in known]))
    document["suggest_key"] = [suggestion(tenant, parsed.folded, key) for key, parsed in known]


def _add_schema(system: Document, types: Sequence[tuple[Key, ...]], names: _TextTerms, paths: list[str | None]) -> None:
    """Add the fields of the schema to the terms of the scope SYSTEM."""
    every = _kept([*names.wholes, *paths])
    encoded = dict(zip(every, terms.encode_all(every), strict=True))
    typed: dict[str, None] = {}
    typed_words: dict[str, None] = {}
    split = names.split
    for kinds, lines, *both in zip(types, split, names.wholes, paths, strict=True):
        for kind in kinds:
            typed.update([(f"{kind.encoded}={encoded[text]}", None) for text in both if text is not None])
            typed_words.update([(kind.line(line), None) for line in lines])
    system["fields"], system["field_words"] = every, _lines(names.readings)
    system["whole"] = _kept([*system["whole"], *every])
    if odd := [*names.odd, *_paths_alone(names, paths)]:
        system["odd_whole"] = _kept([*system.get("odd_whole", ()), *odd])
    system["typed"], system["typed_words"] = list(typed), list(typed_words)


def _paths_alone(names: _TextTerms, paths: Iterable[str | None]) -> list[str]:
    """The paths that begin with what no field is called."""
    firsts = {(uncut or line).partition(" ")[0] for line, uncut in zip(names.lines, names.uncut, strict=True)}
    return [
        path
        for path, whole in zip(paths, names.wholes, strict=True)
        if path and path != whole and (run := _WORD.match(path)) and run[0] not in firsts
    ]


def _kept(wholes: Iterable[str | None]) -> list[str]:
    """Each whole once; without those that are too long."""
    unique = dict.fromkeys(wholes)
    unique.pop(None, None)
    return list(unique)  # type: ignore[arg-type]  # None has just been taken out


def _lines(lines: Iterable[Iterable[str]]) -> list[str]:
    """Each line once, as one value; the gap between values keeps phrases inside one."""
    return list(dict.fromkeys(chain.from_iterable(lines)))


def _created(state: Mapping[str, Any]) -> int | None:
    text = state["system"]["properties"].get(CREATION_KEY, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        return None
    return min(int(text), _MAX_TIME_MS)
