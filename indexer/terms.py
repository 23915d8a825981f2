"""Texts to terms: how names, tags, values and queries become what is compared.

The index analyses nothing: documents and queries both pass through here, so both sides agree by construction and one
mapping serves every Elasticsearch. A *word* is a run of letters and digits (marks that follow one belong to it), cut
at its humps, where a lower-case letter meets an upper-case one; a *whole* is the text itself. Both lose case and
accents. A text with humps has a second reading, in which they cut nothing: `iPhone` is also the one word `iphone`.

Invariant: a term never exceeds what its field holds (Lucene's longest term is 32,766 bytes), whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from .letters import LOWER, MARK, SEPARATOR, UPPER, cut_at, even, hump_places, sort_of
from .letters import fold as fold

MAX_WHOLE_CHARACTERS: Final = 1024
"""Longest text that is found as a whole; longer ones are found by their words only."""

MAX_FOLDED_CHARACTERS: Final = 2048
"""Longest folded whole; what folds to more (one character may become 18) ends in a digest of the rest."""

MAX_WORD_CHARACTERS: Final = 64
"""Longest word; a longer run of letters and digits counts as several words, one after the other."""

CUT: Final = "~~~"
"""Stands where a run was cut; no letter or digit, and more of them than a typing error may have edits."""

_ENCODED: Final = re.compile(r"[%*?\\=~\s\x00-\x20\x7f-\xa0]")
_CODES: Final = [(sign, f"%{ord(sign):x};") for sign in "%*?\\=~ \t\n\r"]
"""The commonest of them; first the sign that stands in the codes of all."""


class Token(NamedTuple):
    """A word and where it stands in its text: `text[start:end]`."""

    word: str
    start: int
    end: int


def whole(text: str) -> str | None:
    """The term of a text as a whole, None where it is longer than `MAX_WHOLE_CHARACTERS`."""
    if len(text) > MAX_WHOLE_CHARACTERS:
        return None
    return _bounded(fold(text.strip()))


def whole_prefix(text: str) -> str | None:
    """The beginning that wholes starting with a text have, None where no whole is that long."""
    if len(text) > MAX_WHOLE_CHARACTERS:
        return None
    folded = fold(text.lstrip())
    return folded if len(folded) <= MAX_FOLDED_CHARACTERS else None


def _bounded(folded: str) -> str:
    if len(folded) <= MAX_FOLDED_CHARACTERS:
        return folded
    return f"{folded[:MAX_FOLDED_CHARACTERS]}~{short_digest(folded)}"


def short_digest(text: str) -> str:
    """12 characters that stand for a text too long to be a term."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def words(text: str, *, humps: bool = True) -> list[str]:
    """The words of a text, folded, in order: those of `tokens`, without looking for their places.

    ASCII signs end every run, so what stands between them is split apart from the rest, and nearly always plain.
    """
    if text.isascii():
        return _ascii_words(text if humps else text.lower())
    folded, uneven = even(text)
    if not uneven and folded.isascii():
        return _split(cut_at(folded, hump_places(text)) if humps else folded)
    parts = _ASCII_SIGNS.split(text)
    return [
        word
        for part in parts
        for word in (
            _ascii_words(part if humps else part.lower())
            if part.isascii()
            else [token.word for token in tokens(part, humps=humps)]
        )
    ]


def _ascii_words(text: str) -> list[str]:
    folded = text.lower()
    if folded != text:
        folded = cut_at(folded, hump_places(text))
    return _split(folded)


def _split(folded: str) -> list[str]:
    parts = folded.encode().translate(_SIGNS_TO_BLANKS).decode().split()
    if len(folded) <= MAX_WORD_CHARACTERS or len(max(parts, key=len, default="")) <= MAX_WORD_CHARACTERS:
        return parts
    return [piece for word in parts for piece in _cut(word)]


class Lines(NamedTuple):
    """What some texts are found by: each one's words as one line, and its whole (None where it is too long)."""

    lines: list[str]
    uncut: list[str]
    """The line of the reading without humps, empty where it is the same."""
    wholes: list[str | None]


