"""An index that an earlier version made: the indexer's first start rebuilds it from the lake, while searches go on.

Left to others: the rebuild (rebuild), which a kill does not spoil, and which of them searches use meanwhile (mapping).
Invariant: an index of a later version, or of somebody else, is never touched.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from elasticsearch import Elasticsearch

from ...schemas.errors import UnavailableError
from ...schemas.settings import Settings
from ..connection import make_client
from ..errors import IndexMissingError, MappingMismatchError
from ..mapping import MAPPING_VERSION, check_mapping
from .lease import RebuildRunningError
from .patience import Patience, Stopped
from .rebuild import rebuild_index
from .stages import Stage

_log = logging.getLogger("metajournal.indexer")


def take_over(settings: Settings, stop: threading.Event, say: Callable[[str], None]) -> None:
    """Rebuild the index where an earlier version made it.

    Args:
        stop: ends it; the next start goes on.
        say: told what is done, or waited for.

    Raises:
        MappingMismatchError: the index is of a later version or somebody else's, or there is no lake here to rebuild
            it from.
    """
    client = make_client(settings)
    try:
        _take_over(settings, client, stop, say)
    except Stopped:
        pass
    finally:
        client.close()


def _take_over(settings: Settings, client: Elasticsearch, stop: threading.Event, say: Callable[[str], None]) -> None:
    patience = Patience(stop, say)
    while (earlier := _earlier(settings, client, patience)) is not None:
        held = earlier.data["held"]
        what = f"The index has mapping version {held}, this version of metajournal needs {MAPPING_VERSION}"
        _log.warning("%s; it is rebuilt from the lake, and searched meanwhile.", what)

        def tell(stage: Stage, what: str = what) -> None:
            say(f"{what}: rebuilding it from the lake ({stage.phase}, {stage.done:,} of about {stage.total:,})")

        try:
            rebuilt = rebuild_index(settings, tell=tell, say=say, stop=stop)
            _log.warning("The index %s, of %s entities, is in use.", rebuilt.index, f"{rebuilt.documents:,}")
        except RebuildRunningError as error:
            patience.wait(error.message)
        except UnavailableError as error:
            if error.code == "no-lake":
                raise earlier from error
            patience.wait(error.message)


def _earlier(settings: Settings, client: Elasticsearch, patience: Patience) -> MappingMismatchError | None:
    """What is the matter with the index, where an earlier version made it."""
    try:
        patience.call("look at its index", lambda: check_mapping(client, settings.elasticsearch.index))
    except IndexMissingError:
        return None
    except MappingMismatchError as mismatch:
        if isinstance(mismatch.data["held"], int) and 0 < mismatch.data["held"] < MAPPING_VERSION:
            return mismatch
        raise
    return None
