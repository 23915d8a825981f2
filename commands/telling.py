"""How a long job tells where it is: moving bars in a terminal, plain lines elsewhere, nothing at all beside JSON.

Left to whom: what there is to tell; a job gets a `Teller` and does not know where it is told.
Invariant: what is told is the same everywhere; only its form differs, and everything goes to standard output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.text import Text

from ..terminal.rendering import console, safe

Advance = Callable[[str, int], None]


class Teller(Protocol):
    """Where a job says what it does."""

    def section(self, title: str) -> None:
        """What follows belongs to `title`."""

    def line(self, text: str | Text) -> None:
        """One line."""

    def show(self, value: RenderableType) -> None:
        """A table."""

    def step(self, what: str) -> AbstractContextManager[None]:
        """Something that takes a while."""

    def bars(self, names: Sequence[str], total: int) -> AbstractContextManager[Advance]:
        """Bars of one total; the function given sets how many of it a name has reached."""


def teller() -> Teller:
    """The teller that fits standard output."""
    out = console()
    return Screen(out) if out.is_terminal else Lines(out)


class Lines:
    """Plain lines, each written when it is true."""

    def __init__(self, out: Console) -> None:
        self.out = out

    def section(self, title: str) -> None:
        self.out.print()
        self.out.print(Text(f"== {safe(title)}"))

    def line(self, text: str | Text) -> None:
        self.out.print(text if isinstance(text, Text) else Text(safe(text)), soft_wrap=True)

    def show(self, value: RenderableType) -> None:
        self.out.print(value)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._done(f"{what}: {time.monotonic() - began:.1f} s")

    @contextmanager
    def bars(self, names: Sequence[str], total: int) -> Iterator[Advance]:
        began = time.monotonic()
        reached: dict[str, int] = {}

        def advance(name: str, count: int) -> None:
            if count != reached.get(name) and (
                count == total or count * 2 // total > reached.get(name, 0) * 2 // total
            ):
                reached[name] = count
                self.line(f"{name}: {count} of {total}, {time.monotonic() - began:.1f} s")

        yield advance

    def _done(self, text: str) -> None:
        self.line(text)


class Screen(Lines):
    """A terminal: headings, spinners that end as a tick, bars with n of N."""

    def section(self, title: str) -> None:
        self.out.print()
        self.out.print(Rule(Text(safe(title), style="bold"), align="left", style="dim"))

    def show(self, value: RenderableType) -> None:
        self.out.print(Padding(value, (0, 0, 0, 2)))

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        columns = (SpinnerColumn(style="cyan"), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.out, transient=True) as moving:
            moving.add_task(safe(what), total=None)
            yield
        self._done(f"{what} [{time.monotonic() - began:.1f} s]")

    @contextmanager
    def bars(self, names: Sequence[str], total: int) -> Iterator[Advance]:
        columns = (TextColumn("  {task.description}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
        moving = Progress(*columns, console=self.out)
        tasks = {name: moving.add_task(safe(name).ljust(max(map(len, names))), total=total) for name in names}
        with moving:
            yield lambda name, count: moving.update(tasks[name], completed=count)

    def _done(self, text: str) -> None:
        self.out.print(Text.assemble(("✓ ", "green"), safe(text)))


class Silent:
    """Tells nothing; for programs, that read the result."""

    def section(self, title: str) -> None:
        return

    def line(self, text: str | Text) -> None:
        return

    def show(self, value: RenderableType) -> None:
        return

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        yield

    @contextmanager
    def bars(self, names: Sequence[str], total: int) -> Iterator[Advance]:
        yield lambda name, count: None