def lines_and_wholes(texts: Sequence[str]) -> Lines:
    """Of each text its words joined by blanks, in both readings, and its whole: all texts at once.

    The same as `words` and `whole` one by one. Texts of ASCII characters only, which nearly all are, are folded and cut
    together as one long text, between signs that none of them has.
    """
    joined = _BETWEEN.join(texts)
    if joined.isascii() and joined.count(_BETWEEN) == len(texts) - 1:
        return _ascii_lines_and_wholes(texts, joined)
    plain = [index for index, text in enumerate(texts) if text.isascii() and _BETWEEN not in text]
    kept = [texts[index] for index in plain]
    done = dict(zip(plain, zip(*_ascii_lines_and_wholes(kept, _BETWEEN.join(kept)), strict=True), strict=True))
    results = [done.get(index) or _line_and_whole(text) for index, text in enumerate(texts)]
    return Lines([line for line, _, _ in results], [line for _, line, _ in results], [whole for _, _, whole in results])


def _line_and_whole(text: str) -> tuple[str, str, str | None]:
    line, uncut = " ".join(words(text)), " ".join(words(text, humps=False))
    return line, "" if uncut == line else uncut, whole(text)


def _ascii_lines_and_wholes(texts: Sequence[str], joined: str) -> Lines:
    if not texts:
        return Lines([], [], [])
    folded = joined.lower()
    cut = folded if folded == joined else cut_at(folded, hump_places(joined))
    lines = _ascii_lines(texts, cut)
    uncut = [""] * len(texts)
    if len(cut) > len(folded):  # there are humps
        without = _ascii_lines([text.lower() for text in texts], folded)
        uncut = ["" if uncut_line == line else uncut_line for uncut_line, line in zip(without, lines, strict=True)]
    wholes: list[str | None] = [part.strip() for part in folded.split(_BETWEEN)]
    if len(joined) > MAX_WHOLE_CHARACTERS:
        wholes = [
            whole if len(text) <= MAX_WHOLE_CHARACTERS else None for text, whole in zip(texts, wholes, strict=True)
        ]
    return Lines(lines, uncut, wholes)


def _ascii_lines(texts: Sequence[str], cut: str) -> list[str]:
    """The line of each text, of all of them joined, folded and cut at humps (or not)."""
    spaced = cut.encode().translate(_SIGNS_BUT_BETWEEN_TO_BLANKS)
    while b"  " in spaced:
        spaced = spaced.replace(b"  ", b" ")
    spaced = spaced.replace(b" \0", b"\0").replace(b"\0 ", b"\0").strip(b" ")
    lines = spaced.decode().split(_BETWEEN)
    if _LONG_WORD in spaced.translate(_LETTERS):
        lines = [" ".join(_ascii_words(text)) for text in texts]
    return lines


@lru_cache(256)
def readings(text: str) -> Sequence[tuple[list[str], bool]]:
    """The words of a text that values begin with, and whether its last word may go on (`noaa-*` ends one).

    First cut at humps; where it has some, uncut too. A query's text is looked for in many fields and documents, so what
    it was split into is remembered.
    """
    cut_tokens = tokens(text)
    both = [[token.word for token in cut_tokens], words(text, humps=False)]
    open_end = bool(cut_tokens) and cut_tokens[-1].end == len(text)
    return [(reading, open_end) for reading in (both if both[0] != both[1] else both[:1])]


def tokens(text: str, *, humps: bool = True) -> list[Token]:
    """The words of a text with their places, cut at humps or not.

    A place is that of the run of characters that the word came from; words that one run gave share it.
    """
    return list(tokens_from(text, 0, humps=humps))


def tokens_from(text: str, start: int, *, humps: bool) -> Iterator[Token]:
    """The same from a place on where no run goes on, one by one."""
    if text.isascii():
        for begin, end in _ascii_runs(text, start, humps):
            yield from _pieces(text[begin:end].lower(), begin, end)
    else:
        for begin, end in _runs(text, start, humps):
            for word in _words_of_run(text[begin:end]):
                yield Token(word, begin, end)


def run_start(text: str, index: int, least: int) -> int:
    """Where the run begins that goes on at a place; not before the least place."""
    while index > least and sort_of(text[index - 1]) != SEPARATOR:
        index -= 1
    return index


