"""Why an entity is a hit: which text of it each term matched, and where. Pure.

The same terms that the index holds are compared here over the hit's own document, so reasons and highlights show the
text as it was written. It is also the search's model: over any documents, what `matched` finds is what Elasticsearch
must find (the tests hold one against the other).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple

from .. import terms
from ..documents import SCHEMA_KEY, SCOPES, Entry, Scope, whole_terms
from ..keys import folded_key, type_terms
from .atoms import most_words
from .described import Described, SharedTexts, whole_of
from .edits import close_words
from .grammar import Everything, Field, HasKey, HasTags, Nothing, Property, Tag, Term, Text, Value
from .places import Places, Span

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
        instead_of: the word that was asked for and that nothing has, where what matched only differs from it by a
            typing error; else empty.
    """

    field: str
    key: str
    text: str
    matched: tuple[Span, ...]
    scope: Scope | None
    instead_of: str = ""

    def __str__(self) -> str:
        meant = f" for {self.instead_of}" if self.instead_of else ""
        return f"{self.key or self.field}: {self.marked()}{meant}"

    def marked(self, before: str = "[", after: str = "]") -> str:
        """The text with its matches between marks."""
        shown, begin = [], 0
        for start, end in self.matched:
            shown += [self.text[begin:start], before, self.text[start:end], after]
            begin = end
        return "".join([*shown, self.text[begin:]])


class Near(NamedTuple):
    """Words that resemble one.

    Args:
        word: what was asked for.
        most: how many edits away others match as well.
        seen: those that other entities of the page have; in a long text they are looked for first.
    """

    word: str
    most: int
    seen: set[str]


class Explained(NamedTuple):
    """The reasons for a hit, and the terms that have one."""

    why: tuple[Why, ...]
    terms: frozenset[Term]


def explain(
    asked: Iterable[Term],
    state: Mapping[str, Any],
    scopes: Collection[Scope] = SCOPES,
    misspelt: Mapping[Term, Near] | None = None,
    shared: SharedTexts | None = None,
) -> Explained:
    """Why an entity is a hit: the first reason of each term in order, then the second of each, and so on.

    Args:
        misspelt: of terms that nothing matches, what matches instead.
        shared: the texts of the page that it is a hit of.
    """
    described = Described(state, scopes, shared)
    unread = {
        term: near(described, *misspelt[term]) if misspelt and term in misspelt else reasons(term, described)
        for term in asked
    }
    why, found = dict[Why, None](), set[Term]()
    while unread and len(why) < MAX_REASONS:
        for term, coming in list(unread.items()):
            reason = next(coming, None)
            if reason is None:
                del unread[term]
            else:
                found.add(term)
                why[reason] = None
    return Explained(tuple(why)[:MAX_REASONS], frozenset(found))


def matched(term: Term, described: Described) -> list[Why]:
    """What of an entity one term matches; empty where nothing does."""
    return list(reasons(term, described))


def reasons(term: Term, described: Described) -> Iterator[Why]:
    """The same one by one, as far as they are looked for."""
    match term:
        case Everything() | Nothing():
            return
        case Value(value):
            chosen = described.having(value)
        case Property(key, value):
            chosen = (entry for entry in described.having(value, "property") if _key(entry.key, key))
        case HasKey(key):
            for scope, name, value_text in described.properties():
                if _key(name, key):
                    yield Why("schema" if name == SCHEMA_KEY else "property", name, _shortened(value_text), (), scope)
            return
        case Tag(value):
            chosen = described.having(value, "tag")
        case HasTags():
            for entry in described.tags():
                yield Why("tag", "", _shortened(entry.text), (), entry.scope)
            return
        case Field(value, kind):
            fields = described.having(value, "schema")
            chosen = (entry for entry in fields if kind is None or _type(entry.type, kind))
    for entry in chosen:
        if spans := _spans(described, entry, value):
            yield _reason(entry, spans)


