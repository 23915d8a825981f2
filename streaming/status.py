"""What the stream tells its operator: one small JSON file, replaced whole about once a second, by two threads."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import metrics as figures
from ..metrics import Endpoint, Figures
from ..reporting import ReportFile
from ..schemas.positions import Cut, behind, cut_to_json
from ..schemas.setting_keys import scrubbed
from .report import Report

_EVERY_S = 1.0


class StatusFile:
    """Keeps `<home>/<name>.json` fresh; without a home it does nothing.

    Args:
        home: folder, or None.
        name: `stream`.
        metrics: file that gets one JSON line for each batch, or None.
        hidden: texts that no message shows.
        port: on which Prometheus finds the same, or None.
    """

    def __init__(
        self, home: str | None, name: str, metrics: str | None = None, *, hidden: Sequence[str] = (),
        port: int | None = None,
    ) -> None:  # fmt: skip
        self._name = name
        self._figures = Figures()
        self._metrics = None if metrics is None else ReportFile(Path(metrics))
        self._hidden = hidden
        self._file = None if home is None else ReportFile(Path(home) / f"{name}.json")
        self._facts: dict[str, Any] = {"pid": os.getpid(), "state": "starting", "message": "", "freshness_s": None}
        self._written = 0.0
        self._verdicts: Counter[str] = Counter()
        self._oldest_ms: float | None = None
        self._ends: Cut = {}
        self._was_at_end = False
        self._endpoint = Endpoint(port, self._figures, self._refresh_lag)

    def begins(self, marks: Cut, ends: Cut) -> None:
        """Folding begins at these marks; how far behind they are is not known until they reach the journal's end.

        Args:
            marks: the next position of each journal partition.
            ends: the end of each journal partition as Kafka tells it now, as a position.
        """
        self._oldest_ms, self._ends, self._was_at_end = None, ends, False
        self._facts |= {"marks": cut_to_json(marks), "freshness_s": 0.0 if self._is_at_end(marks) else None}

    def _is_at_end(self, marks: Cut) -> bool:
        self._was_at_end = self._was_at_end or not behind(marks, self._ends)
        return self._was_at_end

    def say(self, state: str, message: str, *, mend: str = "") -> None:
        """A new state, with what it means for the reader, and what mends it.

        A stream that waits knows only of the batch in hand; without one it does not know how far behind it is.
        """
        self._facts |= {"state": state, "message": scrubbed(message, self._hidden), "mend": mend}
        if state != "running" and self._oldest_ms is None:
            self._facts["freshness_s"] = None
        self._figures.state(self._name, state, self._facts["message"])
        self._write()

    def folding(self, oldest_ms: float | None = None) -> None:
        """A batch is being folded; until it is done the lake falls behind.

        Args:
            oldest_ms: append time of its oldest record, milliseconds UTC; None where that is not known: now, once the
                stream has been at the journal's end, for until then records may have waited for long.
        """
        self._oldest_ms = time.time() * 1000 if oldest_ms is None and self._was_at_end else oldest_ms

    def batch(self, marks: Cut, report: Report, received_s: float) -> None:
        """A batch is done."""
        self._oldest_ms = None
        self._verdicts.update(report.verdicts)
        self._count(report, received_s)
        now_ms = time.time() * 1000
        age_s = 0.0 if report.oldest_ms is None else max(0.0, now_ms - report.oldest_ms) / 1000
        known = self._is_at_end(marks) or report.oldest_ms is not None
        self._facts |= {
            "state": "running",
            "message": "",
            "marks": cut_to_json(marks),
            "freshness_s": round(age_s, 3) if known else None,
            "verdicts": dict(self._verdicts),
            "last_batch": _batch(report, received_s),
            "last_batch_ms": int(now_ms),
        }
        if self._metrics is not None and report.events:
            self._metrics.append({"at_ms": int(now_ms), "age_s": age_s, **self._facts["last_batch"]})
        self._write_if_due()

    def derived(self, functions: Sequence[Mapping[str, Any]]) -> None:
        """How far derived tables are, and why some do not go on (`DerivedTables.status`)."""
        self._facts["derived"] = list(functions)
        for function in functions:
            self._figures.set(figures.DERIVED_COMPLETE, function["complete"], function["name"])
            self._figures.set(figures.DERIVED_STOPPED, "why" in function, function["name"])

    def unserved(self, domains: Sequence[Mapping[str, Any]]) -> None:
        """Domains that are not served, each with its `name`, `why`, and what mends it (`mend`)."""
        self._facts["unserved"] = list(domains)

    def _write_if_due(self) -> None:
        if time.monotonic() - self._written >= _EVERY_S:
            self._write()

    def beat(self) -> None:
        """Write when a second has passed since the last time.

        Between batches nothing is known to wait, once the stream has been at the journal's end.
        """
        self._freshen()
        self._write_if_due()

    def _freshen(self) -> None:
        oldest_ms, now_ms = self._oldest_ms, time.time() * 1000  # a batch may end meanwhile, in its own thread
        if oldest_ms is not None:
            self._facts["freshness_s"] = round(max(0.0, now_ms - oldest_ms) / 1000, 3)
        elif self._facts["state"] == "running" and now_ms - self._facts.get("last_batch_ms", 0) > _EVERY_S * 1000:
            self._facts["freshness_s"] = 0.0 if self._was_at_end else None

    def _count(self, report: Report, received_s: float) -> None:
        for verdict, count in report.verdicts.items():
            self._figures.add(figures.EVENTS, count, verdict)
        self._figures.add(figures.ROWS, report.rows)
        self._figures.add(figures.PUBLISHED, report.published)
        if report.events:
            self._figures.observe(figures.BATCH, report.took_s + received_s)
            for step, seconds in {"receive": received_s, **report.seconds}.items():
                self._figures.add(figures.STEPS, seconds, step)
        self._figures.state(self._name, "running")

    def _refresh_lag(self) -> None:
        self._freshen()
        self._figures.set(figures.LAG, self._facts["freshness_s"], "lake")

    def close(self) -> None:
        self._write()
        self._endpoint.close()

    def _write(self) -> None:
        self._written = time.monotonic()
        if self._file is not None:
            self._file.replace(lambda: {**self._facts, "written_ms": int(time.time() * 1000)})


def _batch(report: Report, received_s: float) -> Mapping[str, Any]:
    steps = {"receive": received_s, **report.seconds}
    return {
        "events": report.events,
        "rows": report.rows,
        "published": report.published,
        "ms": {name: round(seconds * 1000, 1) for name, seconds in steps.items()},
    }
