"""Where things are kept on this machine: downloaded parts (a cache) and the data of the services (not a cache)."""

from __future__ import annotations

import os
from pathlib import Path

from ..schemas.settings import Settings


def cache_folder() -> Path:
    """Folder of everything that can be downloaded again: $METAJOURNAL_CACHE, else below the user's cache folder."""
    own = os.environ.get("METAJOURNAL_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "metajournal"


def data_folder(settings: Settings) -> Path:
    """Folder of the services' data, as `stack.home` says, else below the user's data folder."""
    if settings.stack.home:
        return Path(settings.stack.home).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "metajournal"
