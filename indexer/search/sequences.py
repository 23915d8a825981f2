"""Words that stand one after the other among those of a text, each of which is read once. Pure.

So a text that repeats itself costs no more than another one, however many words are looked for.
Source: Knuth, Morris, Pratt, Fast Pattern Matching in Strings (1977).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

Span = tuple[int, int]


def sequences(tokens: Iterable[tuple[str, int, int]], words: Sequence[str], *, prefix: bool) -> Iterator[Span]:
    """Where words stand one after the other.

    Args:
        tokens: each word of the text, and where it begins and ends.
        words: at least one.
        prefix: whether the last word may go on.
    """
    *first, last = words  # the last one is compared apart: a word that goes on begins no sequence
    line: list[str | None] = [*first, None]
    borders, starts, known = _borders(first), deque[int](maxlen=len(words)), 0
    for word, start, end in tokens:
        starts.append(start)
        if known == len(first) and (word.startswith(last) if prefix else word == last):
            yield starts[0], end
        while known and line[known] != word:
            known = borders[known]
        known += line[known] == word


def _borders(words: Sequence[str]) -> list[int]:
    """Of each beginning of some words, by its length: how many words at its end are those that it begins with."""
    borders, known = [0, 0], 0
    for word in words[1:]:
        while known and words[known] != word:
            known = borders[known]
        known += words[known] == word
        borders.append(known)
    return borders
