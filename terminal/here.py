"""Commands as the reader can type them here.

Messages name `metajournal up` and `pip install 'metajournal[stream]'`. In a clone whose `.venv` is not activated the
first is not on the PATH, and no package index has the second. So the process of one command rewrites both, when it
prints them, to what works from the working folder; a program that runs commands in its own process leaves them alone.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

_INSTALL: Final = re.compile(r"pip install '?metajournal(\[[a-z,]+\])?'?(?![\w-])")
_ROOT: Final = Path(__file__).parents[1]
_commands: re.Pattern[str] | None = None


def rewrite_commands(names: Collection[str]) -> None:
    """From now on `as_typed_here` rewrites these commands, and the installation of extras."""
    global _commands
    words = "|".join(sorted((re.escape(name) for name in names), key=len, reverse=True))
    _commands = re.compile(rf"(?<![\w./-])metajournal(?= (?:-|(?:{words})(?![\w-])))")


def as_typed_here(text: str) -> str:
    """A text whose commands work as typed in the working folder."""
    if _commands is None or "metajournal" not in text:
        return text
    return _INSTALL.sub(_installed, _commands.sub(lambda _: _program(), text))


def _program() -> str:
    """How this program is started: by its name, if that is what the shell finds under it."""
    beside = Path(sys.executable).parent / "metajournal"
    named = shutil.which("metajournal")
    if named is not None and Path(named).parent.resolve() == beside.parent.resolve():
        return "metajournal"
    return _seen(beside) if beside.is_file() else f"{_seen(Path(sys.executable))} -m metajournal.cli"


def _installed(match: re.Match[str]) -> str:
    if not (_ROOT / "pyproject.toml").is_file():
        return match[0]
    return f"{_seen(Path(sys.executable))} -m pip install -e {shlex.quote(_relative(_ROOT) + (match[1] or ''))}"


def _seen(path: Path) -> str:
    return shlex.quote(_relative(path))


def _relative(path: Path) -> str:
    """A path relative to the working folder, if it is below it."""
    try:
        return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    except OSError:  # the working folder is gone
        return str(path)
