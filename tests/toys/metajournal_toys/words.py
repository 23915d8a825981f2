"""What a toy is found by, besides its metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def words(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The material, as if it were a property of scope SYSTEM."""
    if isinstance(material := record.get("material"), str):
        yield "material", material
