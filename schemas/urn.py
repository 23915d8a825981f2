"""URNs: the names of entities, `kind:part/part`, canonical and unforgeable.

Each part of a path is a name of any characters; every byte of its UTF-8 outside `[A-Za-z0-9._$~+-]`, and a first byte
outside `[A-Za-z0-9]`, is written `%XX` in upper case. Exactly one text names an entity: the parser refuses every other
spelling, so equal names are equal strings and no name can forge another's URN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from .domain import Domain, Kind
from .errors import InvalidUrnError
from .kinds import KINDS, a_kind, domain_of_kind, kind_of, undeclared_now
from .limits import MAX_URN_BYTES
from .registry import for_each_domain

_PLAIN_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._$~+-]*")
_SHAPE: Final = re.compile(r"[a-z][a-z0-9-]*:(?:[A-Za-z0-9%][A-Za-z0-9._$~+%-]*)(?:/[A-Za-z0-9%][A-Za-z0-9._$~+%-]*)*")
_FIRST: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_REST: Final = _FIRST | frozenset(b"._$~+-")
_ESCAPE: Final = tuple(chr(byte) if byte in _REST else f"%{byte:02X}" for byte in range(256))
_CACHED_URNS: Final = 32_768


class Urn(str):
    """A canonical URN; a `str`, so it goes wherever text goes.

    Args:
        text: the URN's text.
    Raises:
        InvalidUrnError: the text is not canonical, too long, or its parts do not fit its kind.
    """

    __slots__ = ("_domain", "_is_aggregate", "_other", "kind", "parts", "path")

    kind: str
    """The word before the colon."""
    path: str
    """What stands behind the colon, percent-encoded."""
    parts: tuple[str, ...]
    """The path's parts, decoded."""
    _domain: str | None
    """None of a kind that nobody declared when this was made: a journal may serve it since."""
    _is_aggregate: bool
    """Known to be its own aggregate: said in a flag, since one that refers to itself is freed by a search alone."""
    _other: Urn | None
    """Its aggregate where that is another and known."""

    def __new__(cls, text: str) -> Urn:
        self = super().__new__(cls, text)
        kind, parts = _parse(text)
        self.kind = kind.name
        self.path = text[len(kind.name) + 1 :]
        self.parts = parts
        self._domain = kind.domain if kind.name in KINDS else None
        self._is_aggregate = False
        self._other = None
        return self

    @staticmethod
    def parse(text: str) -> Urn:
        """The URN of a text, from a cache where it was parsed before.

        Raises:
            InvalidUrnError: as the constructor.
        """
        if type(text) is Urn:
            return text
        if not isinstance(text, str):
            raise InvalidUrnError(repr(text), "it is no text")
        others = undeclared_now()
        if others and text.partition(":")[0] in others:
            return _undeclared(text)
        return _cached(text)

    @property
    def name(self) -> str:
        """The last part, decoded."""
        return self.parts[-1]

    @property
    def namespace(self) -> str | None:
        """The first of several parts, decoded; None where the path is a single part."""
        return self.parts[0] if len(self.parts) > 1 else None

    @property
    def domain(self) -> str:
        """The domain that owns the kind."""
        return self._domain or domain_of_kind(self.kind)

    @property
    def aggregate(self) -> Urn:
        """The unit of order and of rules that this entity belongs to; the entity itself for most kinds."""
        return self if self._is_aggregate else self._other or self._find_aggregate()

    def _find_aggregate(self) -> Urn:
        row = KINDS.get(self.kind)
        if row is None:
            return self
        if row.aggregate_kind is None:
            self._is_aggregate = True
            return self
        leading = self.path.split("/", row.aggregate_parts)[: row.aggregate_parts]
        self._other = _cached(f"{row.aggregate_kind}:{'/'.join(leading)}")
        return self._other

    def __reduce__(self) -> tuple[Any, ...]:
        return Urn.parse, (str(self),)

    def __str__(self) -> str:
        return str.__str__(self)


@lru_cache(maxsize=_CACHED_URNS)
def _cached(text: str) -> Urn:
    return Urn(text)


def _forget(_: Domain) -> None:
    """URNs that were parsed before a domain from outside came may be of its kinds."""
    _cached.cache_clear()


for_each_domain(_forget)


