"""The indexer's status file: what it shows, how fresh that is, what it waits for. Written whole or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

from ...reporting import ReportFile
from ...schemas.setting_keys import hidden_texts, scrubbed
from ...schemas.settings import Settings

STATUS_FILE: Final = "indexer.json"
INTERVAL_S: Final = 1.0


class StatusFile:
    """Writes `<stack.home>/indexer.json` about once a second; does nothing where no home is set."""

    def __init__(self, settings: Settings) -> None:
        home = settings.stack.home
        self._file = None if home is None else ReportFile(Path(home) / STATUS_FILE)
        self._hidden = hidden_texts(settings)
        self._last_s = 0.0
        self._state = ""

    def due(self, state: str) -> bool:
        """Whether it is time to write: a second has passed, or the state is another one."""
        return self._file is not None and (state != self._state or time.monotonic() - self._last_s >= INTERVAL_S)

    def write(self, status: dict[str, Any]) -> None:
        """Replace the file; where that cannot be done the old one stays, and the indexer goes on."""
        if self._file is None:
            return
        self._last_s, self._state = time.monotonic(), status["state"]
        status = {**status, "message": scrubbed(str(status.get("message", "")), self._hidden)}
        self._file.replace(lambda: {"written_ms": round(time.time() * 1000), "pid": os.getpid(), **status})
