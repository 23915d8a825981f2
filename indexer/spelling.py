"""JSON as the indexer reads and writes it: with orjson where it is installed, which is several times as fast.

Invariant: what `json` can read or write is read and written either way; orjson is stricter, and what it refuses goes
the slow way.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ..schemas.untrusted import json_object

try:
    import orjson
except ModuleNotFoundError:  # comes with the extra "stream"
    _FAST: Any = None
else:
    _FAST = orjson

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))


def written(value: Any) -> bytes:
    """A value as JSON without blanks; lone surrogates become question marks."""
    if _FAST is not None:
        try:
            return bytes(_FAST.dumps(value))
        except TypeError:  # a lone surrogate, or a number beyond 64 bits
            pass
    return _ENCODER.encode(value).encode("utf-8", "replace")


def read(text: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deeply.
    """
    if _FAST is not None:
        try:
            return _FAST.loads(text)
        except ValueError:  # a lone surrogate, or no JSON at all
            pass
    return json.loads(text)


def read_record(value: bytes | None) -> Any:
    """The value of a record that the stream should have written: strict JSON.

    Raises:
        ValueError: it is none.
    """
    if _FAST is not None:
        try:
            return _FAST.loads(value or b"")
        except ValueError:  # more nesting than it takes, or no JSON at all
            pass
    return json_object(value)
