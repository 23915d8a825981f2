"""`make bench`: every figure with its limit, measured in the same run.

Prints a table, one line a figure, and writes `bench/results.json`. The exit code is 1 when a figure misses its limit.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import (
    catchup,
    commits,
    contents,
    derived,
    emit,
    file_ingest,
    files,
    follower,
    gateway,
    index,
    latency,
    lineage,
    object_rebuild,
    objects,
    openlineage,
    ranking,
    rebuild,
    search,
    steady,
)
from bench import show as entity_show
from bench import sources as bringing_in
from bench import store as in_store
from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, Settings
from metajournal.stack.services import Stack

Say = Callable[[str], None]
_RESULTS = Path(__file__).with_name("results.json")


def main() -> int:
    """Run what the arguments name (keys of `FIGURES`), or all."""
    wanted = sys.argv[1:] or list(FIGURES)
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        print(f"There is no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}.", file=sys.stderr)
        return 2
    console = Console(stderr=True)
    figures: list[dict[str, Any]] = []
    for name in wanted:
        title, measure = FIGURES[name]
        console.print(f"{name}: {title}")
        figures += measure(lambda text: console.print(f"  {text}", highlight=False))
        _RESULTS.write_text(json.dumps({"cores": os.cpu_count(), "figures": figures}, indent=1) + "\n")
    show(figures)
    return 0 if all(holds(figure) for figure in figures) else 1


def _emit(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "least": emit.LEAST_RATIO} for figure in _with_broker()]


def _index(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "least": index.LEAST_RATIO} for figure in _with_services(say)]


def _latency(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "most": 1.0} for figure in latency.run(say=say)]


def _show(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "most": 1.0} for figure in entity_show.measure(say=say)]


def _files(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "most": 1.0} for figure in files.measure(say=say)]


def _search(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "most": 1.0} for figure in search.measure(say=say)]


def _ranking(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "least": ranking.LEAST_RATIO} for figure in ranking.measure(say=say)]


def _lineage(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "most": 1.0} for figure in lineage.measure(say=say)]


def _gateway(say: Say) -> list[dict[str, Any]]:
    return gateway.run(say=say)


def _gateway_million(say: Say) -> list[dict[str, Any]]:
    return gateway.among_a_million(say=say)


def _follower(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "most": 1.0} for figure in follower.measure(say=say)]


def _openlineage(say: Say) -> list[dict[str, Any]]:
    return [{**figure, "least": 1.0} for figure in openlineage.measure(say=say)]


def _sources(say: Say) -> list[dict[str, Any]]:
    return bringing_in.measure(say=say)


def _steady_derived(say: Say) -> list[dict[str, Any]]:
    return steady.run(say, derived=True)


FIGURES: dict[str, tuple[str, Callable[[Say], list[dict[str, Any]]]]] = {
    "emit": ("typed events against raw produce()", _emit),
    "catchup": ("a backlog of 1M events against a bare copy by Spark", catchup.run),
    "rebuild": ("the lake's history tables from its journal table", rebuild.run),
    "index": ("state records to searchable against raw _bulk", _index),
    "search": ("searches and completions among 100,000 entities", _search),
    "ranking": ("rank quality of searches against plain BM25", _ranking),
    "files": ("pages of archived files among a million", _files),
    "file-ingest": ("archived files recorded in bulk, until they are visible and published", file_ingest.run),
    "contents": ("listings, differences and merge bases of repositories", contents.run),
    "commits": ("what commits contain, made beside the fold: time, rows written, layers", commits.run),
    "objects": (
        "objects of repositories in bulk, from the topic and from write, until the lake holds them",
        objects.run,
    ),
    "object-rebuild": ("the tables of 1M objects in 100 commits from the journal table", object_rebuild.run),
    "show": ("one entity among a million, with a fresh handle", _show),
    "lineage": ("a lineage of 200 nodes among a million accesses, with a fresh handle", _lineage),
    "follower": ("emit to verdict ahead of the stream, and opening a follower", _follower),
    "openlineage": ("run events from the real asynchronous client, taken in by the gateway", _openlineage),
    "gateway": ("HTTP: writes, verdicts, waiting, reads, lines, feeds, revocations", _gateway),
    "gateway-million": ("HTTP: one entity among 1,000,000", _gateway_million),
    "sources": ("10,000 tables and 5,000 models brought in, and once more without a change", _sources),
    "latency": ("emit to searchable at 100 events a second", _latency),
    "derived": ("emit to the lake with derived tables being made over without; the latest write to data", derived.run),
    "store": ("emit to the lake, in an object store over on disk, in turns", in_store.run),
    "steady-derived": ("the same as steady, with derived tables being made and a follower", _steady_derived),
    "steady": ("500 events a second among 100,000 entities, with memory and the first hit", steady.run),
}


def _with_broker() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder, Stack(Path(folder)) as stack:
        kafka = {"bootstrap.servers": stack.bootstrap_servers}
        return emit.run(Settings(journal=JournalSettings(prefix="bench", actor="bench"), kafka=kafka))


def _with_services(say: Callable[[str], None]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder, Stack(Path(folder)) as stack:
        kafka = {"bootstrap.servers": stack.bootstrap_servers}
        search = ElasticsearchSettings(url=stack.elasticsearch_url)
        return index.run(Settings(kafka=kafka, elasticsearch=search), say=say)


def holds(figure: dict[str, Any]) -> bool:
    """Whether a figure's ratio is within what it must be."""
    least, most = figure.get("least"), figure.get("most")
    return (least is None or figure["ratio"] >= least) and (most is None or figure["ratio"] <= most)


def show(figures: list[dict[str, Any]]) -> None:
    """The figures as a table on standard output."""
    table = Table("figure", "value", "limit", "unit", "ratio", "must be", "holds")
    for figure in figures:
        must = f"≥ {figure['least']}" if "least" in figure else f"≤ {figure['most']}" if "most" in figure else ""
        value, limit = (
            f"{number:,.0f}" if number >= 2 else f"{number:.2f}" for number in (figure["value"], figure["limit"])
        )
        table.add_row(
            figure["name"],
            value,
            limit,
            figure["unit"],
            f"{figure['ratio']:.2f}",
            must,
            "yes" if holds(figure) else "NO",
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
