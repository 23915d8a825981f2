"""From the bytes of a path to a row of the table.

Frameworks decode a path before they split it, so `a%2Fb` becomes two parts. Here the raw path is split at `/`, then
each part is decoded once: any name is one part. A part that stands in a template as it is wins over a named one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from ..schemas.endpoints import Endpoint
from ..schemas.errors import InputError, OperatorError
from ..schemas.pages import Page
from ..schemas.urn import Urn, urn

URN_PART: Final = "{urn}"
"""The end of a template that takes all remaining parts."""
_URN: Final = "urn"
Row: TypeAlias = Endpoint | Page


_OF_SOURCE: Final = "/v3/"
"""Addresses of the source, whose parts are names of any text: there `?urn=` stands for them. All others use their
parts, so rights are held against these, and `?urn=` may only repeat them."""


class Route(NamedTuple):
    """What a path leads to: its rows by method, and the named parts of each."""

    by_method: Mapping[str, tuple[Row, Mapping[str, str], tuple[str, ...]]]

    @property
    def allowed(self) -> list[str]:
        """The methods, as the header Allow lists them."""
        methods = set(self.by_method)
        return sorted(methods | {"HEAD"} if "GET" in methods else methods)


@dataclass
class _Node:
    literal: dict[str, _Node] = field(default_factory=dict)
    named: dict[str, _Node] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    of_urn: dict[str, Row] = field(default_factory=dict)


class Router:
    """Finds rows by paths.

    Args:
        endpoints: the table.
    Raises:
        OperatorError: two rows have one method and path.
    """

    def __init__(self, endpoints: Sequence[Row]) -> None:
        self._root = _Node()
        for endpoint in endpoints:
            self._add(endpoint)

    def _add(self, endpoint: Row) -> None:
        node = self._root
        *parts, last = endpoint.path.removeprefix("/").split("/")
        for part in parts if last == URN_PART else [*parts, last]:
            children = node.named if part.startswith("{") else node.literal
            node = children.setdefault(part, _Node())
        rows = node.of_urn if last == URN_PART else node.rows
        if endpoint.method in rows:
            raise OperatorError(f"The table of endpoints has {endpoint.name} twice.", hint="Report this as a bug.")
        rows[endpoint.method] = endpoint

    def find(self, parts: Sequence[str]) -> Route:
        """The rows of a path; none where there is no such path.

        Args:
            parts: as `path_parts` gives them.
        """
        found: dict[str, tuple[Row, Mapping[str, str], tuple[str, ...]]] = {}
        for rows, names, rest in _matches(self._root, parts, 0, {}):
            for method, endpoint in rows.items():
                read = _read_words(endpoint, names)
                if method not in found and read is not None:
                    found[method] = (endpoint, read, rest)
        return Route(found)


def _matches(
    node: _Node, parts: Sequence[str], index: int, names: Mapping[str, str]
) -> Iterator[tuple[Mapping[str, Row], Mapping[str, str], tuple[str, ...]]]:
    """Every row that fits, the most literal one first."""
    if index == len(parts):
        yield node.rows, names, ()
    elif parts[index] in node.literal:
        yield from _matches(node.literal[parts[index]], parts, index + 1, names)
    if index < len(parts) and parts[index]:
        for name, child in node.named.items():
            yield from _matches(child, parts, index + 1, {**names, name[1:-1]: parts[index]})
    yield node.of_urn, names, tuple(parts[index:])


def _read_words(endpoint: Row, names: Mapping[str, str]) -> Mapping[str, str] | None:
    """The named parts, words as they are read; None where one is none of its words."""
    if not endpoint.words:
        return names
    read = {name: words.get(names[name].lower()) for name, words in endpoint.words.items()}
    if None in read.values():
        return None
    return {**names, **{name: word for name, word in read.items() if word is not None}}


def path_parts(raw_path: bytes) -> list[str]:
    """The parts of a raw path, each decoded once.

    Raises:
        InputError: a part is not percent-encoded UTF-8.
    """
    return [_text(part) for part in raw_path.removeprefix(b"/").split(b"/")]


def query_values(query: bytes) -> dict[str, str]:
    """The values of a query by name; `+` is a blank, and between two `&` may be nothing (as the WHATWG's URL standard).

    Raises:
        InputError: a name stands twice, or something is not percent-encoded UTF-8.
    """
    values: dict[str, str] = {}
    for pair in filter(None, query.split(b"&")):
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        if (key := _text(name)) in values:
            raise InputError(f"The query names {key!r:.80} twice.", code="given-twice")
        values[key] = _text(value)
    return values


def named_urn(endpoint: Row, names: Mapping[str, str], rest: Sequence[str], query: Mapping[str, str]) -> Urn | None:
    """The entity that a request names: by `?urn=`, which can say any name; by the end of the path, or by its parts.

    Raises:
        InvalidUrnError: it is not a valid URN.
        InputError: the path names none, or both do and differ.
    """
    by_query = Urn.parse(query[_URN]) if _URN in query and takes_urn(endpoint) else None
    if endpoint.path.endswith(URN_PART):
        if not rest:
            if by_query is None:
                raise InputError("The path ends where a URN is expected.", hint="Write …/dataset:default/orders.")
            return by_query
        kind, colon, first = rest[0].partition(":")
        if not colon:
            return Urn.parse("/".join(rest))
        by_path = urn(kind, first, *rest[1:])
    elif endpoint.urn is not None:
        if by_query is not None and endpoint.path.startswith(_OF_SOURCE):
            return by_query
        by_path = endpoint.urn(names)
    else:
        return None
    if by_query not in (None, by_path):
        raise InputError(f"The path names {by_path}, ?urn= names {by_query}.", hint="Omit one of them.")
    return by_path


def takes_urn(endpoint: Row) -> bool:
    """Whether `?urn=` may name the entity."""
    return endpoint.path.endswith(URN_PART) or endpoint.urn is not None


def _text(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        shown = part.decode("latin-1")
        raise InputError(f"{shown!r:.80} in the address is not percent-encoded UTF-8.", code="not-utf-8") from None
