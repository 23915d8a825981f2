"""The atoms of a query: what one term asks for, and how a token of the query's text is read as one.

    term    value | value* | key:value (each part with or without a star) | key:*
            tags:x | tags:* | properties:key | schema:field | schema:field:type

The first `:` or `=` outside quotes separates (of a schema's field the second one too), blanks around it are ignored.
Double quotes keep a text together and take every sign in it literally; a quote without a partner is an ordinary
character, and `"tags":x` asks for a property of that name. A star counts at the end of a part only. Pure.
Left to others: how terms stand together (grammar).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from .. import terms
from ..errors import InvalidQueryError

MAX_WORDS_AFTER_KEY_PREFIX: Final = 16
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


def value_of(term: Term) -> Text | None:
    """What is looked for word by word."""
    match term:
        case Value(value) | Tag(value) | Property(_, value):
            return value
        case Field(name):
            return name
    return None


def most_words(value: Text) -> int:
    """How many words are looked for one after the other, in the reading that has most."""
    return max(len(words) for words, _ in terms.readings(value.text))


# --- characters and tokens: each character carries whether it stood in quotes; "" marks where quotes open


Token: TypeAlias = list[tuple[str, bool]]


def tokens(text: str) -> list[Token]:
    """The tokens of a query: split at white space outside quotes, except around a separator."""
    return _joined(_split(text))


def _split(text: str) -> Iterator[Token]:
    closing = text.count('"') // 2 * 2  # an odd last quote is an ordinary character
    token: Token = []
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


def _joined(tokens: Iterator[Token]) -> list[Token]:
    """The tokens, with those put together that only blanks around their separator keep apart."""
    joined: list[Token] = []
    for token in tokens:
        if joined and _belongs_to(joined[-1], token):
            joined[-1].extend(token)
        else:
            joined.append(list(token))
    return joined


def _belongs_to(last: Token, token: Token) -> bool:
    sep, end = _separator_at(last), len(last) - 1
    if 0 < sep < end and _part_is(last[:sep], "schema"):  # the field's name may have a type behind it
        sep = _separator_at(last, sep + 1)
    return sep == end if sep >= 0 else _is_separator(token[0])


def _part_is(token: Token, reserved: str) -> bool:
    return not any(quoted for _, quoted in token) and terms.fold(text_of(token)) == reserved


def _is_separator(character: tuple[str, bool]) -> bool:
    sign, quoted = character
    return not quoted and sign in _SEPARATORS


def _separator_at(token: Token, start: int = 0) -> int:
    return next((index for index in range(start, len(token)) if _is_separator(token[index])), -1)


# --- one token to one term


def term_of(token: Token) -> Term:
    """What a token asks for."""
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
        return Nothing(text_of(token))
    return HasKey(key) if _is_star(value) else _checked(Property(key, value))


def _value(token: Token) -> Term:
    part = _part(token)
    if _is_star(part):
        return Everything()
    return Value(part) if terms.words(part.text) else Nothing(text_of(token))


def _reserved(key: str, value: Text, token: Token) -> Term | None:
    if key == "tags":
        return HasTags() if _is_star(value) else Tag(value)
    if key == "properties":
        return HasKey(value)
    if key == "schema":
        return HasKey(Text("schema")) if _is_star(value) else _checked(_field(token))
    return None


def _field(token: Token) -> Field:
    sep = _separator_at(token)
    if sep <= 0 or sep == len(token) - 1:
        return Field(_part(token))
    kind = _part(token[sep + 1 :])
    return Field(_part(token[:sep]), None if _is_star(kind) else kind)


def _checked(term: Property | Field) -> Property | Field:
    """A key that only begins so must be looked for word by word: refuse what would take too many look-ups."""
    key, value = (term.key, term.value) if isinstance(term, Property) else (term.type, term.name)
    if key is not None and key.prefix and most_words(value) > MAX_WORDS_AFTER_KEY_PREFIX:
        raise InvalidQueryError(f"After a key with a star a value has at most {MAX_WORDS_AFTER_KEY_PREFIX} words.")
    return term


def _part(token: Token) -> Text:
    end = len(token)
    while end and token[end - 1] == ("*", False):
        end -= 1
    return Text(text_of(token[:end]), end < len(token))


def _is_star(part: Text) -> bool:
    return part.prefix and not part.text


def text_of(token: Token) -> str:
    """Its characters."""
    return "".join(character for character, _ in token)
