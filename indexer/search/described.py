"""An entity's texts to look for words in: what cannot contain them is neither split nor, of a schema, read. Pure.

Short texts are folded together and searched as one, so that a term that an entity lacks costs one look at it, however
many properties or columns it has; a schema is parsed only if its JSON contains what is looked for.
Invariant: no text that a term matches is passed over; the texts keep their order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

from .. import terms
from ..documents import SCOPES, Entry, Scope, entries, schema_entry, scope_properties
from ..schema_fields import SchemaField, schema_fields
from .edits import close_words
from .grammar import Text
from .pieces import Pieces
from .places import Places

_CERTAIN: Final = terms.MAX_FOLDED_CHARACTERS
"""A whole that is longer when folded ends with a digest, which no text contains."""
_SHORT_CHARACTERS: Final = 4_096
"""Longest text that is searched together with others; a longer one is folded once, by itself."""
_KEPT_SCHEMAS: Final = 64
"""Schemas that stay split for later searches: they are large, and change seldom."""
_KEPT_CHARACTERS: Final = 65_536
"""Longest of them, so that all of them take at most about 30 MiB."""
_HEAD_CHARACTERS: Final = 8_192
"""Characters at the beginning of a long text that are searched first."""
_BETWEEN, _WHOLE = "\0", "\1"


class Needles(NamedTuple):
    """What of a pattern is looked for in texts.

    Args:
        words: of each reading the longest word: one of them is in every folded text that has the pattern's words.
        whole: the pattern as a whole, folded; None if no text can be it.
        exact: what one of has to be in the line (`_Texts._lines`) of a text that matches.
        starts: `words` as they stand among others.
        ascii: whether the pattern is of ASCII characters only.
    """

    words: tuple[str, ...]
    whole: str | None
    exact: tuple[str, ...]
    starts: tuple[str, ...]
    ascii: bool


@lru_cache(256)
def needles_of(pattern: Text) -> Needles:
    """What to look for before a text is split."""
    read = [reading for reading in terms.readings(pattern.text) if reading[0]]
    exact = [f" {' '.join(words)}{'' if pattern.prefix and open_end else ' '}" for words, open_end in read]
    start = whole_of(pattern)
    if start is not None:
        exact.append(f"{_WHOLE}{start}" if pattern.prefix else f"{_WHOLE}{start}{_WHOLE}")
    words = dict.fromkeys(_longest(words) for words, _ in read)
    is_open = pattern.prefix or terms.CUT in "".join(exact)
    starts = (f" {word}" if is_open else f" {word} " for word in words)
    return Needles(tuple(words), start, tuple(exact), tuple(starts), pattern.text.isascii())


@lru_cache(256)
def whole_of(pattern: Text) -> str | None:
    """What a text is that matches a pattern as a whole, or begins with; None if the pattern is too long for that."""
    return terms.whole_prefix(pattern.text) if pattern.prefix else terms.whole(pattern.text)


def _longest(words: Sequence[str]) -> str:
    return max((word.strip(terms.CUT) for word in words), key=len)


class _Texts:
    """Some entries that are searched as one text."""

    def __init__(self, own: Sequence[Entry]) -> None:
        self._own = own

    def entry(self, number: int) -> Entry:
        """One of them."""
        return self._own[number]

    @property
    def _texts(self) -> Sequence[str]:
        return [entry.text for entry in self._own]

    @property
    def _paths(self) -> Sequence[str]:
        """What they are found by as a whole besides their texts; none, or one of each."""
        return ()

    def __iter__(self) -> Iterator[Entry]:
        return (self.entry(number) for number in range(len(self._texts)))

    def having(self, needles: Needles) -> Iterator[Entry]:
        """Those that match, and perhaps a few more, one by one."""
        folded, whole = self._folded, needles.whole
        if any(word in folded for word in needles.words) or (whole is not None and whole[:_CERTAIN] in folded):
            yield from self._with(needles.exact)

    def near(self, word: str, most: int) -> Iterator[Entry]:
        """Those with a word at most so many edits away."""
        if close := close_words(word, self._words, most):
            yield from self._with([f" {other} " for other in close])

    def _with(self, needles: Sequence[str]) -> Iterator[Entry]:
        lines, ends = self._lines
        places = [lines.find(needle) for needle in needles]
        while any(place >= 0 for place in places):
            number = bisect_right(ends, min(place for place in places if place >= 0))
            yield self.entry(number)
            end = ends[number]
            places = [
                lines.find(needle, end) if 0 <= place < end else place
                for needle, place in zip(needles, places, strict=True)
            ]

    @cached_property
    def _folded(self) -> str:
        return terms.fold(_BETWEEN.join([*self._texts, *self._paths]))

    @cached_property
    def _lines(self) -> tuple[str, list[int]]:
        """Of each entry its words in both readings and its wholes, all in one text, and where those of each end."""
        split = terms.lines_and_wholes(self._texts)
        paths = terms.lines_and_wholes(self._paths).wholes if self._paths else split.wholes
        joined = [
            f" {line} {_BETWEEN} {other} {_WHOLE}{whole or ''}{_WHOLE}{path or ''}{_WHOLE}"
            for line, other, whole, path in zip(split.lines, split.uncut, split.wholes, paths, strict=True)
        ]
        return "".join(joined), list(accumulate(map(len, joined)))

    @cached_property
    def _words(self) -> frozenset[str]:
        lines, uncut, _ = terms.lines_and_wholes(self._texts)
        return frozenset(word for line in (*lines, *uncut) for word in line.split(" "))


class _LongText(_Texts):
    """One long entry: it is looked at by itself."""

    def having(self, needles: Needles) -> Iterator[Entry]:
        yield from self

    def near(self, word: str, most: int) -> Iterator[Entry]:
        yield from self


class _Schema(_Texts):
    """The fields of a schema, which is parsed only if its JSON contains what is looked for.

    A field's name stands in the JSON as it is, unless something is escaped; a path stands there name by name, and no
    word goes over a dot.
    """

    def __init__(self, json_text: str) -> None:
        self._json = json_text

    def entry(self, number: int) -> Entry:
        return schema_entry(self._fields[number])

    @cached_property
    def _fields(self) -> Sequence[SchemaField]:
        fields = schema_fields(self._json)
        return [SchemaField(self._json, "", "")] if fields is None else fields

    @cached_property
    def _texts(self) -> Sequence[str]:
        return [field.name for field in self._fields]

    @cached_property
    def _paths(self) -> Sequence[str]:
        paths = [field.path for field in self._fields]
        return () if paths == self._texts else paths

    def having(self, needles: Needles) -> Iterator[Entry]:
        if needles.words and not self._may_have(needles):
            return
        yield from super().having(needles)

    def _may_have(self, needles: Needles) -> bool:
        if "\\" in self._json:
            return True
        if not any(word in self._folded_json for word in needles.words):
            return False
        if not (needles.ascii and self._json.isascii()):
            return True
        return any(start in self._line for start in needles.starts)

    @cached_property
    def _folded_json(self) -> str:
        return terms.fold(self._json)

    @cached_property
    def _line(self) -> str:
        """The words of the JSON, in both readings."""
        (line,), (uncut,), _ = terms.lines_and_wholes([self._json])
        return f" {line} {uncut} "


@lru_cache(_KEPT_SCHEMAS)
def _kept_schema(json_text: str) -> _Schema:
    return _Schema(json_text)


def _schema(json_text: str) -> _Schema:
    return _kept_schema(json_text) if len(json_text) <= _KEPT_CHARACTERS else _Schema(json_text)


class SharedTexts:
    """The texts of some entities: what several of them have is folded, and looked through, once."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, bool], Places] = {}
        self.pieces: dict[str, Pieces] = {}


