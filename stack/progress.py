"""Shows an install: a bar in a terminal, a line now and then anywhere else. Always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

_LINE_EVERY_S = 5.0
_SAME_LINE_EVERY_S = 30.0  # a line that only says that it goes on


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an install is."""

    step: str
    done_bytes: int
    total_bytes: int


Report = Callable[[Progress], None]


@contextmanager
def shown() -> Iterator[Report]:
    """A report function for `ensure_parts`; shows nothing at all when it is never called."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        yield _InBar(bar)


class _InBar:
    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task = bar.add_task("parts", total=None, visible=False)

    def __call__(self, now: Progress) -> None:
        """Show the step. Until the first byte the bar pulses: nothing tells how long the resolving takes."""
        self._bar.update(
            self._task,
            description=f"jars and Elasticsearch: {now.step}",
            total=now.total_bytes if now.done_bytes else None,  # None changes nothing
            completed=now.done_bytes or None,
            visible=True,
        )


class _Lines:
    def __init__(self) -> None:
        self._last: tuple[str, int] = "", 0
        self._reported_s = 0.0
        self._began = time.monotonic()

    def __call__(self, now: Progress) -> None:
        step, done_bytes = self._last
        pause_s = _SAME_LINE_EVERY_S if now.done_bytes == done_bytes else _LINE_EVERY_S
        if now.step == step and time.monotonic() - self._reported_s < pause_s:
            return
        self._last, self._reported_s = (now.step, now.done_bytes), time.monotonic()
        size = f", {now.done_bytes / 1e6:.0f} of {now.total_bytes / 1e6:.0f} MB" if now.total_bytes else ""
        passed = f"{time.monotonic() - self._began:.0f} s"
        with suppress(OSError):  # a log without room does not end the install
            sys.stderr.write(f"install: jars and Elasticsearch: {now.step}{size}, {passed}\n")
            sys.stderr.flush()
