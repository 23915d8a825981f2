"""The search grammar: a query's text to its terms.

    query   everything (blank, `*`, `*:*`) or terms separated by white space, OR-ed
    term    value | value* | key:value (each part with or without a star) | key:*
            tags:x | tags:* | properties:key | schema:field | schema:field:type

The first `:` or `=` outside quotes separates (of a schema's field the second one too), blanks around it are ignored.
Double quotes keep a text together and take every sign in it literally; a quote without a partner is an ordinary
character, and `"tags":x` asks for a property of that name. A star counts at the end of a part only. AND, OR and NOT are
ordinary words. Pure; any text parses, or is refused for its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from .. import terms
from ..errors import InvalidQueryError

MAX_QUERY_CHARACTERS: Final = 8192
MAX_TERMS: Final = 64
MAX_WORDS_AFTER_KEY_PREFIX: Final = 16
MAX_WORDS_BEFORE_STAR: Final = 1_000
"""In all terms together; Elasticsearch counts each of them in each field that is looked at."""
_SEPARATORS: Final = ":="


@dataclass(frozen=True, slots=True)
class Everything:
    """All that the filters leave."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Separators only: matches nothing."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """What a part of a term asks for: this whole value or its words one after the other, or what begins so."""

    text: str
    prefix: bool = False

    def __str__(self) -> str:
        return self.text + "*" * self.prefix


@dataclass(frozen=True, slots=True)
class Value:
    """`value`, `value*`: in names, kinds, namespaces, tags, property values and schema field names."""

    value: Text


@dataclass(frozen=True, slots=True)
class Property:
    """`key:value`: a property value under a key, or under all keys that begin so."""

    key: Text
    value: Text


@dataclass(frozen=True, slots=True)
class HasKey:
    """`key:*`, `properties:key`: who has such a property key."""

    key: Text


@dataclass(frozen=True, slots=True)
class Tag:
    """`tags:x`."""

    value: Text


@dataclass(frozen=True, slots=True)
class HasTags:
    """`tags:*`."""


@dataclass(frozen=True, slots=True)
class Field:
    """`schema:field`, `schema:field:type`."""

    name: Text
    type: Text | None = None


Term: TypeAlias = Everything | Nothing | Value | Property | HasKey | Tag | HasTags | Field


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: its terms, each once, in order; separators among other terms are left out."""

    terms: tuple[Term, ...]
    left_out: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether it has separators only, so that it finds nothing."""
        return all(isinstance(term, Nothing) for term in self.terms)


def parse(text: str) -> Query:
    """Parse a query.

    Raises:
        InvalidQueryError: it has more than 8,192 characters or 64 terms, or 1,000 words in what ends with a star.
    """
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InvalidQueryError(
            f"The query has {len(text):,} characters; at most {MAX_QUERY_CHARACTERS:,} are allowed."
        )
    parsed = tuple(dict.fromkeys(_term(token) for token in _joined(_tokens(text)))) or (Everything(),)
    kept = tuple(term for term in parsed if not isinstance(term, Nothing)) or parsed[:1]
    left_out = tuple(term.text for term in parsed if isinstance(term, Nothing) and term not in kept)
    if len(kept) > MAX_TERMS:
        raise InvalidQueryError(f"The query has {len(kept)} different terms; at most {MAX_TERMS} are allowed.")
    begun = sum(len(terms.words(value.text)) for value in map(_value_of, kept) if value is not None and value.prefix)
    if begun > MAX_WORDS_BEFORE_STAR:
        raise InvalidQueryError(
            f"The text before a star has {begun:,} words; at most {MAX_WORDS_BEFORE_STAR:,} are allowed.",
            hint="Omit the star, or some of the words before it.",
        )
    return Query(kept, left_out)


def _value_of(term: Term) -> Text | None:
    """What is looked for word by word."""
    match term:
        case Value(value) | Tag(value) | Property(_, value):
            return value
        case Field(name):
            return name
    return None


# --- characters and tokens: each character carries whether it stood in quotes; "" marks where quotes open


