"""What every event class offers, whatever its domain, and the checks that they share.

An event keeps what it was given, also where that is wrong: building one never raises, `validate()` lists every fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from ..errors import Fault, InvalidUrnError
from ..limits import MAX_ENTRIES, MAX_KEY_BYTES
from ..urn import Urn

SCOPES: Final = frozenset({"USER", "SYSTEM"})


class Event(Protocol):
    """An event of any domain: immutable, of one aggregate."""

    TYPE: ClassVar[str]

    @property
    def entities(self) -> tuple[Urn, ...]:
        """URNs that the event reads or writes, all of one aggregate."""

    @property
    def aggregate(self) -> Urn:
        """The aggregate that the event changes."""

    def validate(self) -> list[Fault]:
        """Every fault at once, with its field; empty for a valid event."""


def as_urn(value: Any) -> Any:
    """The URN of a text; what is none stays as it is, for `validate` to name."""
    if type(value) is Urn:
        return value
    try:
        return Urn.parse(value)
    except InvalidUrnError:
        return value


def as_tuple(value: Any) -> Any:
    """Several values as a tuple (a set sorted); anything else, a `str` above all, stays for `validate` to name."""
    if type(value) is tuple:
        return value
    if isinstance(value, set | frozenset):
        return tuple(sorted(value, key=repr))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return tuple(value)
    return value


def as_dict(value: Any) -> Any:
    """A copy of a mapping, in its own order; anything else stays for `validate` to name."""
    return dict(value) if isinstance(value, Mapping) else value


def plain_key(value: Any) -> bool:
    """The happy case of a key or tag: ASCII text, not empty, not too long. Cheap; False decides nothing."""
    return isinstance(value, str) and value.isascii() and 0 < len(value) <= MAX_KEY_BYTES


def text_fault(value: Any, *, empty: bool = True, limit_bytes: int | None = None) -> str | None:
    """What is wrong with a text, or None."""
    if not isinstance(value, str):
        return f"must be text, not {type(value).__name__}"
    if not value:
        return None if empty else "must not be empty"
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        return "holds a lone surrogate, which UTF-8 cannot carry"
    if limit_bytes is not None and size > limit_bytes:
        return f"takes {size:,} bytes, the limit is {limit_bytes:,}"
    return None


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
    """Faults of a list of keys or tags; an empty list has none."""
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return [Fault(field, f"must be a list of texts, not {type(values).__name__}")]
    faults = count_faults(field, len(values))
    for index, value in enumerate(values):
        why = text_fault(value, empty=False, limit_bytes=MAX_KEY_BYTES)
        if why is not None:
            faults.append(Fault(f"{field}[{index}]", why))
    return faults


def properties_faults(field: str, values: Any) -> list[Fault]:
    """Faults of a mapping of property keys to values; an empty one has none."""
    if not isinstance(values, Mapping):
        return [Fault(field, f"must be a mapping of texts, not {type(values).__name__}")]
    faults = count_faults(field, len(values))
    for key, value in values.items():
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
