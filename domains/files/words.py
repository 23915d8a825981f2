"""What a file's record adds to what finds the file: where it came from, what it is, and where it lies. Pure.

The record is the files domain's (`state["record"]`); here it is only read, text by text, as if each were a property of
scope SYSTEM under the name that it has in the record. What is no text (times, sizes, a null work_id) finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_NAMED: Final = ("path", "what", "where", "work_id")


def words(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and text of all that a file is found by besides its metadata."""
    if isinstance(url := record.get("url"), str):
        yield "url", url
    metadata = record.get("metadata")
    if isinstance(metadata, Mapping):
        yield from ((name, metadata[name]) for name in _NAMED if isinstance(metadata.get(name), str))