_Token: TypeAlias = list[tuple[str, bool]]


def _tokens(text: str) -> Iterator[_Token]:
    closing = text.count('"') // 2 * 2  # an odd last quote is an ordinary character
    token: _Token = []
    quotes = 0
    for character in text:
        inside = quotes % 2 == 1
        if character == '"' and quotes < closing:
            quotes += 1
            if not inside:
                token.append(("", True))
        elif character.isspace() and not inside:
            if token:
                yield token
            token = []
        else:
            token.append((character, inside))
    if token:
        yield token


def _joined(tokens: Iterator[_Token]) -> list[_Token]:
    """The tokens, with those put together that only blanks around their separator keep apart."""
    joined: list[_Token] = []
    for token in tokens:
        if joined and _belongs_to(joined[-1], token):
            joined[-1].extend(token)
        else:
            joined.append(list(token))
    return joined


def _belongs_to(last: _Token, token: _Token) -> bool:
    sep = _separator_at(last)
    if sep > 0 and _part_is(last[:sep], "schema") and sep < len(last) - 1:  # the field's name may have a type behind it
        return _belongs_to(last[sep + 1 :], token)
    return sep == len(last) - 1 if sep >= 0 else _is_separator(token[0])


def _part_is(token: _Token, reserved: str) -> bool:
    return not any(quoted for _, quoted in token) and terms.fold(_text(token)) == reserved


def _is_separator(character: tuple[str, bool]) -> bool:
    sign, quoted = character
    return not quoted and sign in _SEPARATORS


def _separator_at(token: _Token) -> int:
    return next((index for index, character in enumerate(token) if _is_separator(character)), -1)


# --- one token to one term


def _term(token: _Token) -> Term:
    sep = _separator_at(token)
    if sep <= 0 or sep == len(token) - 1:
        return _value(token)
    key, value = _part(token[:sep]), _part(token[sep + 1 :])
    literal = any(quoted for _, quoted in token[:sep])
    if not literal and not key.prefix:
        reserved = _reserved(terms.fold(key.text), value, token[sep + 1 :])
        if reserved is not None:
            return reserved
    if _is_star(key) and _is_star(value):
        return Everything()
    if not terms.words(key.text) and not terms.words(value.text):
        return Nothing(_text(token))
    return HasKey(key) if _is_star(value) else _checked(Property(key, value))


def _value(token: _Token) -> Term:
    part = _part(token)
    if _is_star(part):
        return Everything()
    return Value(part) if terms.words(part.text) else Nothing(_text(token))


def _reserved(key: str, value: Text, token: _Token) -> Term | None:
    if key == "tags":
        return HasTags() if _is_star(value) else Tag(value)
    if key == "properties":
        return HasKey(value)
    if key == "schema":
        return HasKey(Text("schema")) if _is_star(value) else _checked(_field(token))
    return None


def _field(token: _Token) -> Field:
    sep = _separator_at(token)
    if sep <= 0 or sep == len(token) - 1:
        return Field(_part(token))
    kind = _part(token[sep + 1 :])
    return Field(_part(token[:sep]), None if _is_star(kind) else kind)


def _checked(term: Property | Field) -> Property | Field:
    """A key that only begins so must be looked for word by word: refuse what would take too many look-ups."""
    key, value = (term.key, term.value) if isinstance(term, Property) else (term.type, term.name)
    if key is not None and key.prefix and len(terms.words(value.text)) > MAX_WORDS_AFTER_KEY_PREFIX:
        raise InvalidQueryError(f"After a key with a star a value has at most {MAX_WORDS_AFTER_KEY_PREFIX} words.")
    return term


def _part(token: _Token) -> Text:
    end = len(token)
    while end and token[end - 1] == ("*", False):
        end -= 1
    return Text(_text(token[:end]), end < len(token))


def _is_star(part: Text) -> bool:
    return part.prefix and not part.text


def _text(token: _Token) -> str:
    return "".join(character for character, _ in token)