def _undeclared(text: str) -> Urn:
    """The URN of a kind that is read as undeclared: its own aggregate, also outside of the reader's block."""
    found = Urn(text)
    found._is_aggregate = True
    return found


def _parse(text: str) -> tuple[Kind, tuple[str, ...]]:
    if len(text) > MAX_URN_BYTES:
        raise InvalidUrnError(text, f"it is longer than {MAX_URN_BYTES} bytes")
    if not _SHAPE.fullmatch(text):
        raise InvalidUrnError(text, "it is not kind:part/part with every other byte percent-encoded")
    kind_name, _, path = text.partition(":")
    parts = tuple(path.split("/"))
    if "%" in path:
        parts = tuple(_decode(part, text) for part in parts)
    kind = kind_of(kind_name)
    _check_parts(kind, parts, text)
    return kind, parts


def _check_parts(kind: Kind, parts: tuple[str, ...], text: str) -> None:
    count = len(parts)
    if not kind.min_parts <= count <= kind.max_parts:
        wanted = str(kind.min_parts) if kind.min_parts == kind.max_parts else f"at least {kind.min_parts}"
        parts_of = "part" if wanted == "1" else "parts"
        raise InvalidUrnError(text, f"{a_kind(kind.name)} has {wanted} {parts_of}, this has {count}")
    choice = kind.choice
    if choice is not None and parts[choice.part] not in choice.words:
        words = ", ".join(sorted(choice.words))
        raise InvalidUrnError(text, f"{parts[choice.part]!r} is no {choice.what} ({words})")


def _decode(part: str, text: str) -> str:
    pieces = part.split("%")
    raw = bytearray(pieces[0].encode("ascii"))
    try:
        for piece in pieces[1:]:
            raw += bytes.fromhex(piece[:2]) if len(piece) >= 2 else b"\xff"
            raw += piece[2:].encode("ascii")
        name = raw.decode("utf-8")
    except ValueError:
        raise InvalidUrnError(text, f"{part!r} is not percent-encoded UTF-8") from None
    if _encode(name, text) != part:
        raise InvalidUrnError(text, f"{part!r} is not the canonical spelling")
    return name


def _encode(name: str, shown: str) -> str:
    if not isinstance(name, str):
        raise InvalidUrnError(shown, f"the part {name!r} is no text")
    if _PLAIN_PART.fullmatch(name):
        return name
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidUrnError(shown, "a part holds a lone surrogate") from None
    if not raw:
        raise InvalidUrnError(shown, "a part is empty")
    first = _ESCAPE[raw[0]] if raw[0] in _FIRST else f"%{raw[0]:02X}"
    return first + "".join([_ESCAPE[byte] for byte in raw[1:]])


def siblings(first: Urn, names: Iterable[str]) -> tuple[Urn, ...]:
    """URNs that differ from one in the last part only: a tenth of the price of parsing each.

    Args:
        first: any URN whose kind has another aggregate than itself, and no program type at its end.
        names: last parts, each of any characters.
    Raises:
        InvalidUrnError: a name is empty, no text or holds a lone surrogate, or a URN is too long.
    """
    text = first[: len(first) - len(_encode(first.name, first))]
    kind, domain, leading, aggregate = first.kind, first._domain, first.parts[:-1], first.aggregate
    room, behind = MAX_URN_BYTES - len(text), len(kind) + 1
    plain, new = _PLAIN_PART.fullmatch, str.__new__
    found = []
    for name in names:
        if type(name) is not str or len(name) > room or not plain(name):
            found.append(Urn.parse(text + _encode(name, f"{text}{name}")))
            continue
        one = new(Urn, text + name)
        one.kind, one.path, one.parts, one._domain = kind, one[behind:], (*leading, name), domain
        one._is_aggregate, one._other = False, aggregate
        found.append(one)
    return tuple(found)


def urn(kind: str, *parts: str) -> Urn:
    """The URN of an entity of any kind.

    Args:
        kind: `[a-z][a-z0-9-]*`; one outside the table of kinds is a custom kind of the catalog.
        parts: names of any characters, none of them empty.
    Raises:
        InvalidUrnError: the kind is malformed, the parts do not fit it, or the URN exceeds 1,024 bytes.
    """
    shown = f"{kind}:{'/'.join(map(str, parts))}"
    return Urn.parse(f"{kind}:{'/'.join([_encode(part, shown) for part in parts])}")
