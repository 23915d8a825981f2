"""Which entities a change record of lineage speaks of: the run or stream, and the data that was accessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...schemas.urn import Urn


def entities_of(subject: Urn, record: Mapping[str, Any]) -> tuple[Urn, ...]:
    """The entities of a record."""
    return (subject, Urn.parse(record["data"])) if "data" in record else (subject,)
