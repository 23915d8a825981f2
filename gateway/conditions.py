"""What the headers of a request ask for: conditions, keys for repeating, how long to wait, what to include.

Source: RFC 9110 (conditional requests), RFC 7240 (Prefer), RFC 9562 (UUIDv7).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.datastructures import Headers

from ..schemas.errors import InputError
from ..schemas.ids import id_bytes, id_text
from ..schemas.positions import Position
from ..values import positions
from .problems import HttpError

_DAY_MS: Final = 86_400_000
_VERSION_7: Final = 7
_ETAG: Final = re.compile(r'(W/)?"([^"\x00-\x20\x7f]*)"')
_STATE: Final = re.compile(r"[1-9][0-9]{0,17}")
"""What a state of an entity is called: its logical timestamp. 0 is none, and `If-None-Match: *` says that."""
_LONGEST_WAIT_S: Final = 60.0
_RFC_VARIANT: Final = 0b10
_ONCE: Final = ("Idempotency-Key", "If-Match", "If-None-Match", "Metajournal-At-Least")


class Wish(NamedTuple):
    """What a write's headers ask for.

    Args:
        expected: logical timestamp of the entity's newest row; 0: it must not exist; None: no condition.
        event_id: the event's id, from `Idempotency-Key`; None: a new one.
        at_ms: the time of that key.
        wait_s: seconds to wait for the verdict; 0: the acknowledgement is enough.
        exists: what the event is about must be there.
    """

    expected: int | None
    event_id: str | None
    at_ms: int
    wait_s: float
    exists: bool = False

    @property
    def is_of_one(self) -> bool:
        """Whether it says something that can be meant of one event only."""
        return self.expected is not None or self.event_id is not None or self.exists


def wish_of(headers: Headers, *, creates: bool, wait_s: float) -> Wish:
    """What a write asks for.

    Args:
        headers: of the request.
        creates: whether the request may ask that nothing is there yet.
        wait_s: seconds to wait where nothing is said.
    Raises:
        InputError, HttpError: a header is not valid, or a condition cannot be held.
    """
    event_id, at_ms = _key(headers.get("idempotency-key"), now_ms := time.time_ns() // 1_000_000)
    expected = _expected(headers.get("if-match"), headers.get("if-none-match"), creates=creates)
    exists = (headers.get("if-match") or "").strip() == "*"
    wait_s = _wait(joined(headers, "prefer") or "", wait_s)
    return Wish(expected, event_id, now_ms if at_ms is None else at_ms, wait_s, exists)


def joined(headers: Headers, name: str) -> str | None:
    """A header that is a list, which may stand in several lines; None where it is not there."""
    lines = headers.getlist(name)
    return ", ".join(lines) if lines else None


def check_once(headers: Headers) -> None:
    """Refuse a header that comes twice where one alone can be meant. Raises: InputError."""
    for name in _ONCE:
        if len(headers.getlist(name)) > 1:
            raise InputError(f"The header {name} is there more than once.", code="header-twice", hint="Send it once.")


def _key(text: str | None, now_ms: int) -> tuple[str | None, int | None]:
    """The event id of an Idempotency-Key and its time. Raises: InputError: it is no UUIDv7 of the last or next day."""
    if text is None:
        return None, None
    try:
        value = id_bytes(text.strip().strip('"'))
        is_id = value[6] >> 4 == _VERSION_7 and value[8] >> 6 == _RFC_VARIANT
    except ValueError:
        is_id = False
    at_ms = int.from_bytes(value[:6]) if is_id else 0
    if not is_id or abs(at_ms - now_ms) > _DAY_MS:
        raise InputError(
            "The Idempotency-Key is not a UUIDv7 of the last or next 24 hours.", code="bad-idempotency-key",
            hint=f"Send one such as {_example(now_ms)}, a new one for each write, the same for its repetitions.",
        )  # fmt: skip
    return id_text(value), at_ms


def _example(now_ms: int) -> str:
    return id_text((now_ms << 80 | 7 << 76 | 2 << 62 | (now_ms * 0x9E3779B97F4A7C15) & ((1 << 61) - 1)).to_bytes(16))


def _expected(if_match: str | None, if_none_match: str | None, *, creates: bool) -> int | None:
    if if_none_match is not None:
        if not creates or if_none_match.strip() != "*":
            raise InputError("If-None-Match of a write must be *, of one that can create.", code="bad-condition")
        if if_match is not None:
            raise InputError("If-Match and If-None-Match exclude each other.", code="bad-condition")
        return 0
    if if_match is None or if_match.strip() == "*":
        return None  # `Wish.exists` says so
    found = _ETAG.fullmatch(if_match.strip())
    if found is None:
        raise InputError(f"If-Match must be one entity tag, not {if_match!r:.80}.", code="bad-condition")
    if found[1] or _STATE.fullmatch(found[2]) is None:
        raise HttpError(
            412, "This entity tag names no state that a write can be held against.", code="stale-entity",
            hint="Use the strong ETag of a GET of the entity.",
        )  # fmt: skip
    return int(found[2])


def _wait(prefer: str, wait_s: float) -> float:
    """Seconds to wait; with `respond-async` alone none. Raises: InputError: `wait` is no number of seconds."""
    asked: dict[str, str] = {}
    for preference in prefer.lower().split(","):
        name, _, value = preference.partition(";")[0].strip().partition("=")
        asked.setdefault(name.strip(), value.strip().strip('"'))  # of one that is there twice the first counts
    if "wait" not in asked:
        return 0.0 if "respond-async" in asked else wait_s
    text = asked["wait"]
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InputError(f"Prefer: wait must be a number of seconds, not {text!r:.40}.", code="bad-preference")
    return min(float(text), _LONGEST_WAIT_S)


def at_least_of(headers: Mapping[str, str]) -> tuple[Position, ...]:
    """The positions that an answer must include. Raises: InvalidPositionError."""
    text = headers.get("metajournal-at-least")
    return tuple(positions(text)) if text else ()


def is_another(if_match: str | None, etag: str | None, *, weak: bool) -> bool:
    """Whether a GET's caller asks for a state that is not the answer's; a weak tag is equal to none."""
    if if_match is None or etag is None or if_match.strip() == "*":
        return False
    return weak or ("", etag) not in _ETAG.findall(if_match)


def is_unmodified(if_none_match: str | None, etag: str | None) -> bool:
    """Whether a GET's caller has the answer's state already; tags are compared without their weakness."""
    if if_none_match is None or etag is None:
        return False
    if if_none_match.strip() == "*":
        return True
    return any(tag == etag for _, tag in _ETAG.findall(if_none_match))
