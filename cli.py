"""The command line: `metajournal`, or `python -m metajournal.cli`.

Only the door: the commands stand in `commands/`. They are imported behind it, so that whoever interrupts a command
while Python still reads it meets one line and no stack trace.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .commands.program import main

__all__ = ["main", "program"]

_INTERRUPTED = 130


def program() -> None:
    """The process that runs one command and ends."""
    try:
        from .terminal.interrupting import raise_instances

        raise_instances()
        from .commands.program import PROGRAM, main
        from .terminal.here import rewrite_commands

        rewrite_commands(main.commands)
        main(obj=PROGRAM)
    except KeyboardInterrupt:
        with suppress(AttributeError, OSError, ValueError):  # standard error is closed, or takes nothing
            sys.stderr.write("Interrupted.\n")
            sys.stderr.flush()
        sys.exit(_INTERRUPTED)


def __getattr__(name: str) -> Any:
    if name != "main":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .commands.program import main

    return main


if __name__ == "__main__":
    program()
