"""Times as people and other programs write them, to milliseconds since the epoch, UTC.

For the client and the command line only: events, rules and tables know whole milliseconds and nothing else.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Final

from .encoding.wire import MAX_LONG, MIN_LONG

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?")
_MILLISECONDS_ABOVE: Final = 10**11
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_ms(value: Any) -> int:
    """A time in milliseconds since the epoch.

    Args:
        value: a whole number of milliseconds; an aware datetime (a naive one is UTC); text that is ISO 8601 (UTC where
            it names no zone) or a number, which is milliseconds above 1e11 and seconds otherwise.
    Raises:
        ValueError: it is none of these, or beyond 64 bits; the message says what is wrong, without the value's name.
    """
    if isinstance(value, str):
        found = _of_text(value)
    elif isinstance(value, datetime):
        found = _of_datetime(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, float) and value.is_integer():
        found = int(value)
    else:
        raise ValueError(f"must be a time, not {value!r:.80}")
    if not MIN_LONG <= found <= MAX_LONG:
        raise ValueError("must fit 64 bits")
    return found


def time_shown(milliseconds: int) -> str:
    """A time in ISO 8601, UTC; one that no calendar has as its number."""
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return str(milliseconds)


def _of_text(text: str) -> int:
    if _NUMBER.fullmatch(text):
        number = Decimal(text)
        milliseconds = number if number > _MILLISECONDS_ABOVE else number * 1000
        return int(milliseconds.to_integral_value(ROUND_FLOOR))
    try:
        return _of_datetime(datetime.fromisoformat(text))
    except ValueError:
        shown = text if len(text) <= 80 else text[:77] + "..."
        raise ValueError(f"must be a time like 2026-01-31T12:00:00Z or a number, not {shown!r}") from None


def _of_datetime(moment: datetime) -> int:
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
