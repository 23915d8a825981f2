"""Names of a JSON body that its type does not have: refused, since whoever sends one means something by it.

Types are dataclasses with lists, mappings and choices of types. A mapping's names are its sender's own, so a body that
is open by its type, as that of OpenLineage, has no unknown ones.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from ..schemas.errors import Fault

_MOST: Final = 100
"""Faults that are told."""


def unknown_fields(value: Any, kind: Any) -> list[Fault]:
    """The names in a value that its type does not have, each with its path, `$.programRun.colour`.

    Args:
        value: as JSON has it; of the type but for such names.
        kind: a type of Python.
    """
    return [fault for fault, _ in zip(_unknown(value, kind, "$"), range(_MOST), strict=False)]


def _unknown(value: Any, kind: Any, path: str) -> Iterator[Fault]:
    if not _has_names(kind):
        return
    if isinstance(value, Mapping) and is_dataclass(kind):
        known = _fields(kind if isinstance(kind, type) else type(kind))
        for name, inner in value.items():
            if name in known:
                yield from _unknown(inner, known[name], f"{path}.{name}")
            else:
                yield Fault(f"{path}.{name:.80}", _said(name, known))
    elif get_origin(kind) in (Union, types.UnionType):
        yield from _of_choices(value, get_args(kind), path)
    elif isinstance(value, list) and get_origin(kind) is list:
        for place, one in enumerate(value):
            yield from _unknown(one, get_args(kind)[0], f"{path}[{place}]")
    elif isinstance(value, Mapping) and get_origin(kind) is dict:
        for name, one in value.items():
            yield from _unknown(one, get_args(kind)[1], f"{path}.{name:.80}")


def _of_choices(value: Any, kinds: tuple[Any, ...], path: str) -> Iterator[Fault]:
    """Of the types that a value may have, the one whose shape it has."""
    shape = list if isinstance(value, list) else dict if isinstance(value, Mapping) else None
    for kind in kinds:
        if get_origin(kind) is shape or (shape is dict and is_dataclass(kind)):
            yield from _unknown(value, kind, path)
            return


@cache
def _has_names(kind: Any) -> bool:
    """Whether a value of a type can have a name that the type does not: nothing is looked at where it cannot."""
    return is_dataclass(kind) or any(map(_has_names, get_args(kind)))


@cache
def _fields(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _said(name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name, known, 1)
    return f"is not known here; did you mean {near[0]}?" if near else f"is not known here; known are {', '.join(known)}"
