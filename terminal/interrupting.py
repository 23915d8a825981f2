"""Ctrl-C, raised by a function of ours."""

from __future__ import annotations

import signal
from types import FrameType


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raises: KeyboardInterrupt: an instance, as Python's own handler does not; see `producers.kafka.take_in`."""
    raise KeyboardInterrupt


def raise_instances() -> None:
    """From now on Ctrl-C is raised by `interrupt`, where it is Python's own handler that raises it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
