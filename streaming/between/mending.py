"""What the stream does while a table of its lake is damaged: it waits, and takes over what a rebuild offers.

An event that needs a damaged file cannot be judged without it, so nothing is folded meanwhile. The process stays alive,
since it is the one that puts rebuilt tables in the place of the live ones; then it begins again at its marks.
"""

from __future__ import annotations

import logging
import threading
import time

from ...lake.storage.damage import is_mended
from ...lake.tables import Lake
from ...producers.topics import check_topics
from ...schemas.errors import DamagedTableError, UnavailableError
from ...schemas.settings import Settings
from ..rebuild import take_offered
from ..status import StatusFile

_log = logging.getLogger("metajournal.stream")
_LOOK_S = 0.5


def wait_for_mend(
    error: DamagedTableError, settings: Settings, status: StatusFile, stop: threading.Event, at_least_s: float
) -> None:
    """Wait until rebuilt tables have taken the damaged one's place, its file is whole again, or the stream is stopped.

    Args:
        error: what is damaged.
        status: where the stream says that it waits, and what mends it.
        stop: set when the stream is to end.
        at_least_s: seconds to wait also where nothing is damaged any more: another machine's disk may be.
    """
    until = time.monotonic() + at_least_s
    _say(error, status)
    while not stop.wait(_LOOK_S):
        status.beat()
        try:
            if _is_mended(error, settings) and time.monotonic() >= until:
                return
        except UnavailableError as away:
            _log.debug("Checking for rebuilt tables failed: %s", away)
        except DamagedTableError as other:  # the journal table, which the end of a rebuild reads
            if str(other) != str(error):
                error = other
                _say(error, status)


def _say(error: DamagedTableError, status: StatusFile) -> None:
    _log.warning("%s %s", error, error.hint)
    status.say("waiting", f"{error.code}: {error}", mend=error.hint)


def _is_mended(error: DamagedTableError, settings: Settings) -> bool:
    """Whether a damaged table was replaced, here or by somebody else, or is whole again."""
    lake = Lake(settings.lake.path, settings.lake.storage_options)
    if lake.is_offered():
        number = take_offered(settings, check_topics(settings), lake)
        if number is not None:
            _log.info("Generation %d of the lake is now the live one.", number)
    return not lake.is_live(error.uri) or is_mended(error, settings.lake.storage_options)
