"""The console of every command."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class PatientConsole(Console):
    """A console that leaves it to the command's end what a reader that went away means."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError
