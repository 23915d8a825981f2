"""What every event class offers, whatever its domain, and how it takes the values it is given.

An event keeps what it was given, also where that is wrong: building one never raises, `validate()` lists every fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol

from ..errors import Fault, InvalidUrnError
from ..urn import Urn

_MOST_SHOWN: Final = 1e20
"""Larger numbers are not shown: they may have thousands of digits."""


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
    if type(value) is list:  # the usual case, before the abstract classes' slow tests
        return tuple(value)
    if isinstance(value, set | frozenset):
        return tuple(sorted(value, key=repr))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return tuple(value)
    return value


def as_dict(value: Any) -> Any:
    """A copy of a mapping, in its own order; anything else stays for `validate` to name."""
    return dict(value) if type(value) is dict or isinstance(value, Mapping) else value


def text_fault(value: Any, *, empty: bool = True, limit_bytes: int | None = None) -> str | None:
    """What is wrong with a text, or None."""
    if not isinstance(value, str):
        return f"must be text, not {_named(value)}"
    if not value:
        return None if empty else "must not be empty"
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        return "holds a lone surrogate, which UTF-8 cannot carry"
    if limit_bytes is not None and size > limit_bytes:
        return f"takes {size:,} bytes, the limit is {limit_bytes:,}"
    return None


def _named(value: Any) -> str:
    """A value that is not text, for a sentence; for a number, also how to write it as text."""
    if isinstance(value, bool):
        return f'{value}: write "{str(value).lower()}"'
    if isinstance(value, int | float) and abs(value) < _MOST_SHOWN:
        return f'the number {value}: write "{value}"'
    return type(value).__name__
