"""Texts to terms: how names, tags, values and queries become what is compared.

The index analyses nothing: documents and queries both pass through here, so both sides agree by construction and one
mapping serves every Elasticsearch. A *word* is a run of letters and digits (marks that follow one belong to it), cut
at its humps, where a lower-case letter meets an upper-case one; a *whole* is the text itself. Both lose case and
accents. A text with humps has a second reading, in which they cut nothing: `iPhone` is also the one word `iphone`.

Invariant: a term never exceeds what its field holds (Lucene's longest term is 32,766 bytes), whatever the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

MAX_WHOLE_CHARACTERS: Final = 1024
"""Longest text that is found as a whole; longer ones are found by their words only."""

MAX_FOLDED_CHARACTERS: Final = 2048
"""Longest folded whole; what folds to more (one character may become 18) ends in a digest of the rest."""

MAX_WORD_CHARACTERS: Final = 64
"""Longest word; a longer run of letters and digits counts as several words, one after the other."""

CUT: Final = "~"
"""Stands where a run was cut; no letter or digit."""

_ENCODED: Final = re.compile(r"[%*?\\=~\s\x00-\x20\x7f-\xa0]")
_CODES: Final = [(sign, f"%{ord(sign):x};") for sign in "%*?\\=~ \t\n\r"]
"""The commonest of them; first the sign that stands in the codes of all."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SELECTORS: Final = [0x34F, *range(0x180B, 0x180E), 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]
_DROPPED: Final = dict.fromkeys(_SELECTORS)
"""Marks that only choose a letter's shape."""
_SEPARATOR, _MARK, _LOWER, _UPPER, _OTHER = range(5)


class Token(NamedTuple):
    """A word and where it stands in its text: `text[start:end]`."""

    word: str
    start: int
    end: int


def fold(text: str) -> str:
    """The text without case, accents and compatibility forms (NFKD, casefold), nothing else changed."""
    if text.isascii():
        return text.lower()
    return _plain(_plain(text).casefold())


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", _SURROGATE.sub("\ufffd", text))
    return "".join(character for character in decomposed if not unicodedata.combining(character)).translate(_DROPPED)


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
        folded = _cut_at_humps(text, folded)
    parts = folded.encode().translate(_SIGNS_TO_BLANKS).decode().split()
    if len(text) <= MAX_WORD_CHARACTERS or len(max(parts, key=len, default="")) <= MAX_WORD_CHARACTERS:
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
    cut = folded if folded == joined else _cut_at_humps(joined, folded)
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


def _cut_at_humps(text: str, folded: str) -> str:
    """A folded text of ASCII characters with a blank where a lower-case letter met an upper-case one."""
    classes = text.encode().translate(_CLASSES)
    parts, begin = [], 0
    while (hump := classes.find(b"aA", begin)) >= 0:
        parts.append(folded[begin : hump + 1])
        begin = hump + 1
    return " ".join([*parts, folded[begin:]])


def readings(text: str) -> list[tuple[list[str], bool]]:
    """The words of a text that values begin with, and whether its last word may go on (`noaa-*` ends one).

    First cut at humps; where it has some, uncut too.
    """
    cut_tokens = tokens(text)
    both = [[token.word for token in cut_tokens], words(text, humps=False)]
    open_end = bool(cut_tokens) and cut_tokens[-1].end == len(text)
    return [(reading, open_end) for reading in (both if both[0] != both[1] else both[:1])]


def tokens(text: str, *, humps: bool = True) -> list[Token]:
    """The words of a text with their places, cut at humps or not.

    A place is that of the run of characters that the word came from; words that one run gave share it.
    """
    if text.isascii():
        folded = text.lower()
        runs = _ascii_runs(text if humps else folded)
        return [token for start, end in runs for token in _pieces(folded[start:end], start, end)]
    return [Token(word, start, end) for start, end in _runs(text, humps) for word in _words_of_run(text[start:end])]


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
    parts = "".join(character if _class_of(character) != _SEPARATOR else " " for character in folded).split()
    kept = [part for part in parts if any(character.isalnum() for character in part)]
    return [word for part in kept for word in _cut(part)]


def _runs(text: str, humps: bool) -> list[tuple[int, int]]:
    """Where the runs of letters and digits stand, cut at each change from lower to upper case or not."""
    runs: list[tuple[int, int]] = []
    start, before = -1, _SEPARATOR
    for index, character in enumerate(text):
        sort = _class_of(character)
        if sort == _MARK and start >= 0:
            continue  # belongs to the letter before it; the case seen last stays
        if sort in (_MARK, _SEPARATOR):
            if start >= 0:
                runs.append((start, index))
            start, before = -1, _SEPARATOR
            continue
        if humps and start >= 0 and before == _LOWER and sort == _UPPER:
            runs.append((start, index))
            start = index
        elif start < 0:
            start = index
        before = sort
    if start >= 0:
        runs.append((start, len(text)))
    return runs


_ASCII_RUN: Final = re.compile(r"[0-9A-Za-z]+")
_ASCII_CHANGE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ASCII_SIGNS: Final = re.compile(r"[\x00-/:-@\[-`{-\x7f]+")
# Tables of bytes: a text's own `translate` raises and drops an error for each letter that its table leaves alone.
_SIGNS_TO_BLANKS: Final = bytes(code if chr(code).isalnum() or code > 127 else 32 for code in range(256))
_CLASSES: Final = bytes(
    ord("a") if chr(code).islower() else ord("A") if chr(code).isupper() else ord(" ") for code in range(128)
).ljust(256)
"""Lower-case letters, upper-case letters, and what is neither."""
_BETWEEN: Final = "\0"
_LETTERS: Final = bytes(ord("a") if chr(code).isalnum() else code for code in range(128)).ljust(256)
_LONG_WORD: Final = b"a" * (MAX_WORD_CHARACTERS + 1)
_SIGNS_BUT_BETWEEN_TO_BLANKS: Final = b"\0" + _SIGNS_TO_BLANKS[1:]


def _ascii_runs(text: str) -> list[tuple[int, int]]:
    runs = []
    for match in _ASCII_RUN.finditer(text):
        start, end = match.span()
        for change in _ASCII_CHANGE.finditer(text, start, end):
            if change.start() > start:
                runs.append((start, change.start()))
                start = change.start()
        runs.append((start, end))
    return runs


@lru_cache(maxsize=16_384)
def _class_of(character: str) -> int:
    if character.isalnum():
        return _LOWER if character.islower() else _UPPER if character.isupper() else _OTHER
    return _MARK if unicodedata.category(character).startswith("M") else _SEPARATOR


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