class Described:
    """An entity's texts in some scopes, each folded once, and only when it is looked at.

    Args:
        shared: the texts of all entities of a page.
    """

    def __init__(
        self, state: Mapping[str, Any], scopes: Collection[Scope] = SCOPES, shared: SharedTexts | None = None
    ) -> None:
        self._state = state
        self.scopes = [scope for scope in SCOPES if scope in scopes]
        self._shared = SharedTexts() if shared is None else shared

    def having(self, pattern: Text, *sorts: str) -> Iterator[Entry]:
        """The entries that a pattern may match, names first; of all sorts, or of some."""
        needles = needles_of(pattern)
        for group in self._groups_of(sorts):
            for entry in group.having(needles):
                if not sorts or entry.sort in sorts:
                    yield entry

    def near(self, word: str, most: int) -> Iterator[Entry]:
        """The entries that may have a word at most so many edits away from one."""
        for group in self._groups:
            yield from group.near(word, most)

    def tags(self) -> Iterator[Entry]:
        """Its tags."""
        return (entry for group in self._groups_of(("tag",)) for entry in group if entry.sort == "tag")

    def places(self, text: str) -> Places:
        """A text to look for words in."""
        places = self._shared.places.get((text, False))
        if places is None:
            places = self._shared.places[text, False] = Places(text)
        return places

    def head(self, text: str) -> Places | None:
        """The beginning of a text that is much longer, up to the end of a word."""
        if len(text) <= 2 * _HEAD_CHARACTERS:
            return None
        places = self._shared.places.get((text, True))
        if places is None:
            places = self._shared.places[text, True] = Places(text[: terms.run_end(text, _HEAD_CHARACTERS)])
        return places

    def pieces(self, text: str) -> Pieces:
        """A text to look for words in that resemble one."""
        pieces = self._shared.pieces.get(text)
        if pieces is None:
            pieces = self._shared.pieces[text] = Pieces(text)
        return pieces

    def properties(self) -> Iterator[tuple[Scope, str, str]]:
        """Scope, key and value of each property, the schema's text included."""
        for scope in self.scopes:
            for key, value in scope_properties(self._state, scope):
                yield scope, key, value

    def _groups_of(self, sorts: Sequence[str]) -> list[_Texts]:
        """The groups that entries of some sorts can be in."""
        if not sorts:
            return self._groups
        wanted = {sort == "schema" for sort in sorts}
        return [group for group in self._groups if isinstance(group, _Schema) in wanted]

    @cached_property
    def _groups(self) -> list[_Texts]:
        groups: list[_Texts] = []
        short: list[Entry] = []
        for entry in self._unread():
            if isinstance(entry, str) or len(entry.text) > _SHORT_CHARACTERS:
                if short:
                    groups.append(_Texts(short))
                    short = []
                groups.append(_schema(entry) if isinstance(entry, str) else _LongText([entry]))
            else:
                short.append(entry)
        return [*groups, _Texts(short)] if short else groups

    def _unread(self) -> Iterator[Entry | str]:
        """Its entries in order, names first; in place of a schema's fields its JSON."""
        for entry in entries(self._state, schema=False):
            if entry.scope is None or entry.scope in self.scopes:
                yield entry.text if entry.sort == "schema" else entry
