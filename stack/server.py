"""What Kafka and Elasticsearch have in common: start, wait for a real answer, say why it did not come, stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .errors import ServerStartError
from .ports import BindError
from .process import Kept, log_tail

_POLL_S = 0.1
_ATTEMPTS = 3
_IN_USE = ("Address already in use", "BindException", "BindHttpException", "BindTransportException")


@dataclass(slots=True)
class Server:
    """A running server; `endpoint` is what clients connect to."""

    name: str
    endpoint: str
    ports: tuple[int, ...]
    kept: Kept
    ready_s: float
    """Seconds from its start until it answered."""
    at_stop: Callable[[], None] = field(default=lambda: None)

    def stop(self) -> None:
        self.kept.stop()
        self.at_stop()


def start_with_ports(start: Callable[[tuple[int, ...]], Server], pick: Callable[[], tuple[int, ...]]) -> Server:
    """Start a server, with other ports when somebody took them in between.

    Raises:
        ServerStartError: it did not come up, or lost the race for its ports three times.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return start(pick())
        except BindError as error:
            if attempt == _ATTEMPTS:
                raise error.__cause__ or error from None
    raise AssertionError("unreachable")


def wait_ready(kept: Kept, answers: Callable[[], bool], *, timeout_s: float) -> float:
    """Wait until a server answers a real request; it is stopped when it does not.

    Returns:
        Seconds waited.
    Raises:
        BindError: its port was taken; the ServerStartError is its cause.
        ServerStartError: it ended, or did not answer in time.
    """
    began = time.monotonic()
    try:
        while not answers():
            if kept.exit_code is not None:
                raise _failed(kept, f"it ended with exit code {kept.exit_code}")
            if time.monotonic() - began > timeout_s:
                raise _failed(kept, f"no answer within {timeout_s:.0f} seconds")
            time.sleep(_POLL_S)
    except BaseException:
        kept.stop()
        raise
    return time.monotonic() - began


def _failed(kept: Kept, why: str) -> Exception:
    tail = log_tail(kept.log)
    error = ServerStartError(kept.name, why, kept.log, tail)
    if any(sign in tail for sign in _IN_USE):
        bind = BindError(str(error))
        bind.__cause__ = error
        return bind
    return error
