"""Spark's Python daemon, with what the tasks import loaded before it forks its workers.

Each worker would import it anew otherwise: more than a second of processor time for each, and memory that they share
this way. Spark starts it (`spark.python.daemon.module`). Two things that Spark does with every task get cheap here:

- It runs the collector of cycles. What is loaded lives as long as the workers do, so the collector need not look at it.
- It has Python forget what it knows of the import path. Spark puts archives of its own sources in front of that path,
  whose tables of contents are read anew then, 75 ms for each task; the same modules are installed, compiled, as files.
"""

from __future__ import annotations

import gc
import sys
from pathlib import PurePath


def without_archives(path: list[str]) -> list[str]:
    """An import path without the archives of Spark's own sources (`pyspark.zip`, `py4j-*-src.zip`)."""
    return [
        entry for entry in path if not (entry.endswith(".zip") and PurePath(entry).name.startswith(("pyspark", "py4j")))
    ]


def _serve() -> None:
    sys.path[:] = without_archives(sys.path)
    from pyspark.daemon import manager

    from ..tasks import load_domains
    from . import wide  # noqa: F401  (loaded for the workers)

    load_domains()

    for archive in [entry for entry in sys.path_importer_cache if entry not in sys.path and entry.endswith(".zip")]:
        del sys.path_importer_cache[archive]
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    _serve()
