"""Lineage over HTTP: OpenLineage in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...schemas.endpoints import Endpoint, Need
from .receiving import RECEIVING

ENDPOINTS: Final[tuple[Endpoint, ...]] = (*RECEIVING,)
"""Lineage's rows."""
NEEDS: Final[Mapping[str, Callable[[Any], Sequence[Need]]]] = {}
"""The rights that lineage's events need."""
