"""What an emit may say besides the event: checked, every fault at once, and brought into the header's form."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..schemas.errors import Fault
from ..schemas.events.base import text_fault
from ..schemas.header import TENANT_PATTERN
from ..schemas.ids import id_bytes
from ..schemas.limits import MAX_KEY_BYTES
from ..schemas.positions import Position
from ..schemas.times import time_ms

_EARLIEST_MS: Final = -62_135_596_800_000
_LATEST_MS: Final = 253_402_300_799_999
_LATEST_POSITION: Final = (1 << 63) - 1


class Options(NamedTuple):
    """An emit's options in the header's form; None: not said."""

    tenant: str | None
    actor: str | None
    event_time: int | None
    expected: int | None
    cause: bytes | None
    event_id: bytes | None


def read_options(
    *, tenant: Any, actor: Any, event_time: Any, expected: Any, cause: Any, event_id: Any, repeat: Any
) -> tuple[Options, list[Fault]]:
    """The options and every fault among them; a faulty one is None."""
    faults: list[Fault] = []
    options = Options(
        tenant=_tenant(tenant, faults),
        actor=_actor(actor, faults),
        event_time=_event_time(event_time, faults),
        expected=_expected(expected, faults),
        cause=_id("cause", cause, faults),
        event_id=_id("event_id", event_id, faults),
    )
    if not isinstance(repeat, bool):
        faults.append(Fault("repeat", f"must be True or False, not {repeat!r}"))
    elif repeat and event_id is None:
        faults.append(Fault("repeat", "needs the event_id of the event that is sent again"))
    return options, faults


def _tenant(value: Any, faults: list[Fault]) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and TENANT_PATTERN.fullmatch(value):
        return value
    faults.append(Fault("tenant", f"must match {TENANT_PATTERN.pattern}, not {value!r}"))
    return None


def _actor(value: Any, faults: list[Fault]) -> str | None:
    if value is None:
        return None
    why = text_fault(value, empty=False, limit_bytes=MAX_KEY_BYTES)
    if why is None:
        return str(value)
    faults.append(Fault("actor", why))
    return None


def _event_time(value: Any, faults: list[Fault]) -> int | None:
    if value is None:
        return None
    try:
        milliseconds = time_ms(value)
    except ValueError as error:
        faults.append(Fault("event_time", str(error)))
        return None
    if _EARLIEST_MS <= milliseconds <= _LATEST_MS:
        return milliseconds
    faults.append(Fault("event_time", f"must be of the years 1 to 9999, not {value!r}"))
    return None


def _expected(value: Any, faults: list[Fault]) -> int | None:
    if isinstance(value, Position):
        value = value.value
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LATEST_POSITION:
        return value
    faults.append(Fault("expected", f"must be a logical timestamp (0: must not exist), not {value!r}"))
    return None


def _id(field: str, value: Any, faults: list[Fault]) -> bytes | None:
    if value is None:
        return None
    try:
        return id_bytes(value)
    except (AttributeError, TypeError, ValueError):
        faults.append(Fault(field, f"must be an event id as receipts give it, not {value!r}"))
        return None
