"""A text's words, piece by piece: only as much of a long text is split as is asked for. Pure.

Invariant: no run of letters and digits goes on from one piece into the next, so the words of all pieces are the text's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from .. import terms
from .places import Places

_PIECE: Final = 8_192
"""Least characters of a piece that is not the last one."""


class Piece(NamedTuple):
    """A part of a text: where it begins, what it is, and its words in both readings, each once."""

    start: int
    places: Places
    words: frozenset[str]


class Pieces:
    """The pieces of a text, each split once, and only when it is looked at."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._read: list[Piece] = []
        self._next = 0

    def __iter__(self) -> Iterator[Piece]:
        number = 0
        while number < len(self._read) or self._next < len(self._text):
            if number == len(self._read):
                self._read.append(self._piece())
            yield self._read[number]
            number += 1

    def _piece(self) -> Piece:
        start, self._next = self._next, terms.run_end(self._text, min(self._next + _PIECE, len(self._text)))
        part = self._text[start : self._next]
        return Piece(start, Places(part), frozenset([*terms.words(part), *terms.words(part, humps=False)]))