def near(described: Described, word: str, most: int, seen: set[str] | None = None) -> Iterator[Why]:
    """The texts of an entity with words at most so many edits away from one; of a long text the first such piece.

    Args:
        seen: as of `Near`.
    """
    for entry in described.near(word, most):
        spans = _seen_spans(described, entry, seen or ()) or _near_spans(described, entry, word, most, seen)
        if spans:
            yield _reason(entry, _apart(spans))._replace(instead_of=word)


def _seen_spans(described: Described, entry: Entry, seen: Collection[str]) -> list[Span]:
    """Where words stand in a long text."""
    if not seen or described.head(entry.text) is None:
        return []
    places = described.places(entry.text)
    return _first([spans for other in sorted(seen) for spans in places.of([other], prefix=False)], len(entry.text))


def _near_spans(described: Described, entry: Entry, word: str, most: int, seen: set[str] | None) -> list[Span]:
    """Where the first words stand that resemble one; they are noted."""
    for piece in described.pieces(entry.text):
        if close := close_words(word, piece.words, most):
            if seen is not None:
                seen.update(close)
            coming = [spans for other in close for spans in piece.places.of([other], prefix=False)]
            return [(start + piece.start, end + piece.start) for start, end in _first(coming, len(entry.text))]
    return []


def _key(key: str, pattern: Text) -> bool:
    if pattern.prefix:
        return folded_key(key).startswith(terms.fold(pattern.text.lstrip()))
    return folded_key(key) == folded_key(pattern.text)


def _type(text: str, pattern: Text) -> bool:
    known = type_terms(text) if text else []
    if pattern.prefix:
        return any(term.startswith(terms.fold(pattern.text.lstrip())) for term in known)
    return folded_key(pattern.text) in known


def _reason(entry: Entry, spans: list[Span]) -> Why:
    text, shown = _around(entry.text, spans)
    return Why(entry.sort, entry.key, text, tuple(shown), entry.scope)


def _spans(described: Described, entry: Entry, pattern: Text) -> list[Span]:
    """Where the asked words stand one after the other, as far as it is shown; all where only the whole matches."""
    head = described.head(entry.text)
    if head is not None and (spans := _shown_spans(head, pattern)) and _is_certain(head.text, spans[0][0], pattern):
        return spans
    if spans := _shown_spans(described.places(entry.text), pattern):
        return spans
    start = whole_of(pattern)
    if start is None:
        return []
    if any(known.startswith(start) if pattern.prefix else known == start for known in whole_terms(entry)):
        return [(0, len(entry.text))]
    return []


def _shown_spans(places: Places, pattern: Text) -> list[Span]:
    shown = places.shown.get(pattern)
    if shown is None:
        shown = places.shown[pattern] = _looked_up(places, pattern)
    return shown


def _looked_up(places: Places, pattern: Text) -> list[Span]:
    coming = [
        spans
        for words, open_end in terms.readings(pattern.text)
        for spans in places.of(words, prefix=pattern.prefix and open_end)
    ]
    return _apart(_first(coming, len(places.text)))


def _is_certain(head: str, first: int, pattern: Text) -> bool:
    """Whether more of a text would show nothing else: nothing that begins in what is shown reaches the head's end."""
    behind = head[first - _CONTEXT_CHARACTERS + MAX_SHOWN_CHARACTERS :]
    enough = most_words(pattern) + 1  # the first of them may be the rest of a word
    return sum(1 for _ in islice(terms.tokens_from(behind, 0, humps=False), enough)) == enough


def _first(coming: Iterable[Iterator[Span]], length: int) -> list[Span]:
    """All spans of a text that is shown whole; of a longer one those in the piece around the first."""
    if length <= MAX_SHOWN_CHARACTERS:
        return [span for spans in coming for span in spans]
    begun = [(first, spans) for spans in coming if (first := next(spans, None)) is not None]
    if not begun:
        return []
    end = min(start for (start, _), _ in begun) - _CONTEXT_CHARACTERS + MAX_SHOWN_CHARACTERS
    shown = [first for first, _ in begun if first[0] < end]
    return shown + [span for _, spans in begun for span in takewhile(lambda span: span[0] < end, spans)]


def _apart(spans: list[Span]) -> list[Span]:
    """The spans in order, without those that begin inside of another."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


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
