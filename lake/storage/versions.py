"""Where a derived table of a version stands: its folder's name tells it, so the pointer says which version is live.

A changed function fills its table beside the one of the version before; then the pointer moves.
"""

from __future__ import annotations

import re
from typing import Final

from ..declared import SPECS

_VERSION: Final = re.compile(r"\.v([0-9]+)$")


def versioned(name: str) -> str:
    """The folder of a table in its present version: of the first one, and of a table of the fold, its own name."""
    return _folder(name, SPECS[name].version)


def is_current(name: str, uri: str) -> bool:
    """Whether the table at a folder is one of the present version; those of the fold have no others."""
    version = SPECS[name].version
    return not version or version_of(uri) == version


def version_of(uri: str) -> int:
    """The version of the derived table at a folder."""
    named = _VERSION.search(uri.rstrip("/"))
    return int(named[1]) if named else 1


def earlier_folders(name: str) -> list[str]:
    """The folders that earlier versions of a derived table had, beside the generations."""
    return [_folder(name, version) for version in range(1, SPECS[name].version)]


def _folder(name: str, version: int) -> str:
    return name if version <= 1 else f"{name}.v{version}"
