"""Where downloaded parts are kept on this machine. The data of the services is no cache: callers say where it goes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Folder of everything that can be downloaded again: $METAJOURNAL_CACHE, else below the user's cache folder."""
    own = os.environ.get("METAJOURNAL_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "metajournal"
