"""The indexer's metrics, from what its status file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ... import metrics
from ...metrics import Endpoint, Figures

_COMPONENT = "indexer"


class IndexerMetrics:
    """Shows an indexer's status to Prometheus.

    Args:
        port: on 127.0.0.1, or None.
        status: what the status file says.
    """

    def __init__(self, port: int | None, status: Callable[[], Mapping[str, Any]]) -> None:
        self._figures = Figures()
        self._status = status
        self._endpoint = Endpoint(port, self._figures, self._refresh)

    def state(self, state: str, message: str) -> None:
        """The state it is in now."""
        self._figures.state(_COMPONENT, state, message)

    def _refresh(self) -> None:
        status, figures = self._status(), self._figures
        figures.set(metrics.LAG, status["freshness_s"], "index")
        figures.set(metrics.INDEXED, status["indexed"])
        figures.set(metrics.REFRESHES, status["refreshes"])
        for reason in ("unreadable", "forged", "refused"):
            figures.set(metrics.SKIPPED, status[reason], reason)

    def close(self) -> None:
        self._endpoint.close()
