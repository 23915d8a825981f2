"""A text with one folded character for each of its own, so that patterns find its words where they stand. Pure.

Left to others: words that may stand where a character becomes several (`ß`) or none, and parts of a run that was cut.
Invariant: what is found is what comparing all words of the text (`terms.tokens`), one after the other, would find.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final

from .. import terms
from ..letters import cut_at, even, fold, hump_places
from .sequences import Span as Span
from .sequences import sequences

_BETWEEN = "\0"
FEW: Final = 8
"""Most words that are compared wherever the first of them stands; of more, each word of the text is read once."""
_WORD: Final = re.compile(r"[^\W_]+")


class EvenText:
    """A text to look for words in."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded, self._uneven = even(text)

    def finds(self, words: Sequence[str]) -> bool:
        """Whether it tells where some words stand: none may be in a run with a character that is uneven, nor cut."""
        runs = self._uneven_runs
        return not any(terms.CUT in word or (runs and word in runs) for word in words)

    def places(self, words: Sequence[str], *, prefix: bool) -> list[Iterator[Span]]:
        """Where words stand one after the other, in each reading.

        Args:
            words: at least one, of which it tells where they stand.
            prefix: whether the last word may go on.
        """
        if not all(word in self._folded for word in words):
            return []
        places = [_places(self._folded, tuple(words), prefix)]
        if self._humps:
            places.append(self._between_humps(tuple(words), prefix))
        return places

    def _between_humps(self, words: tuple[str, ...], prefix: bool) -> Iterator[Span]:
        blanks = self._blanks
        for start, end in _places(self._cut, words, prefix):
            yield start - bisect_left(blanks, start), end - bisect_left(blanks, end)

    @cached_property
    def _uneven_runs(self) -> str:
        """The runs with characters that are uneven, folded."""
        text, runs, end = self._text, list[str](), 0
        for place in self._uneven:
            if place >= end:
                start, end = terms.run_start(text, place, 0), terms.run_end(text, place + 1)
                runs.append(fold(text[start:end]))
        return _BETWEEN.join(runs)

    @cached_property
    def _humps(self) -> Sequence[int]:
        return () if self._text == self._folded else hump_places(self._text)

    @cached_property
    def _cut(self) -> str:
        """The folded text with a blank at each hump."""
        return cut_at(self._folded, self._humps)

    @cached_property
    def _blanks(self) -> Sequence[int]:
        return [number + place for number, place in enumerate(self._humps)]


def _places(folded: str, words: tuple[str, ...], prefix: bool) -> Iterator[Span]:
    if len(words) > FEW:
        return _places_of_many(folded, words, prefix)
    return _places_of_few(folded, words, prefix)


def _places_of_many(folded: str, words: tuple[str, ...], prefix: bool) -> Iterator[Span]:
    first = next(_places_of_few(folded, words[:FEW], prefix=False), None)
    if first is not None:
        tokens = ((match[0], match.start(), match.end()) for match in _WORD.finditer(folded, first[0]))
        yield from sequences(tokens, words, prefix=prefix)


def _places_of_few(folded: str, words: tuple[str, ...], prefix: bool) -> Iterator[Span]:
    search, first = _pattern(words, prefix).search, len(words[0])
    match = search(folded)
    while match is not None:
        start, end = match.span()
        yield start, end
        match = search(folded, end if len(words) == 1 else start + first)


@lru_cache(1_024)
def _pattern(words: tuple[str, ...], prefix: bool) -> re.Pattern[str]:
    """The first word stands in front: it is searched for as it is, and all else is looked at where it stands."""
    first, *others = map(re.escape, words)
    following = "".join(rf"[\W_]++{word}" for word in others)
    end = r"[^\W_]*+" if prefix else r"(?![^\W_])"
    return re.compile(rf"{first}(?<![^\W_]{first}){following}{end}")
