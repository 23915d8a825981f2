"""Characters of texts: what each becomes when case and accents go, and what it is to the words around it. Pure.

Left to others: words and wholes (terms), and where words stand (search).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

SEPARATOR, MARK, LOWER, UPPER, OTHER = range(5)
"""What a character is to its text's words."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SELECTORS: Final = [0x34F, *range(0x180B, 0x180E), 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]
_DROPPED: Final = dict.fromkeys(_SELECTORS)
"""Marks that only choose a letter's shape."""
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_PIECE: Final = 256
"""Characters that are read together: what is ASCII takes no look at each of them."""
_UNEVEN: Final = "A"
"""A letter that no folded text has."""
_CLASSES: Final = bytes(
    ord("a") if chr(code).islower() else ord("A") if chr(code).isupper() else ord(" ") for code in range(128)
).ljust(256)
"""Lower-case letters, upper-case letters, and what is neither."""


def fold(text: str) -> str:
    """The text without case, accents and compatibility forms (NFKD, casefold), nothing else changed."""
    if text.isascii():
        return text.lower()
    return "".join([part.lower() if part.isascii() else part.translate(_FOLDED) for part in _PARTS.findall(text)])


class _Folded(dict[int, str]):
    """What each character becomes. None depends on its neighbours: only marks would change places, and they go."""

    def __missing__(self, code: int) -> str:
        folded = _plain(_plain(chr(code)).casefold())
        if len(self) < _REMEMBERED_CHARACTERS:
            self[code] = folded
        return folded


_FOLDED: Final = _Folded()
_PARTS: Final = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f][^A-Za-z]*")
"""What is not ASCII goes on over signs and digits: a text of other letters has few parts."""
_REMEMBERED_CHARACTERS: Final = 65_536


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", _SURROGATE.sub("\ufffd", text))
    return "".join(character for character in decomposed if not unicodedata.combining(character)).translate(_DROPPED)


@lru_cache(maxsize=16_384)
def sort_of(character: str) -> int:
    """What a character is."""
    if character.isalnum():
        return LOWER if character.islower() else UPPER if character.isupper() else OTHER
    return MARK if unicodedata.category(character).startswith("M") else SEPARATOR


def hump_places(text: str) -> list[int]:
    """Where in a text without uneven characters an upper-case letter follows a lower-case one."""
    if not text.isascii():
        pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        text = "".join([piece if piece.isascii() else _NOT_ASCII.sub(_case, piece) for piece in pieces])
    classes = text.encode().translate(_CLASSES)
    places, hump = [], classes.find(b"aA")
    while hump >= 0:
        places.append(hump + 1)
        hump = classes.find(b"aA", hump + 1)
    return places


def _case(match: re.Match[str]) -> str:
    sort = sort_of(match[0])
    return "a" if sort == LOWER else "A" if sort == UPPER else " "


def cut_at(folded: str, places: Sequence[int]) -> str:
    """A text with a blank at each of some places."""
    return " ".join([folded[start:end] for start, end in pairwise([0, *places, len(folded)])])


class Even(NamedTuple):
    """A text with one folded character for each of its own.

    Args:
        folded: of each character what it becomes; a blank for what is not ASCII and in no word, `A` for what is uneven.
        uneven: where characters stand that become several or none: letters such as `\u00df`, and marks behind letters.
    """

    folded: str
    uneven: Sequence[int]


def even(text: str) -> Even:
    """A text, folded character by character."""
    if text.isascii():
        return Even(text.lower(), ())
    parts, uneven, last = list[str](), list[int](), (-1, False)
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE]
        if piece.isascii():
            parts.append(piece.lower())
        else:
            last = _add_piece(parts, uneven, text, (start, start + len(piece)), last)
    return Even("".join(parts), uneven)


def _add_piece(
    parts: list[str], uneven: list[int], text: str, piece: tuple[int, int], last: tuple[int, bool]
) -> tuple[int, bool]:
    """Add a piece of a text, folded, and where it is uneven.

    Args:
        last: the last character before it that is not ASCII: its place, and whether it is in a word.
    Returns: the same behind it.
    """
    end, piece_end = piece
    for match in _NOT_ASCII.finditer(text, end, piece_end):
        place = match.start()
        sort, letter = _one_letter(match[0])
        in_word = sort != SEPARATOR
        if sort == MARK:  # it belongs to a letter before it
            before, was_in_word = last
            in_word = was_in_word if before == place - 1 else place > 0 and text[place - 1].isalnum()
        if not letter or (sort == MARK and in_word):
            letter = _UNEVEN
            uneven.append(place)
        parts += [text[end:place].lower(), letter]
        end, last = place + 1, (place, in_word)
    parts.append(text[end:piece_end].lower())
    return last


@lru_cache(16_384)
def _one_letter(character: str) -> tuple[int, str]:
    """What a character is, and the one that it becomes; empty if it becomes several."""
    sort = sort_of(character)
    if sort in (MARK, SEPARATOR):
        return sort, " "
    folded = fold(character)
    return sort, folded if len(folded) == 1 and folded.isalnum() else ""
