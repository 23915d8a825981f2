"""Relevance by the plain words of its specification: an independent BM25 and the tiers, for `reference`.

Nothing of the indexer's own scores is used here. The statistics are those of all entities of the index, other
tenants' too, as a server has them that has just been filled.

Source: Robertson and Zaragoza, *The Probabilistic Relevance Framework: BM25 and Beyond*, as Elasticsearch has it:
k1 = 1.2, b = 0.75, times k1 + 1, and a field's length in one byte (SmallFloat.intToByte4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

State = Mapping[str, Any]
Lines = list[list[str]]
K1, B = 1.2, 0.75
WEIGHTS = {"name": 1.5, "tag": 1.25, "property": 1.0, "schema": 1.0, "description": 0.9, "identity": 0.5}
"""Names, then tags, above other values, above descriptions; kind and namespace least."""
LONG_NAME, SHORT_NAME = 1.25, 0.25
"""What begins a word of a name, and the more of that the fewer words the name has."""
LEAST = 0.5
"""What matches, and no words of it are weighed."""


def kept_length(length: int) -> int:
    """A length as one byte keeps it: exact up to 40, then its four highest bits."""
    if length < 24 + 16:
        return length
    rest = length - 24
    shift = rest.bit_length() - 4
    return 24 + ((rest >> shift) << shift)


class Statistics:
    """What a field's words are worth, by the entities of an index.

    Args:
        documents: for each entity its fields, and of each the lines of words that stand in it.
    """

    def __init__(self, documents: Sequence[Mapping[str, Lines]]) -> None:
        self._lengths: dict[str, list[int]] = {}
        self._with_word: dict[tuple[str, str], int] = {}
        for fields in documents:
            for field, lines in fields.items():
                words = [word for line in lines for word in line]
                if words:
                    self._lengths.setdefault(field, []).append(len(words))
                for word in set(words):
                    self._with_word[field, word] = self._with_word.get((field, word), 0) + 1

    def bm25(self, field: str, asked: Sequence[str], lines: Lines) -> float:
        """What words one after the other are worth in an entity's lines; 0 where they do not stand there."""
        times = sum(
            line[start : start + len(asked)] == list(asked)
            for line in lines
            for start in range(len(line) - len(asked) + 1)
        )
        if not times:
            return 0.0
        lengths = self._lengths[field]
        rarity = sum(self._rarity(len(lengths), self._with_word[field, word]) for word in asked)
        long = kept_length(sum(map(len, lines))) / (sum(lengths) / len(lengths))
        return (K1 + 1) * rarity * times / (times + K1 * (1 - B + B * long))

    @staticmethod
    @lru_cache
    def _rarity(entities: int, with_word: int) -> float:
        return math.log(1 + (entities - with_word + 0.5) / (with_word + 0.5))


def best(
    statistics: Statistics, fields: Mapping[str, Lines], readings: Sequence[Sequence[str]], sorts: Sequence[str]
) -> float:
    """The best of some fields for a text in its readings, weights counted."""
    return max(
        (
            WEIGHTS[sort_of(field)] * statistics.bm25(field, asked, lines)
            for (field, lines), asked in product(fields.items(), readings)
            if asked and sort_of(field) in sorts
        ),
        default=0.0,
    )


def sort_of(field: str) -> str:
    """The sort of texts that a field holds, without its scope."""
    return field.partition(":")[0]


def edits(word: str, other: str) -> int:
    """Letters too many, too few, another one, or two neighbours in each other's place."""

    @lru_cache(None)
    def between(left: int, right: int) -> int:
        if not left or not right:
            return left or right
        least = min(
            between(left - 1, right) + 1,
            between(left, right - 1) + 1,
            between(left - 1, right - 1) + (word[left - 1] != other[right - 1]),
        )
        if left > 1 and right > 1 and word[left - 2 : left] == other[right - 1] + other[right - 2]:
            least = min(least, between(left - 2, right - 2) + 1)
        return least

    return between(len(word), len(other))
