"""What the gateway counts: requests by endpoint, method and status, and their time."""

from __future__ import annotations

from typing import Final

from ..metrics import Figure, Figures

REQUESTS: Final = Figure(
    "metajournal_gateway_requests_total",
    "Requests answered, by endpoint and status.",
    "counter",
    ("endpoint", "status"),
)
SECONDS: Final = Figure("metajournal_gateway_request_seconds", "Time from a request's head to its answer.", "histogram")

AUDIT_LOST: Final = Figure(
    "metajournal_gateway_audit_lost_total",
    "Records of the audit that its topic did not get; the log has them.",
    "counter",
)
AUDIT_LEFT_OUT: Final = Figure(
    "metajournal_gateway_audit_left_out_total",
    "Refused requests that have no record of their own in the audit, since too many came from one sender.",
    "counter",
)
FEEDS: Final = Figure("metajournal_gateway_feeds", "Feeds that are open.", "gauge")


class GatewayFigures:
    """The numbers of one process."""

    def __init__(self) -> None:
        self.figures = Figures()

    def request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count an answered request.

        Args:
            endpoint: its name in the table; "none" where there is none.
        """
        self.figures.add(REQUESTS, 1, endpoint, str(status))
        self.figures.observe(SECONDS, seconds)
