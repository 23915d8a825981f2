"""Typing errors: how many a word may have, and how far two words are apart. Pure.

An edit is a letter too many, too few or another one, or two neighbours in each other's place (of which neither is
edited again), as Elasticsearch counts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST_EDITS: Final = 2
"""More the index does not look for."""


def edits_of(word: str) -> int:
    """How many typing errors a word may have and is still looked for."""
    return 0 if len(word) < 5 else 1 if len(word) < 8 else 2


def distance(word: str, other: str, most: int) -> int | None:
    """Edits between two words; None where there are more than `most`."""
    if abs(len(word) - len(other)) > most:
        return None
    before, row = list[int](), list(range(len(other) + 1))
    for number, letter in enumerate(word, 1):
        earlier, before, row = before, row, [number]
        for column, other_letter in enumerate(other, 1):
            edits = min(before[column] + 1, row[column - 1] + 1, before[column - 1] + (letter != other_letter))
            if number > 1 and column > 1 and letter == other[column - 2] and word[number - 2] == other_letter:
                edits = min(edits, earlier[column - 2] + 1)
            row.append(edits)
        if min(row) > most and min(before) > most:
            return None
    return row[-1] if row[-1] <= most else None


def close_words(word: str, others: Iterable[str], most: int) -> list[str]:
    """Those at most so many edits away.

    An edit puts at most one letter into a word that it did not have and takes at most one out of it; to compare that
    is a twentieth of the work, and leaves few words whose edits have to be counted.
    """
    letters = set(word)
    return [
        other
        for other in others
        if abs(len(word) - len(other)) <= most
        and len(letters.symmetric_difference(other)) <= 2 * most
        and distance(word, other, most) is not None
    ]
