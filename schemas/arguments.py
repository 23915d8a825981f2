"""Arguments that a caller hands on by name, checked where they come in.

Python's own words for a misspelt or mistyped one name a function inside of the package; these name what the caller
wrote, and the nearest name that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeAlias, TypeGuard, TypeVar

from .errors import InputError, RenamedError
from .positions import Cut, Placed, Position, cut_of, positions_of
from .times import time_ms

P = ParamSpec("P")
R = TypeVar("R")
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
        what: what the arguments belong to, as the beginning of a sentence: "A search".
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
    several = isinstance(value, Collection) and all(isinstance(item, str) for item in value)
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
        raise InputError(f"{name} must be a number of at least 0, not {value!r:.60}.", code="wrong-type", argument=name)


def check_seconds(name: str, value: object) -> None:
    """Refuse what is not a number of seconds, from 0 on.

    Raises:
        InputError: names the argument.
    """
    check_number(name, value)
    if value is None:
        raise InputError(f"{name} must be a number of seconds, not None.", code="wrong-type", argument=name)


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is neither a whole number, from `least` on, nor None.

    Raises:
        InputError: names the argument.
    """
    if value is not None and (type(value) is not int or value < least):
        raise InputError(
            f"{name} must be a whole number of at least {least}, not {value!r:.60}.", code="wrong-type", argument=name
        )


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Has a function answer an argument's former name with the new one.

    Args:
        names: new names by the former ones.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def checked(*given: P.args, **named: P.kwargs) -> R:
            for former in names.keys() & named.keys():
                raise RenamedError(f"The argument {former} of {function.__name__}", names[former])
            return function(*given, **named)

        return checked

    return decorated


def known_arguments(what: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a method refuse unknown arguments and suggest the nearest known one, as `check_names` does.

    Its signature, for readers and type checkers, stays the same.

    Args:
        what: what the arguments belong to, as the beginning of a sentence: "A search".
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        [_, *own] = signature(function).parameters.values()
        known = [parameter.name for parameter in sorted(own, key=lambda argument: argument.kind, reverse=True)]

        @wraps(function)
        def checked(*given: P.args, **named: P.kwargs) -> R:
            check_names(named, known, what)
            return function(*given, **named)

        return checked

    return decorated


def time_of(name: str, value: Any) -> int:
    """A time as milliseconds UTC, as `times.time_ms` reads it.

    Raises:
        InputError: it is none.
    """
    try:
        return time_ms(value)
    except ValueError as error:
        raise InputError(
            f"{name}: {error}.",
            code="not-a-time",
            hint="Give an aware datetime, milliseconds since 1970, or text in ISO 8601.",
            argument=name,
        ) from None


def point_of(name: str, value: Inside | datetime | int | str) -> Cut | int:
    """A point of the journal: a cut of next positions, or a time (as `times.time_ms` reads it) in milliseconds UTC.

    Raises:
        InputError: it is none of `Inside`, nothing at all, or a datetime without a zone.
    """
    if cut := _cut(value):
        return cut
    try:
        milliseconds = time_ms(value)
        why = f"{value!r:.60} is too far away"
    except ValueError as error:
        milliseconds, why = _MOST_MS, str(error)
    if abs(milliseconds) < _MOST_MS:
        return milliseconds
    raise InputError(
        f"{name} is not a point in time: {why}.",
        code="wrong-type",
        hint="Give a Position (`Position.parse(text)`), a receipt, several of them, a cut of next positions, an aware"
        " datetime, milliseconds since 1970, or text in ISO 8601.",
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
            isinstance(key, tuple) and [type(part) for part in key] == [str, int] and type(position) is int
            for key, position in value.items()
        )
    )
