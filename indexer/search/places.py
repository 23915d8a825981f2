"""Where words stand in a text, without splitting more of it than around what may be them. Pure.

A text is folded once, which is fast; its words are cut, letter by letter, only where the first word that is looked for
stands in the folded text. So a text of 300,000 characters costs what finding a word in it costs.
Invariant: what is found is what comparing all words of the text (`terms.tokens`), one after the other, would find.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import Final

from .. import terms
from .atoms import Text
from .even_text import FEW, EvenText
from .sequences import Span as Span
from .sequences import sequences

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_PIECE: Final = 256
"""Characters of a text that is not ASCII that are folded, and cut, together."""
_SHORT: Final = 256
"""Characters of a text that is split as a whole, once."""


class Places:
    """A text to look for words in.

    Attributes:
        shown: of patterns that it has been looked through for where they stand, as far as it is shown.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._even = EvenText(text)
        self._uneven: _UnevenText | None = None
        self.shown: dict[Text, list[Span]] = {}

    def of(self, words: Sequence[str], *, prefix: bool) -> list[Iterator[Span]]:
        """Where words stand one after the other, by their beginning, in each reading of the text.

        Args:
            prefix: whether the last word may go on.
        """
        if not words:
            return []
        if self._even.finds(words):
            return self._even.places(words, prefix=prefix)
        if self._uneven is None:
            self._uneven = _UnevenText(self.text)
        return self._uneven.places(words, prefix=prefix)


class _UnevenText:
    """A text in which words may stand where a character becomes several, or that are parts of a run that was cut."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._first: dict[str, int] = {}
        self._starts: list[int] | None = None
        if text.isascii():
            self.folded = text.lower()
        else:
            parts = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
            folded = list(map(terms.fold, parts))
            self.folded = "".join(folded)
            self._starts = [*range(0, len(text), _PIECE), len(text)]
            self._begins = [0, *accumulate(map(len, folded))]

    def places(self, words: Sequence[str], *, prefix: bool) -> list[Iterator[Span]]:
        """Where words stand one after the other, by their beginning, in each reading."""
        if not all(self._find(word.strip(terms.CUT), 0) >= 0 for word in words):
            return []
        if len(self.text) <= _SHORT:
            return [sequences(tokens, words, prefix=prefix) for tokens in self._tokens]
        found = self._sequences if len(words) <= FEW else self._long_sequences
        return [found(words, prefix, humps) for humps in (True, False)]

    @cached_property
    def _tokens(self) -> list[list[terms.Token]]:
        """Its words in each reading; once if nothing has a capital letter."""
        cut = terms.tokens(self.text)
        return (
            [cut] if self._starts is None and self.text == self.folded else [cut, terms.tokens(self.text, humps=False)]
        )

    def _long_sequences(self, words: Sequence[str], prefix: bool, humps: bool) -> Iterator[Span]:
        first = next(self._sequences(words[:FEW], False, humps), None)
        if first is not None:
            tokens = terms.tokens_from(self.text, terms.run_start(self.text, first[0], 0), humps=humps)
            yield from sequences(tokens, words, prefix=prefix)

    def _sequences(self, words: Sequence[str], prefix: bool, humps: bool) -> Iterator[Span]:
        find, done = self._finder(words), 0
        inside = words[0].startswith(terms.CUT)
        while (window := self._window(find, done, inside)) is not None:
            start, end = window
            tokens = _Tokens(terms.tokens_from(self.text, terms.run_start(self.text, start, done), humps=humps))
            done, index = end, 0
            while (token := tokens.at(index)) is not None and token.start < end:
                if (last := tokens.ends(index, words, prefix)) is not None:
                    yield token.start, last.end
                done, index = max(done, token.end), index + 1

    def _finder(self, words: Sequence[str]) -> Callable[[int], int]:
        """What says where in the folded text, from a place on, the words may stand next; -1 where they do not."""
        parts = [word.strip(terms.CUT) for word in words]
        if len(parts) == 1 or self._hides_letters:
            return partial(self._find, parts[0])
        pattern = re.compile(r"[\W_]*".join(map(re.escape, parts)))
        return lambda begin: match.start() if (match := pattern.search(self.folded, begin)) else -1

    def _find(self, word: str, begin: int) -> int:
        """The next place of a word from one on, in the folded text; the first one is looked for once."""
        first = self._first.get(word)
        if first is None:
            first = self._first[word] = self.folded.find(word)
        return first if first < 0 or begin <= first else self.folded.find(word, begin)

    @cached_property
    def _hides_letters(self) -> bool:
        """Whether a sign between words becomes letters when it is folded, as `\u2122` does."""
        if self._starts is None:
            return False
        signs = (sign for sign in set(_NOT_ASCII.findall(self.text)) if not sign.isalnum())
        return any(letter.isalnum() for sign in signs for letter in terms.fold(sign))

    def _window(self, find: Callable[[int], int], begin: int, inside: bool) -> Span | None:
        """The next places from one on at which the words may begin.

        Args:
            inside: whether it goes on a run that was cut.
        """
        if self._starts is None:
            start = find(begin)
            while start > 0 and not inside and self._is_inside(start):
                start = find(start + 1)
            return None if start < 0 else (start, start + 1)
        start = find(self._folded_place(begin)) if begin < len(self.text) else -1
        while start >= 0:
            part = bisect_right(self._begins, start) - 1
            first, end = self._starts[part], self._starts[part + 1]
            if not self.text[first:end].isascii():
                return max(begin, first), end
            place = first + start - self._begins[part]
            if place >= begin and (place == 0 or inside or not self._is_inside(place)):
                return place, place + 1
            start = find(start + 1)
        return None

    def _folded_place(self, place: int) -> int:
        """Where the folded text of a place begins, or of the part that it is in."""
        assert self._starts is not None
        part = place // _PIECE
        first = part * _PIECE
        return self._begins[part] + (place - first if self.text[first : first + _PIECE].isascii() else 0)

    def _is_inside(self, start: int) -> bool:
        """Whether no word begins at an ASCII character, since a run goes on there, and without a hump."""
        before, letter = self.text[start - 1], self.text[start]
        goes_on = before.isascii() and before.isalnum() and letter.isalnum()
        return goes_on and not (before.islower() and letter.isupper())


class _Tokens:
    """The words from a place on, cut as far as they are looked at."""

    def __init__(self, tokens: Iterator[terms.Token]) -> None:
        self._coming = tokens
        self._cut: list[terms.Token] = []

    def at(self, index: int) -> terms.Token | None:
        """The word of a number, None behind the last one."""
        while len(self._cut) <= index:
            token = next(self._coming, None)
            if token is None:
                return None
            self._cut.append(token)
        return self._cut[index]

    def ends(self, index: int, words: Sequence[str], prefix: bool) -> terms.Token | None:
        """The last of the words, where all of them stand one after the other from a number on."""
        last = len(words) - 1
        for number, word in enumerate(words):
            token = self.at(index + number)
            if token is None:
                return None
            if not (token.word.startswith(word) if prefix and number == last else token.word == word):
                return None
        return token
