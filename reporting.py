"""What a service reports about itself: its status, its metrics, how a process ended. Reporting never stops the work.

A file is replaced whole, through a draft that is this write's alone, so neither threads nor processes meet in it. What
cannot be written is remembered, logged once, and written by the next report that finds room. Left to whom: what a
report says stands with the service. It needs the standard library alone, so every room above the rules may use it.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_log = logging.getLogger("metajournal.reporting")
_DRAFT: Final = ".draft"
_STALE_S: Final = 60.0
"""A draft this old belongs to a process that was killed while it wrote."""
_BY_SIGNAL: Final = 128
"""A shell or a JVM that a signal n has ended ends with exit code 128 + n."""
_SIGNALS: Final = {number.value: number.name for number in signal.Signals}


class ReportFile:
    """A file in which a service reports; safe to use from several threads.

    No OSError leaves it: a full disk, a folder that is gone or cannot be written, a file in the folder's place.

    Args:
        path: of the file; its folder is made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._swept = False
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why the last report was not written; empty when it was."""
        return self._problem

    def replace(self, document: Callable[[], Mapping[str, Any]]) -> None:
        """Replace the file by a JSON document.

        Args:
            document: asked when it is this thread's turn, so that what is newest stands last.
        """

        def write() -> None:
            if not self._swept:
                _remove_stale_drafts(self._path)
                self._swept = True
            replace_file(self._path, json.dumps(document()) + "\n")

        self._attempt(write)

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a JSON line, whole or not at all."""
        self._attempt(lambda: _append_line(self._path, json.dumps(record)))

    def _attempt(self, write: Callable[[], None]) -> None:
        with self._lock:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write()
            except OSError as error:
                self._note(error.strerror or str(error))
            else:
                self._note("")

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            _log.warning("%s cannot be written: %s. The work continues; each report retries.", self._path, problem)
        elif self._problem and not problem:
            _log.warning("%s is written again.", self._path)
        self._problem = problem


def replace_file(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Replace a file whole, in a folder that is there.

    Args:
        mode: of the new file, less the process's umask.
    Raises:
        OSError: it could not be written; the former file stands, and no draft is left.
    """
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{_DRAFT}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _remove_stale_drafts(path: Path) -> None:
    for draft in path.parent.glob(f".{path.name}.*{_DRAFT}"):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > _STALE_S:
                draft.unlink()


def _append_line(path: Path, line: str) -> None:
    """Append a line; what a full disk has taken of it is cut off again, or the next line would continue it."""
    data = f"{line}\n".encode()
    with path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if file.write(data) < len(data):
            file.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def signal_of(exit_code: int) -> int | None:
    """The number of the signal that ended a process; None where none did.

    Args:
        exit_code: negative where a signal ended it (as `subprocess` has it), 128 and more where it says so itself.
    """
    if exit_code < 0:
        return -exit_code
    return exit_code - _BY_SIGNAL if exit_code - _BY_SIGNAL in _SIGNALS else None


def ending(exit_code: int) -> str:
    """How a process ended, as the rest of a sentence that begins with its name.

    Args:
        exit_code: as `signal_of` has it.
    """
    number = signal_of(exit_code)
    name = f" ({_SIGNALS[number]})" if number in _SIGNALS else ""
    return f"was killed by signal {number}{name}" if exit_code < 0 else f"ended with exit code {exit_code}{name}"
