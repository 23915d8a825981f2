"""By which words search finds repositories, branches, commits and registered objects, besides their metadata. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_TEXTS: Final = ("storage_namespace", "head", "message", "path")
"""Not the name of the default branch: whoever may read a repository need not know its branches."""


def words(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and text of all that an entity is found by: as if each were a property of scope SYSTEM."""
    yield from ((name, record[name]) for name in _TEXTS if isinstance(record.get(name), str))
    for parent in record.get("parents") or ():
        yield "parent", parent
    metadata = record.get("metadata")
    if isinstance(metadata, Mapping):
        yield from ((name, value) for name, value in metadata.items() if isinstance(value, str))
