"""Logs of commands: the one place that decides where they go, in which form, and whose.

Text on a terminal, one JSON object a line elsewhere, or as `log.format` says; always to standard error. Of other
packages only errors are shown: what their warnings mean is told by the rooms that use them, in the project's words.
Invariants: text from outside reaches a terminal without control characters; a line that standard error does not take (a
full disk, a pipe whose reader is gone) is dropped, for logging never stops the work.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from ..schemas.masking import scrubbed
from ..schemas.settings import LogSettings
from .rendering import safe, time_text

OWN: Final = "metajournal"
_TEXT: Final = "%(asctime)s %(levelname)-7s %(message)s"


class JsonLines(logging.Formatter):
    """A log record as one JSON object on one line; `extra={"data": {…}}` adds fields to it."""

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        super().__init__()
        self._hidden = hidden

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": time_text(int(record.created * 1000)), "level": record.levelname.lower(), "logger": record.name}
        line |= {"message": record.getMessage(), **getattr(record, "data", {})}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        shown = {key: scrubbed(entry, self._hidden) if isinstance(entry, str) else entry for key, entry in line.items()}
        return json.dumps(shown, ensure_ascii=False, default=str)


class Lines(logging.Formatter):
    """A log record as a line for people."""

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        super().__init__(_TEXT, "%H:%M:%S")
        self._hidden = hidden

    def format(self, record: logging.LogRecord) -> str:
        return safe(scrubbed(super().format(record), self._hidden))


class _Handler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream. Python would write a stack trace beside each that the stream does not take."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._torn = self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        self._failed = False
        super().emit(record)
        self._torn = self._failed

    def format(self, record: logging.LogRecord) -> str:
        return ("\n" if self._torn else "") + super().format(record)  # a full disk may have taken a part of a line

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the base class's name)
        self._failed = True
        if not isinstance(sys.exc_info()[1], OSError) and not self.stream.closed:
            super().handleError(record)


def start_logging(asked: LogSettings | None = None, hidden: Sequence[str] = ()) -> bool:
    """Send logs to standard error.

    Args:
        asked: form and level; the defaults where None.
        hidden: texts that no line shows.
    Returns:
        Whether they are JSON lines.
    """
    wanted = asked or LogSettings()
    as_json = wanted.format == "json" or (wanted.format == "auto" and not sys.stderr.isatty())
    handler = _Handler(sys.stderr)
    handler.setFormatter(JsonLines(hidden) if as_json else Lines(hidden))
    logging.basicConfig(level=logging.ERROR, handlers=[handler], force=True)
    logging.getLogger(OWN).setLevel(wanted.level.upper())
    return as_json


def keep_quiet() -> None:
    """No logs; without a handler Python would print warnings of its own accord."""
    logging.basicConfig(handlers=[logging.NullHandler()])


def log_error(code: str, message: str, hint: str) -> None:
    """The error that ends a command, as a line of its log."""
    logging.getLogger(OWN).error("%s", message, extra={"data": {"code": code, "hint": hint}})
