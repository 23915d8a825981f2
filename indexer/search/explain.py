"""Why an entity is a hit: which text of it each term matched, and where. Pure.

The same terms that the index holds are compared here over the hit's own document, so reasons and highlights show the
text as it was written. It is also the search's model: over any documents, what `matched` finds is what Elasticsearch
must find (the tests hold one against the other).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from .. import terms
from ..documents import SCHEMA_KEY, SCOPES, Entry, Scope, entries, scope_properties, whole_terms
from ..keys import folded_key, type_terms
from .grammar import Everything, Field, HasKey, HasTags, Nothing, Property, Query, Tag, Term, Text, Value

Span = tuple[int, int]

MAX_REASONS: Final = 20
"""Most reasons that one hit carries."""
MAX_SHOWN_CHARACTERS: Final = 200
_CONTEXT_CHARACTERS: Final = 60


class Why(NamedTuple):
    """One reason for a hit.

    Args:
        field: `name`, `kind`, `namespace`, `tag`, `property` or `schema`.
        key: property key, path of the schema field, else empty.
        text: the text that matched, shortened around the match.
        matched: where in `text`; empty where the key alone matched.
        scope: whose metadata it is; None for names, kinds and namespaces.
    """

    field: str
    key: str
    text: str
    matched: tuple[Span, ...]
    scope: Scope | None

    def __str__(self) -> str:
        return f"{self.key or self.field}: {self.marked()}"

    def marked(self, before: str = "[", after: str = "]") -> str:
        """The text with its matches between marks."""
        shown, begin = [], 0
        for start, end in self.matched:
            shown += [self.text[begin:start], before, self.text[start:end], after]
            begin = end
        return "".join([*shown, self.text[begin:]])


class Described:
    """An entity's entries in some scopes, each split once."""

    def __init__(self, state: Mapping[str, Any], scopes: Collection[Scope] = SCOPES) -> None:
        self._state = state
        self.scopes = [scope for scope in SCOPES if scope in scopes]
        self.entries = [entry for entry in entries(state) if entry.scope is None or entry.scope in scopes]
        self._tokens: dict[str, list[list[terms.Token]]] = {}
        self._lower: dict[str, str] = {}

    def tokens(self, text: str) -> list[list[terms.Token]]:
        """Words and places of a text: cut at humps, and where it has some uncut too."""
        if text not in self._tokens:
            cut, uncut = terms.tokens(text), terms.tokens(text, humps=False)
            self._tokens[text] = [cut] if cut == uncut else [cut, uncut]
        return self._tokens[text]

    def may_hold(self, text: str, words: list[str]) -> bool:
        """Whether it is worth while to split a text: False where it surely lacks one of the words."""
        if not text.isascii():
            return True
        if text not in self._lower:
            self._lower[text] = text.lower()
        return all(word.strip(terms.CUT) in self._lower[text] for word in words)

    def properties(self) -> Iterator[tuple[Scope, str, str]]:
        """Scope, key and value of each property, the schema's text included."""
        for scope in self.scopes:
            for key, value in scope_properties(self._state, scope):
                yield scope, key, value


def explain(query: Query, state: Mapping[str, Any], scopes: Collection[Scope] = SCOPES) -> tuple[Why, ...]:
    """The reasons for a hit, in the order of the query's terms."""
    described = Described(state, scopes)
    reasons = dict.fromkeys(why for term in query.terms for why in matched(term, described))
    return tuple(reasons)[:MAX_REASONS]


def matched(term: Term, described: Described) -> list[Why]:
    """What of an entity one term matches; empty where nothing does."""
    match term:
        case Everything() | Nothing():
            return []
        case Value(value):
            return [why for entry in described.entries for why in _entry(described, entry, value)]
        case Property(key, value):
            chosen = [entry for entry in _of(described, "property") if _key(entry.key, key)]
            return [why for entry in chosen for why in _entry(described, entry, value)]
        case HasKey(key):
            return [
                Why("schema" if name == SCHEMA_KEY else "property", name, _shortened(value), (), scope)
                for scope, name, value in described.properties()
                if _key(name, key)
            ]
        case Tag(value):
            return [why for entry in _of(described, "tag") for why in _entry(described, entry, value)]
        case HasTags():
            return [Why("tag", "", entry.text, (), entry.scope) for entry in _of(described, "tag")]
        case Field(name, kind):
            chosen = [entry for entry in _of(described, "schema") if kind is None or _type(entry.type, kind)]
            return [why for entry in chosen for why in _entry(described, entry, name)]


def _of(described: Described, sort: str) -> list[Entry]:
    return [entry for entry in described.entries if entry.sort == sort]


def _key(key: str, pattern: Text) -> bool:
    if pattern.prefix:
        return folded_key(key).startswith(terms.fold(pattern.text.lstrip()))
    return folded_key(key) == folded_key(pattern.text)


def _type(text: str, pattern: Text) -> bool:
    known = type_terms(text) if text else []
    if pattern.prefix:
        return any(term.startswith(terms.fold(pattern.text.lstrip())) for term in known)
    return folded_key(pattern.text) in known


def _entry(described: Described, entry: Entry, pattern: Text) -> list[Why]:
    spans = _spans(described, entry, pattern)
    if not spans:
        return []
    text, spans = _around(entry.text, spans)
    return [Why(entry.sort, entry.key, text, tuple(spans), entry.scope)]


def _spans(described: Described, entry: Entry, pattern: Text) -> list[Span]:
    """Where the asked words stand one after the other; the whole text where only the whole matches."""
    spans = [
        span
        for words, open_end in _readings(pattern.text)
        if words and described.may_hold(entry.text, words)
        for tokens in described.tokens(entry.text)
        for span in _sequences(tokens, words, pattern.prefix and open_end)
    ]
    if spans:
        return _apart(spans)
    if any(_is_whole(known, pattern) for known in whole_terms(entry)):
        return [(0, len(entry.text))]
    return []


@lru_cache(256)
def _readings(text: str) -> list[tuple[list[str], bool]]:
    return terms.readings(text)


def _apart(spans: list[Span]) -> list[Span]:
    """The spans in order, without those that begin inside of another."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


def _sequences(tokens: list[terms.Token], words: list[str], prefix: bool) -> Iterator[Span]:
    count = len(words)
    for begin in range(len(tokens) - count + 1 if count else 0):
        here = tokens[begin : begin + count]
        last = here[-1].word.startswith(words[-1]) if prefix else here[-1].word == words[-1]
        if last and all(token.word == word for token, word in zip(here[:-1], words[:-1], strict=True)):
            yield here[0].start, here[-1].end


def _is_whole(known: str, pattern: Text) -> bool:
    if pattern.prefix:
        start = terms.whole_prefix(pattern.text)
        return start is not None and known.startswith(start)
    return known == terms.whole(pattern.text)


def _around(text: str, spans: list[Span]) -> tuple[str, list[Span]]:
    """A piece of a long text around its first match, and the matches in it."""
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text, spans
    start = max(0, spans[0][0] - _CONTEXT_CHARACTERS)
    end = start + MAX_SHOWN_CHARACTERS
    inside = [(max(begin, start) - start, min(to, end) - start) for begin, to in spans if begin < end]
    return text[start:end], inside


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"
