"""Figures for Prometheus: what each is called and means, the numbers of this process, and the port that shows them.

Whoever does the work adds to `Figures`, which needs the standard library alone; only a configured port asks for
prometheus-client. Reporting never stops the work: where the port cannot be had, one warning says so.
The dashboard and the alert rules beside the how-to name these figures, and a test compares them with a real run.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

_log = logging.getLogger("metajournal.metrics")
_HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure that is shown.

    Attributes:
        name: as Prometheus knows it; that of a counter ends with `_total`.
        about: what it says, with its unit.
        labels: names of what it is told apart by.
    """

    name: str
    about: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...] = ()


STATE: Final = Figure("metajournal_state", "1 for the state that the component is in.", "gauge", ("component", "state"))
ERRORS: Final = Figure(
    "metajournal_errors_total",
    "Errors by their code; each time that the component began to wait or failed counts once.",
    "counter",
    ("component", "code"),
)
LAG: Final = Figure(
    "metajournal_lag_seconds",
    "Age of the oldest event that a stage (lake, index) does not show yet; absent while it is not known.",
    "gauge",
    ("stage",),
)
EVENTS: Final = Figure("metajournal_stream_events_total", "Events folded, by verdict.", "counter", ("verdict",))
ROWS: Final = Figure("metajournal_stream_rows_total", "Rows added to history tables.", "counter")
PUBLISHED: Final = Figure(
    "metajournal_stream_records_total", "Records published to change and state topics.", "counter"
)
BATCH: Final = Figure("metajournal_stream_batch_seconds", "Time of a batch with events.", "histogram")
STEPS: Final = Figure("metajournal_stream_step_seconds_total", "Time by step of the batches.", "counter", ("step",))
DERIVED_COMPLETE: Final = Figure(
    "metajournal_derived_complete", "1 where derived tables show all that the lake holds.", "gauge", ("function",)
)
DERIVED_STOPPED: Final = Figure(
    "metajournal_derived_stopped", "1 where derived tables have stopped after a fault.", "gauge", ("function",)
)
INDEXED: Final = Figure("metajournal_indexer_documents_total", "Documents written to the index.", "counter")
SKIPPED: Final = Figure(
    "metajournal_indexer_skipped_total",
    "Records that were not indexed, by reason (unreadable, forged, refused).",
    "counter",
    ("reason",),
)
REFRESHES: Final = Figure("metajournal_indexer_refreshes_total", "Refreshes of the index.", "counter")
EMITTED: Final = Figure("metajournal_client_events_total", "Events handed to the client singly.", "counter")
WAITING: Final = Figure("metajournal_client_waiting", "Records waiting for their acknowledgement.", "gauge")
UNKNOWN: Final = Figure(
    "metajournal_client_unacknowledged_total", "Events without an acknowledgement in time.", "counter"
)
OUTCOMES: Final = Figure(
    "metajournal_client_outcomes_total", "Outcomes that callers waited for, by verdict.", "counter", ("verdict",)
)

FIGURES: Final = (
    STATE, ERRORS, LAG, EVENTS, ROWS, PUBLISHED, BATCH, STEPS, DERIVED_COMPLETE, DERIVED_STOPPED, INDEXED, SKIPPED,
    REFRESHES, EMITTED, WAITING, UNKNOWN, OUTCOMES,
)  # fmt: skip
_BOUNDS_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS_S) + 1))
    total: float = 0.0


class Figures:
    """The numbers of one process; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[Figure, dict[tuple[str, ...], float]] = {}
        self._histograms: dict[Figure, _Histogram] = {}

    def add(self, figure: Figure, value: float = 1, *labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            values = self._values.setdefault(figure, {})
            values[labels] = values.get(labels, 0.0) + value

    def set(self, figure: Figure, value: float | None, *labels: str) -> None:
        """Set a gauge, or a counter that is kept elsewhere; None: it is not known."""
        with self._lock:
            values = self._values.setdefault(figure, {})
            if value is None:
                values.pop(labels, None)
            else:
                values[labels] = float(value)

    def observe(self, figure: Figure, seconds: float) -> None:
        """Add one observation to a histogram."""
        with self._lock:
            histogram = self._histograms.setdefault(figure, _Histogram())
            histogram.counts[bisect_left(_BOUNDS_S, seconds)] += 1
            histogram.total += seconds

    def state(self, component: str, state: str, message: str = "") -> None:
        """Tell the state that a component is in; a message that begins with an error's code counts as that error."""
        with self._lock:
            values = self._values.setdefault(STATE, {})
            was = {labels for labels, value in values.items() if labels[0] == component and value}
            for labels in was:
                values[labels] = 0.0
            values[component, state] = 1.0
        code, colon, _ = message.partition(": ")
        if (component, state) not in was and state in ("waiting", "failed"):
            self.add(ERRORS, 1, component, code if colon and code.replace("-", "").isalnum() else "other")

    def snapshot(self) -> tuple[Mapping[Figure, Mapping[tuple[str, ...], float]], Mapping[Figure, _Histogram]]:
        """What stands now."""
        with self._lock:
            values = {figure: dict(of_labels) for figure, of_labels in self._values.items()}
            histograms = {figure: _Histogram(list(h.counts), h.total) for figure, h in self._histograms.items()}
        return values, histograms


class Endpoint:
    """Shows figures on a port of this machine, for as long as it is open.

    Args:
        port: on 127.0.0.1; with None, nothing is shown.
        figures: what is shown.
        before: called before each look, to bring figures up to date that are kept elsewhere.
    """

    def __init__(self, port: int | None, figures: Figures, before: Callable[[], object] = lambda: None) -> None:
        self._figures = figures
        self._before = before
        self._server: Any = None
        self._thread: Any = None
        if port is not None:
            self._open(port)

    def _open(self, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ModuleNotFoundError:
            _log.warning("No metrics are shown: prometheus-client is missing. Install metajournal[metrics].")
            return
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, addr=_HOST, registry=registry)
        except (OSError, OverflowError) as error:
            _log.warning("No metrics are shown: port %s of %s cannot be had: %s.", port, _HOST, error)
            return
        _log.info("Metrics: http://%s:%s/metrics", _HOST, port)

    def describe(self) -> Iterable[Any]:
        """Nothing is asked for before the first look."""
        return ()

    def collect(self) -> Iterable[Any]:
        """The figures as prometheus-client wants them."""
        from prometheus_client import core

        try:
            self._before()
        except Exception:
            _log.warning("Figures could not be brought up to date.", exc_info=True)
        values, histograms = self._figures.snapshot()
        kinds = {"counter": core.CounterMetricFamily, "gauge": core.GaugeMetricFamily}
        for figure, of_labels in values.items():
            family = kinds[figure.kind](figure.name, figure.about, labels=figure.labels)
            for labels, value in of_labels.items():
                family.add_metric(labels, value)
            yield family
        for figure, histogram in histograms.items():
            family = core.HistogramMetricFamily(figure.name, figure.about)
            total, buckets = 0, []
            for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), histogram.counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric([], buckets, histogram.total)
            yield family

    def close(self) -> None:
        """Give the port back."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(5)
            self._server = None