def run_end(text: str, index: int) -> int:
    """The next place, from one on, in front of which a run cannot go on."""
    while 0 < index < len(text) and sort_of(text[index - 1]) != SEPARATOR:
        index += 1
    return index


def _pieces(run: str, start: int, end: int) -> list[Token]:
    return [Token(word, start, end) for word in _cut(run)]


def _cut(run: str) -> list[str]:
    """A run as words; where it is cut, both sides are marked, so that neither is taken for a word of its own."""
    if len(run) <= MAX_WORD_CHARACTERS:
        return [run]
    parts = [run[start : start + MAX_WORD_CHARACTERS] for start in range(0, len(run), MAX_WORD_CHARACTERS)]
    return [CUT * (number > 0) + part + CUT * (number < len(parts) - 1) for number, part in enumerate(parts)]


def _words_of_run(run: str) -> list[str]:
    folded = fold(run)
    if len(folded) <= MAX_WORD_CHARACTERS and folded.isalnum():
        return [folded]
    parts = "".join(character if sort_of(character) != SEPARATOR else " " for character in folded).split()
    kept = [part for part in parts if any(character.isalnum() for character in part)]
    return [word for part in kept for word in _cut(part)]


def _runs(text: str, first: int, humps: bool) -> Iterator[tuple[int, int]]:
    """Where the runs of letters and digits stand, cut at each change from lower to upper case or not."""
    start, before = -1, SEPARATOR
    for index in range(first, len(text)):
        sort = sort_of(text[index])
        if sort == MARK and start >= 0:
            continue  # belongs to the letter before it; the case seen last stays
        if sort in (MARK, SEPARATOR):
            if start >= 0:
                yield start, index
            start, before = -1, SEPARATOR
            continue
        if humps and start >= 0 and before == LOWER and sort == UPPER:
            yield start, index
            start = index
        elif start < 0:
            start = index
        before = sort
    if start >= 0:
        yield start, len(text)


_ASCII_RUN: Final = re.compile(r"[0-9A-Za-z]+")
_ASCII_CHANGE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ASCII_SIGNS: Final = re.compile(r"[\x00-/:-@\[-`{-\x7f]+")
# Tables of bytes: a text's own `translate` raises and drops an error for each letter that its table leaves alone.
_SIGNS_TO_BLANKS: Final = bytes(code if chr(code).isalnum() or code > 127 else 32 for code in range(256))
_BETWEEN: Final = "\0"
_LETTERS: Final = bytes(ord("a") if chr(code).isalnum() else code for code in range(128)).ljust(256)
_LONG_WORD: Final = b"a" * (MAX_WORD_CHARACTERS + 1)
_SIGNS_BUT_BETWEEN_TO_BLANKS: Final = b"\0" + _SIGNS_TO_BLANKS[1:]


def _ascii_runs(text: str, first: int, humps: bool) -> Iterator[tuple[int, int]]:
    for match in _ASCII_RUN.finditer(text, first):
        start, end = match.span()
        for change in _ASCII_CHANGE.finditer(text, start, end) if humps else ():
            if change.start() > start:
                yield start, change.start()
                start = change.start()
        yield start, end


def encode(term: str) -> str:
    """A term for use inside a composed one (`key=value`): `%xx;` for blanks, controls and every sign with a meaning.

    Characters are encoded one by one, so prefixes stay prefixes and no text can forge another's composed term.
    """
    if term.isascii() and (encoded := _commonly_encoded(term)).isprintable():  # nearly all terms
        return encoded
    return _ENCODED.sub(lambda match: f"%{ord(match[0]):x};", term)


def _commonly_encoded(text: str) -> str:
    for sign, code in _CODES:
        text = text.replace(sign, code)
    return text


def encode_all(terms: Sequence[str]) -> list[str]:
    """`encode` of many terms: of ASCII characters only, which nearly all are, as one long text."""
    joined = _BETWEEN.join(terms)
    if joined.isascii() and joined.count(_BETWEEN) == len(terms) - 1:
        encoded = _commonly_encoded(joined)
        if encoded.replace(_BETWEEN, "").isprintable():
            return encoded.split(_BETWEEN)
    return [encode(term) for term in terms]


def pair(key: str, value: str) -> str:
    """The composed term of a folded key and a folded whole value."""
    return f"{encode(key)}={encode(value)}"
