"""The console of every command."""

from __future__ import annotations

from typing import Any, NoReturn

from rich.console import Console


class PatientConsole(Console):
    """A console that leaves a closed pipe to the end of the command, and truncates no line."""

    def print(self, *objects: Any, crop: bool = False, **how: Any) -> None:
        super().print(*objects, crop=crop, **how)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError
