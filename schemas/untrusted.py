"""Reading records that anybody may have written: what is not as it must be is an error of a known kind.

Only the stream writes the change, state and outcomes topics, but Kafka alone keeps others from it. Whoever reads them
catches `UNREADABLE` and passes the record over. Values in, values out.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a value of any shape may raise (nesting that is too deep, a number beyond all bounds, another type)."""
_MOST: Final = (1 << 63) - 1
_MOST_DIGITS: Final = 19


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_DECODED: Final = json.JSONDecoder(parse_constant=_no_constant).decode


def json_object(value: bytes | None) -> dict[str, Any]:
    """The JSON object of a record's value.

    Raises:
        ValueError: it is not a JSON object in UTF-8, holds a lone surrogate, or is nested too deeply.
    """
    try:
        data = _DECODED((value or b"").decode())
        if b"\\u" in (value or b""):  # only an escape can hold a lone surrogate
            json.dumps(data, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")
    return data


def whole(value: object) -> int:
    """A value that must be a whole number from 0 to 2**63 - 1.

    Raises:
        ValueError: it is not.
    """
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError(f"{value!r:.60} is not a whole number from 0 to 2**63 - 1")
    return value


def whole_of(text: str) -> int:
    """The whole number of its decimal digits. Raises as `whole`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise ValueError(f"{text!r:.60} is not a whole number from 0 to 2**63 - 1")
    return whole(int(text))
