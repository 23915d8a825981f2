"""Checks of an event's fields: a cheap one for the happy case, and one that names every fault.

The cheap ones run on each emit; where one says no, nothing is decided yet and the thorough ones speak. They look at no
more entries than an event may carry, so that what they find of a hostile event is no longer than a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from ..errors import Fault, InvalidUrnError
from ..kinds import a_kind
from ..limits import MAX_ENTRIES, MAX_KEY_BYTES, RESERVED_PROPERTIES
from ..registry import owner_of_undeclared
from ..urn import Urn
from .base import text_fault

SCOPES: Final = frozenset({"USER", "SYSTEM"})


def urn_faults(field: str, value: Any) -> list[Fault]:
    """Why a value is no URN."""
    if type(value) is Urn:
        return []
    try:
        Urn.parse(value)
    except InvalidUrnError as error:
        return [Fault(field, error.message)]
    return []


def keys_faults(field: str, values: Any) -> list[Fault]:
    """Faults of a list of keys or tags, of its first MAX_ENTRIES ones; an empty list has none."""
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return [Fault(field, f"must be a list of texts, not {type(values).__name__}")]
    faults = count_faults(field, len(values))
    for index, value in enumerate(values[:MAX_ENTRIES]):
        why = text_fault(value, empty=False, limit_bytes=MAX_KEY_BYTES)
        if why is not None:
            faults.append(Fault(f"{field}[{index}]", why))
    return faults


def properties_faults(field: str, values: Any) -> list[Fault]:
    """Faults of a mapping of property keys to values, of its first MAX_ENTRIES ones; an empty one has none."""
    if not isinstance(values, Mapping):
        return [Fault(field, f"must be a mapping of texts, not {type(values).__name__}")]
    faults = count_faults(field, len(values))
    for key, value in islice(values.items(), MAX_ENTRIES):
        why = text_fault(key, empty=False, limit_bytes=MAX_KEY_BYTES)
        if why is not None:
            faults.append(Fault(f"{field}[{_shown(key)}]", f"the key {why}"))
        why = text_fault(value)
        if why is not None:
            faults.append(Fault(f"{field}[{_shown(key)}]", why))
    return faults


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 80 else text[:76] + "...'"


def count_faults(field: str, count: int) -> list[Fault]:
    """The fault of a list or mapping that is too long."""
    return [] if count <= MAX_ENTRIES else [Fault(field, f"has {count:,} entries, the limit is {MAX_ENTRIES:,}")]


def plain_keys(values: Any) -> bool:
    """The happy case of a list of keys or tags."""
    return type(values) is tuple and len(values) <= MAX_ENTRIES and "" not in values and _short_ascii(values)


def _short_ascii(keys: Any) -> bool:
    """Whether all are ASCII texts and none is too long. One joined text is faster to look at than each by itself."""
    try:
        text = "".join(keys)
    except TypeError:
        return False
    return text.isascii() and (len(text) <= MAX_KEY_BYTES or max(map(len, keys)) <= MAX_KEY_BYTES)


def plain_choice(values: Any, everything: Any) -> bool:
    """The happy case of either some keys or all."""
    return plain_keys(values) and (everything is True if not values else everything is False)


def plain_properties(values: Any) -> bool:
    """The happy case of properties."""
    if type(values) is not dict or len(values) > MAX_ENTRIES or "" in values or not _short_ascii(values):
        return False
    try:
        return "".join(values.values()).isascii()
    except TypeError:
        return False


def scope_faults(scope: Any, *, both: bool = False) -> list[Fault]:
    """Faults of a scope."""
    if isinstance(scope, str) and scope in SCOPES:
        return []
    wanted = "USER, SYSTEM or BOTH" if both else "USER or SYSTEM"
    return [Fault("scope", f"must be {wanted}, not {scope!r}")]


def reserved_faults(field: str, keys: Any, scope: Any) -> list[Fault]:
    """Keys of scope SYSTEM that the fold alone keeps."""
    if scope != "SYSTEM" or not isinstance(keys, tuple | dict):
        return []
    return [
        Fault(f"{field}[{key!r}]" if isinstance(keys, dict) else f"{field}[{index}]", f"{key!r} is kept by the journal")
        for index, key in enumerate(islice(keys, MAX_ENTRIES))
        if isinstance(key, str) and key in RESERVED_PROPERTIES
    ]


def empty_faults(field: str, values: Any) -> list[Fault]:
    """The fault of an event that names nothing."""
    empty = isinstance(values, tuple | dict) and not values
    return [Fault(field, "must not be empty")] if empty else []


def choice_faults(field: str, values: Any, everything: Any) -> list[Fault]:
    """Faults of a choice between some keys and all."""
    if not isinstance(everything, bool):
        return [Fault("all", f"must be True or False, not {everything!r}")]
    if everything and values:
        return [Fault("all", f"give either {field} or all, not both")]
    if not everything and isinstance(values, tuple) and not values:
        return [Fault(field, "must not be empty unless all is True")]
    return []


def foreign_faults(entity: Any) -> list[Fault]:
    """The fault of an entity that another domain's events begin and end."""
    domain = entity.domain if type(entity) is Urn else owner_of_undeclared()
    if domain == owner_of_undeclared():
        return []
    return [Fault("entity", f"{a_kind(entity.kind)} begins and ends by the events of the domain {domain} only")]


def optional_text_faults(field: str, value: Any) -> list[Fault]:
    """The fault of a text that may be null."""
    why = None if value is None else text_fault(value)
    return [] if why is None else [Fault(field, why)]
