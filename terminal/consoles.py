"""The console of every command."""

from __future__ import annotations

from typing import Any, NoReturn

from rich.console import Console


class PatientConsole(Console):
    """A console that leaves it to the command's end what a reader that went away means, and cuts no line off."""

    def print(self, *objects: Any, crop: bool = False, **how: Any) -> None:
        super().print(*objects, crop=crop, **how)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError
