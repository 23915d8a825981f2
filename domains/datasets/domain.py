"""Datasets: their kind is reserved, no event is served yet."""

from __future__ import annotations

from typing import Final

from ...schemas.domain import Domain, Kind

DOMAIN: Final = Domain("datasets", __package__, kinds=(Kind("chain", "datasets"),), served=False)
