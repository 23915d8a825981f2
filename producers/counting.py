"""The client's metrics: events handed over, records waiting, outcomes by verdict, errors by code.

Nothing of this runs where no port is configured: an emitter then has no counter at all.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import wraps
from typing import Any

from .. import metrics
from ..metrics import Endpoint, Figures
from ..schemas.errors import MetajournalError

_COMPONENT = "client"


class ClientMetrics:
    """Counts what the emitters of one client do, and shows it.

    Args:
        port: on 127.0.0.1.
    Attributes:
        waiting: of each open emitter, the number of records without an acknowledgement now.
    """

    def __init__(self, port: int) -> None:
        self.waiting: dict[object, Callable[[], int]] = {}
        self._figures = figures = Figures()
        self._endpoint = Endpoint(
            port, figures, lambda: figures.set(metrics.WAITING, sum(waiting() for waiting in [*self.waiting.values()]))
        )
        figures.state(_COMPONENT, "running")

    def emitting(self, emit: Callable[..., Any]) -> Callable[..., Any]:
        """An `emit` that is counted."""

        @wraps(emit)
        def counted(*args: Any, **options: Any) -> Any:
            try:
                receipt = emit(*args, **options)
            except MetajournalError as error:
                self._figures.add(metrics.ERRORS, 1, _COMPONENT, error.code)
                raise
            self._figures.add(metrics.EMITTED)
            return receipt

        return counted

    def unacknowledged(self) -> None:
        """An event had no acknowledgement in time."""
        self._figures.add(metrics.UNKNOWN)

    def outcome(self, ask: Callable[[], Any]) -> Any:
        """An outcome, waited for."""
        try:
            verdict = ask()
        except MetajournalError as error:
            self._figures.add(metrics.ERRORS, 1, _COMPONENT, error.code)
            raise
        self._figures.add(metrics.OUTCOMES, 1, verdict.word)
        return verdict

    def outcome_future(self, future: Any) -> Any:
        """An outcome that will come."""
        future.add_done_callback(self._came)
        return future

    def _came(self, future: Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, MetajournalError):
            self._figures.add(metrics.ERRORS, 1, _COMPONENT, error.code)
        elif error is None and not future.cancelled():
            self._figures.add(metrics.OUTCOMES, 1, future.result().word)

    def close(self) -> None:
        self._endpoint.close()
