"""What a source finds in its system: entities with their metadata, and what could not be read.

Values only. A source yields `Found`, `Past` and `Problem` in any order; `plan` compares with what the journal holds.
Invariant: a `Found` contains everything its source says of the entity; what it omits is removed there too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..schemas.hashing import canonical_json
from ..schemas.limits import MAX_ENTITY_BYTES, MAX_KEY_BYTES
from ..schemas.urn import Urn

BUDGET_BYTES: Final = MAX_ENTITY_BYTES * 3 // 4
"""Maximum size of one source's metadata in an entity: the rest is for other sources and for people."""
TEXT_CHARS: Final = 65_536
"""Maximum length of a description or value; longer ones are truncated, and say so."""
_KEY_CHARS: Final = 200
_CUT_MARK: Final = " … [cut: {kept:,} of {total:,} characters kept]"

Schema = tuple[tuple[str, str], ...]
"""(name, type) of each column."""


@dataclass(frozen=True, slots=True)
class Found:
    """An entity of the system.

    Attributes:
        entity: its URN; it has a namespace.
        description: what the system says of it; None: nothing.
        schema: its columns; None: it has none.
        properties: SYSTEM properties by their keys without the source's prefix.
        tags: SYSTEM tags.
        upstreams: the data that it is made of by its own definition (a view), sorted; None: it is no such thing.
        columns: of its columns those upstream, as `<name of the data>.<column>`, where that is known.
        made_by: what makes it, the last part of a program's URN.
        keeps: of what nothing is known this time, so that what the source said of it before stays: keys of properties
            without the prefix, beginnings of such keys with a star behind them, `description`, `schema`, `tags`.
        leaves: keys of properties without the prefix that somebody else writes and that stay as they are.
    """

    entity: Urn
    description: str | None = None
    schema: Schema | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    upstreams: tuple[Urn, ...] | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    made_by: str = "view"
    keeps: frozenset[str] = frozenset()
    leaves: frozenset[str] = frozenset()

    def is_kept(self, key: str) -> bool:
        """Whether what was said of a key before stays where nothing is said of it now."""
        if key in self.keeps or key in self.leaves:
            return True
        return any(key.startswith(name[:-1]) for name in self.keeps if name.endswith("*"))

    def beside(self, properties: Mapping[str, str]) -> Found:
        """What is to be stated of an entity that has these SYSTEM properties, where others write some of them too."""
        return self

    @property
    def stated(self) -> dict[str, str]:
        """Its properties, those about its columns' upstreams included."""
        return {**self.properties, **{f"upstream.{name}": ", ".join(of) for name, of in self.columns.items()}}


@dataclass(frozen=True, slots=True)
class Past:
    """Runs in the system that are over, told together and once: those of one invocation, of one file of events.

    Attributes:
        id: tells it from every other of the source; what was told by it is not told again.
        facts: events of lineage, in any order.
    """

    id: str
    facts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the system that could not be read: the read is incomplete, so nothing is deleted.

    Attributes:
        what: name of the thing in its system.
        why: one sentence, without secrets.
    """

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a read.

    Attributes:
        doing: the current step, for people.
        done: number done.
        of: total number; None: not known.
    """

    doing: str
    done: int = 0
    of: int | None = None


def fitted(found: Found) -> Found:
    """What was found within the limits of events and entities: long texts are cut, and say so.

    Texts lose what UTF-8 cannot carry. Properties whose keys are too long, and the last columns of a schema that is
    too large, are left out.
    """
    if _is_plain(found):
        return found
    cut = _cut(found, TEXT_CHARS)
    limit = TEXT_CHARS
    while _size(cut) > BUDGET_BYTES and limit > 1:
        limit //= 2
        cut = _cut(found, limit)
    return cut


def _is_plain(found: Found) -> bool:
    """Whether nothing is to be cut, which nearly always holds and is seen quickly."""
    names, kinds = zip(*found.schema, strict=True) if found.schema else ((), ())
    said = [found.description] if found.description else []
    texts = [*found.properties.values(), *names, *kinds, *found.tags, *said]
    keys = [*found.properties, *found.columns]
    of = [column for columns in found.columns.values() for column in columns]
    joined = "".join((*texts, *keys, *of))
    if not (all(texts) and all(keys) and all(of) and all(found.columns.values()) and found.schema != ()):
        return False
    if found.description == "" or any(len(key) > _KEY_CHARS for key in (*keys, *found.tags)):
        return False
    if 6 * len(joined) + 60 * (len(texts) + len(keys) + len(of)) > BUDGET_BYTES:
        return False
    return joined.isascii() and list(found.tags) == sorted(set(found.tags))


def _cut(found: Found, limit: int) -> Found:
    fields = found.schema
    if fields is not None:
        longest = max(limit * 4, 64)  # columns, each with a name and a type of some tens of characters
        fields = tuple((_text(name, limit), _text(kind, limit)) for name, kind in fields[:longest] if name)
        fields = tuple((name, kind or "unknown") for name, kind in fields if name)
    properties = {
        _text(key, limit): text
        for key, value in found.properties.items()
        if _fits(key) and (text := _text(value, limit)) and _text(key, limit)
    }
    columns = {name: tuple(_text(one, limit) for one in of) for name, of in found.columns.items() if of and _fits(name)}
    return Found(
        found.entity,
        _text(found.description or "", limit) or None,
        fields or None,
        properties,
        tuple(sorted({text for tag in found.tags if _fits(tag) and (text := _text(tag, limit))})),
        found.upstreams,
        columns,
        found.made_by,
        frozenset(map(_utf8, found.keeps)),
        found.leaves,
    )


def _fits(key: str) -> bool:
    """Whether a key has room for a source's prefix in front of it."""
    return len(key.encode("utf-8", "replace")) <= MAX_KEY_BYTES - 64


def _text(text: str, limit: int) -> str:
    whole = _utf8(text)
    if len(whole) <= limit:
        return whole
    return whole[:limit].rstrip() + _CUT_MARK.format(kept=limit, total=len(whole))


def _utf8(text: str) -> str:
    return text.encode("utf-8", "ignore").decode()


def _size(found: Found) -> int:
    texts = len(found.description or "") + sum(len(name) + len(kind) + 8 for name, kind in found.schema or ())
    texts += sum(len(key) + len(value) + 40 for key, value in found.stated.items()) + sum(map(len, found.tags))
    if texts * 6 <= BUDGET_BYTES:  # no character takes more in JSON, so most need no encoding to know
        return 0
    return len(canonical_json([found.description, found.schema, found.stated, list(found.tags)]))
