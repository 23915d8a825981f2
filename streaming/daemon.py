"""Spark's Python daemon, with what the tasks import loaded before it forks its workers.

Each worker would import it anew otherwise: more than a second of processor time for each, and memory that they share
this way. Spark starts it (`spark.python.daemon.module`).
"""

from __future__ import annotations

from pyspark.daemon import manager

from . import wide  # noqa: F401  (loaded for the workers)

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]
