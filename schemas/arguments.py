"""Arguments that a caller hands on by name, checked where they come in.

Python's own words for a misspelt or mistyped one name a function inside of the package; these name what the caller
wrote, and the nearest name that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from inspect import signature
from typing import Any, TypeAlias, TypeGuard

from .errors import InputError
from .positions import Cut, Placed, Position, cut_of, positions_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_MS = 1 << 53
Inside: TypeAlias = Position | Placed | Iterable[Position | Placed] | Cut
"""How a caller says what must be inside: a position (that event included), what has one (a receipt, a change), several
of these, or a cut of next positions."""


def parameters(function: Callable[..., Any]) -> list[str]:
    """Names of a function's arguments, in their order."""
    return list(signature(function).parameters)


def check_names(given: Iterable[str], known: Sequence[str], what: str) -> None:
    """Refuse an argument that there is not.

    Args:
        given: names that the caller wrote.
        known: names that there are.
        what: what they are arguments of, as a sentence begins: "A search".
    Raises:
        InputError: names the argument and the nearest known one.
    """
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
            raise InputError(f"{what} takes no argument {name!r}.", code="unknown-argument", hint=hint, argument=name)


def check_texts(name: str, value: object) -> None:
    """Refuse what is neither a text, nor several, nor None.

    Raises:
        InputError: names the argument.
    """
    several = isinstance(value, Collection) and all(isinstance(one, str) for one in value)
    if value is not None and not several:
        raise InputError(
            f"{name} must be a text or a list of texts, not {value!r:.60}.", code="wrong-type", argument=name
        )


def check_number(name: str, value: object) -> None:
    """Refuse what is neither a number, from 0 on, nor None.

    Raises:
        InputError: names the argument.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
        raise InputError(f"{name} must be a number not below 0, not {value!r:.60}.", code="wrong-type", argument=name)


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is neither a whole number, from `least` on, nor None.

    Raises:
        InputError: names the argument.
    """
    if value is not None and (type(value) is not int or value < least):
        raise InputError(
            f"{name} must be a whole number, {least} or more, not {value!r:.60}.", code="wrong-type", argument=name
        )


def point_of(name: str, value: Inside | datetime | int) -> Cut | int:
    """A point of the journal: a cut of next positions, or a time in milliseconds UTC.

    Raises:
        InputError: it is none of `Inside`, nothing at all, or a datetime without a zone.
    """
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            return (value - _EPOCH) // timedelta(milliseconds=1)
    elif isinstance(value, int):
        if not isinstance(value, bool) and abs(value) < _MOST_MS:
            return value
    elif cut := _cut(value):
        return cut
    no_zone = ", which has no time zone" if isinstance(value, datetime) else ""
    raise InputError(
        f"{name} is no point in time: {value!r:.60}{no_zone}.",
        code="wrong-type",
        hint="Give a Position (`Position.parse(text)`), a receipt, several of them, a cut of next positions, an aware"
        " datetime, or milliseconds since 1970.",
        argument=name,
    )


def marks_of(name: str, value: Inside) -> Cut:
    """What must be held for something to be inside, as a cut; an empty one where nothing is asked for.

    Raises:
        InputError: it is none of `Inside`.
    """
    cut = _cut(value)
    if cut is None:
        raise InputError(
            f"{name} must be a position (receipt.position), a receipt, several of them or a cut, not {value!r:.60}.",
            code="wrong-type",
            argument=name,
        )
    return cut


def _cut(value: Any) -> Cut | None:
    """The cut that a value says; None where it says none."""
    if _is_cut(value) or value == {}:
        return value  # type: ignore[no-any-return]
    positions = positions_of(value)
    return None if positions is None else cut_of(positions)


def _is_cut(value: object) -> TypeGuard[Cut]:
    """Whether a value is a position, a whole number, by (topic, partition)."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(
            isinstance(key, tuple) and [type(one) for one in key] == [str, int] and type(position) is int
            for key, position in value.items()
        )
    )
