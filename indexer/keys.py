"""Keys as they stand in terms: before a value (`key=value`), before each of its words, and in completions. Pure.

Keys and types come again and again, so what they are in terms is remembered of the latest few thousand.
Invariant: no two keys that differ when folded share a token; a long one is a digest, and no encoded key begins like it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from . import terms

MAX_KEY_CHARACTERS: Final = 100
"""Longest encoded key, in UTF-16 units, that stands in full before a word; a longer one is a digest. Elasticsearch
counts so, and splits a word of more than 255 units."""
_REMEMBERED: Final = 4096
_AFTER_END: Final = "\1"


class Key(NamedTuple):
    """A key as it stands before a value (`encoded`) and before a word (`token`, which takes `cost` bytes there)."""

    encoded: str
    token: str
    folded: str
    cost: int

    @property
    def hashed(self) -> Key:
        """The same with the short token."""
        return self._replace(token=hashed_key_token(self.folded))

    def line(self, words: str) -> str:
        """A value's words, each under this key."""
        start = f"{self.token}="
        return start + words.replace(" ", f" {start}")


@lru_cache(_REMEMBERED)
def key_of(key: str) -> Key:
    """A property key."""
    return _key_of_folded(folded_key(key))


@lru_cache(_REMEMBERED)
def keys_of_type(text: str) -> tuple[Key, ...]:
    """The type of a schema field, as the keys that the field stands under."""
    return tuple(map(_key_of_folded, type_terms(text))) if text else ()


def _key_of_folded(folded: str) -> Key:
    token = key_token(folded)
    return Key(terms.encode(folded), token, folded, len(token.encode("utf-8", "replace")) + 8)


def folded_key(key: str) -> str:
    """A property key as it is compared."""
    return terms.fold(key.strip())


def type_terms(text: str) -> list[str]:
    """What a schema field's type is found by: the whole, its words one after the other, and each word."""
    words = terms.words(text)
    known = [terms.whole(text), " ".join(words), *words, *terms.words(text, humps=False)]
    return [term for term in dict.fromkeys(known) if term is not None]


def key_token(key: str) -> str:
    """The token of a folded key that stands before a word in `pair_words` and `typed_words`."""
    encoded = terms.encode(key)
    return encoded if _utf16_units(encoded) <= MAX_KEY_CHARACTERS else hashed_key_token(key)


def key_tokens(key: str) -> list[str]:
    """All that may stand before a word under a folded key: the digest also of a short one, where many keys are long.

    A key in full also where its characters alone are few: so it stands in documents from before units were counted.
    """
    encoded, hashed = terms.encode(key), hashed_key_token(key)
    return [encoded, hashed] if len(encoded) <= MAX_KEY_CHARACTERS else [hashed]


def _utf16_units(text: str) -> int:
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def hashed_key_token(key: str) -> str:
    """The short token of a folded key; no encoded key begins like it."""
    return f"~{terms.short_digest(key)}"


_END: Final = "\0"
"""Between the text to complete and the text to show: it sorts before every other sign, so a text comes before what goes
on behind it."""


def suggestion(tenant: str, folded: str, text: str) -> str:
    """The term of a completion: tenant, folded text to complete, text to show; terms in order are texts in order."""
    return f"{completion_start(tenant, folded)}{_END}{text}"


def completion_start(tenant: str, folded: str) -> str:
    """What the terms of all completions of a folded text begin with."""
    return f"{tenant}/{folded.replace(_END, _AFTER_END)}"


def suggested(term: str) -> str:
    """The text that a completion shows."""
    return term.partition(_END)[2]
