"""Times as people and other programs write them, to milliseconds since the epoch, UTC: the one reading of them all.

For what comes in alone (the client, the command line, other programs' events): events, rules and tables know whole
milliseconds and nothing else.
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
_FORMS: Final = "ISO 8601, seconds or milliseconds since 1970"
_NO_ZONE: Final = "without a zone; datetime.replace(tzinfo=UTC) gives it one"


def time_ms(value: Any, *, zone_required: bool = False) -> int:
    """A time in milliseconds since the epoch.

    Args:
        value: a number, which is always milliseconds; an aware datetime; text that is ISO 8601 (UTC where it names no
            zone) or a number, which is milliseconds above 1e11 in absolute value and seconds otherwise. What is finer
            than a millisecond is cut off, towards the past.
        zone_required: text must be ISO 8601 with a zone.
    Raises:
        ValueError: it is none of these, or beyond 64 bits; the message names the value and what a time looks like.
    """
    if isinstance(value, str):
        ms = _of_text(value, zone_required)
    elif isinstance(value, datetime):
        ms = _of_datetime(value, value)
    elif (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer()):
        ms = int(value)
    else:
        raise _refused(value)
    if not MIN_LONG <= ms <= MAX_LONG:
        raise _refused(value, "beyond 64 bits")
    return ms


def time_shown(milliseconds: int) -> str:
    """A time in ISO 8601, UTC; one that no calendar has as its number."""
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return str(milliseconds)


def _of_text(text: str, zone_required: bool) -> int:
    if _NUMBER.fullmatch(text) and not zone_required:
        number = Decimal(text)
        milliseconds = number if abs(number) > _MILLISECONDS_ABOVE else number * 1000
        return int(milliseconds.to_integral_value(ROUND_FLOOR))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _refused(text) from None
    return _of_datetime(moment if zone_required or moment.tzinfo else moment.replace(tzinfo=UTC), text)


def _of_datetime(moment: datetime, value: Any) -> int:
    if moment.utcoffset() is None:
        raise _refused(value, _NO_ZONE)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _refused(value: Any, why: str = _FORMS) -> ValueError:
    text = repr(value)
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return ValueError(
        f"{shown} is not a valid time ({why}), for example 2026-11-23T10:00:00Z, 1700000000 or 1700000000000"
    )
