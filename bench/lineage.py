"""A lineage of 200 nodes among a million accesses, asked with a fresh handle.

The lake is filled as the stream fills it: facts of runs in the order of time, programs all mixed, in large appends and
then small ones, with upkeep between them, until one more append would start a compaction. There are 100 trees of 100
data and 100 programs each (program i reads what programs 2i+1 and 2i+2 write), of 34 runs a program. A chain of 100
data and 100 programs is asked for too: the most levels that 200 nodes can have.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.show import _column, _journal_rows
from metajournal.domains.catalog.urns import dataset
from metajournal.domains.lineage.queries import LineageQueries
from metajournal.domains.lineage.questions import LineageQuestion
from metajournal.lake.columns import TIMESTAMP
from metajournal.lake.declared import SPECS
from metajournal.lake.storage.compaction import live_files
from metajournal.lake.storage.files import run_of
from metajournal.lake.storage.runs import MOST_LOOSE
from metajournal.lake.tables import Lake, Reached
from metajournal.schemas.topics import TopicNames

TREES: Final = 100
NODES: Final = 100
RUNS: Final = 34
PER_RUN: Final = 3
BACKLOG_RUNS: Final = 10_000
BATCH_RUNS: Final = 50
BATCHES: Final = 200
PROBES: Final = 40
LIMIT_MS: Final = 300
_TOPIC: Final = TopicNames().journal("catalog")
_PARTITIONS: Final = 4
_FIRST: Final = 1 << 40
_DAY_MS: Final = 86_400_000


def measure(
    *, trees: int = TREES, probes: int = PROBES, say: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Fill a lake and ask; gives the p50 in milliseconds with its limit, and the p50 of other shapes of question."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        say(f"filling a lake with {trees * NODES * RUNS * PER_RUN:,} accesses of {trees * NODES * RUNS:,} runs")
        lake = fill(folder, trees)
        files = {name: live_files(lake.tables[name].delta) for name in ("accesses", "runs", "relations")}
        loose = {name: sum(run_of(file.path) is None for file in live) for name, live in files.items()}
        say(f"files { ({name: len(live) for name, live in files.items()}) }, of these loose {loose}; {probes} probes")
        choose = random.Random(5)
        chosen = [choose.randrange(1, trees) for _ in range(probes)]
        whole = [_probe(folder, f"n000t{tree:03}") for tree in chosen]
        narrow = [_probe(folder, f"n000t{tree:03}", window=0.1) for tree in chosen]
        chain = [_probe(folder, "n000t000", levels=200) for _ in range(max(3, probes // 10))]
    p50 = statistics.median(whole)
    return [
        {
            "name": f"lineage of {2 * NODES} nodes among {trees * NODES * RUNS * PER_RUN:,} accesses, p50",
            "value": p50,
            "limit": LIMIT_MS,
            "ratio": p50 / LIMIT_MS,
            "unit": "ms",
            "p99": statistics.quantiles(whole, n=100)[98],
            "narrow_window_p50": statistics.median(narrow),
            "chain_p50": statistics.median(chain),
            "probes": probes,
            "loose_files": loose,
        }
    ]


def fill(folder: str, trees: int) -> Lake:
    """A lake as the stream leaves it just before a compaction of `accesses`."""
    lake = Lake(folder)
    lake.create()
    order = np.random.default_rng(7).permutation(trees * NODES * RUNS)
    _relations(lake, trees)
    for start in range(0, len(order), BACKLOG_RUNS):
        _batch(lake, order[start : start + BACKLOG_RUNS], start)
        while lake.tidy():
            pass
    batches, begun, table = 0, len(order), lake.tables["accesses"]
    while batches < BATCHES or sum(run_of(file.path) is None for file in live_files(table.delta)) < MOST_LOOSE - 1:
        _batch(lake, np.arange(BATCH_RUNS) + trees * NODES * RUNS + batches * BATCH_RUNS, begun)
        lake.tidy()
        batches, begun = batches + 1, begun + BATCH_RUNS
    return lake


def _names(numbers: Any, trees: int = TREES) -> tuple[Any, Any]:
    """Of runs with these numbers: tree and node of the program. Runs beyond all trees belong to a program aside."""
    programs = numbers // RUNS
    return programs // NODES, programs % NODES


def _texts(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(
        *[part if isinstance(part, pa.Array | str) else _text(part) for part in parts], ""
    )


def _text(numbers: Any, width: int = 3) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def _programs(trees: Any, nodes: Any, kind: str = "program:") -> pa.Array:
    """Programs, those of a tree scattered over the whole table: app by app each belongs to another tree."""
    return _texts(f"{kind}bench/a", _text(nodes), "/spark/p", _text(trees))


def _data(trees: Any, nodes: Any) -> pa.Array:
    """Data, those of a tree scattered as its programs are."""
    return _texts("dataset:bench/n", _text(nodes), "t", _text(trees))


def _sources(trees: Any, nodes: Any, side: int) -> Any:
    """What a program reads: in tree 0 the next node (a chain), elsewhere one of two; a leaf reads what it writes."""
    read = np.where(trees == 0, nodes + 1, 2 * nodes + side)
    return np.where(read < NODES, read, nodes)


def _relations(lake: Lake, trees: int) -> None:
    programs = np.arange(trees * NODES)
    tree, node = programs // NODES, programs % NODES
    data = [_data(tree, node), *[_data(tree, _sources(tree, node, side)) for side in (1, 2)]]
    relation_columns = {"data": pa.concat_arrays(data), "program": pa.concat_arrays([_programs(tree, node)] * 3)}
    table = _common("relations", relation_columns, 3 * len(programs), _FIRST)
    lake.tables["relations"].append(table, Reached({}, {}, {"catalog": "bench"}))
    while lake.tidy():
        pass


def _batch(lake: Lake, numbers: Any, begun: int) -> None:
    """One batch of the stream: runs that began one after another, with their accesses; then the journal table."""
    tree, node = _names(numbers)
    count = len(numbers)
    first = max(_FIRST, lake.journal.mark((_TOPIC, 0)))
    marks = {(_TOPIC, partition): first + count for partition in range(_PARTITIONS)}
    start_ms = (np.arange(count) + begun) * (_DAY_MS // 1000)
    runs = _texts(_programs(tree, node, "run:"), "/", _text(numbers, 8))
    made_columns = {
        "run": runs,
        "program": _programs(tree, node),
        "start": _times(start_ms),
        "first_access": _times(start_ms + 10),
        "stop": _times(start_ms + 60_000),
        "status": "COMPLETED",
    }
    lake.tables["runs"].append(_common("runs", made_columns, count, first), Reached(marks, {}, {"catalog": "bench"}))
    data = [_data(tree, _sources(tree, node, 1)), _data(tree, _sources(tree, node, 2)), _data(tree, node)]
    kinds = pa.array(["read"] * count + ["read"] * count + ["write"] * count)
    made_columns = {
        "run": pa.concat_arrays([runs] * PER_RUN),
        "data": pa.concat_arrays(data),
        "access": kinds,
        "component": pa.array(["left"] * count + ["right"] * count + [""] * count),
        "program": pa.concat_arrays([made_columns["program"]] * PER_RUN),
        "happened_at": _times(np.tile(start_ms + 10, PER_RUN)),
        "metadata": None,
    }
    lake.tables["accesses"].append(
        _common("accesses", made_columns, PER_RUN * count, first), Reached(marks, {}, {"catalog": "bench"})
    )
    lake.journal.append(_journal_rows(first), Reached(marks, marks, {"catalog": "bench"}))


def _times(milliseconds: Any) -> pa.Array:
    return pa.array(milliseconds * 1000).cast(pa.timestamp("us")).cast(TIMESTAMP)


def _common(name: str, own_columns: dict[str, Any], count: int, first: int) -> pa.Table:
    """A table of the schema with the columns that every row has."""
    positions = pa.array(first + np.arange(count) // PER_RUN)
    programs = own_columns["program"]
    columns = {
        "tenant": "default",
        "aggregate": pc.binary_join_element_wise("app:bench/", pc.utf8_slice_codeunits(programs, 14, 18), ""),
        "domain": "catalog",
        "journal_partition": 0,
        "logical_timestamp": positions,
        "seq": 0,
        "system_time": _times(np.arange(count) + 1_700_000_000_000),
        "event_time": _times(np.arange(count) + 1_700_000_000_000),
        "event_id": pc.binary_join_element_wise("01890000-0000-7000-8000-", pc.cast(positions, pa.string()), ""),
        "actor": "bench",
        "deleted": False,
        **own_columns,
    }
    schema = SPECS[name].schema
    return pa.table([_column(columns[field.name], field.type, count) for field in schema], schema=schema)


def _probe(folder: str, name: str, *, levels: int = 50, window: float = 1.0) -> float:
    end_ms = int(TREES * NODES * RUNS * (_DAY_MS // 1000) * window)
    start = time.perf_counter()
    queries = LineageQueries(Lake(folder), TopicNames(), _PARTITIONS)
    answer = queries.of("default", LineageQuestion.of(dataset("bench", name), 0, end_ms, levels=levels))
    took = (time.perf_counter() - start) * 1000
    nodes = len(answer["data"]) + len(answer["programs"])
    if nodes != 2 * NODES and window == 1.0:
        raise RuntimeError(f"the lineage of {name} has {nodes} nodes")
    return took


def main() -> int:
    """Print the figures; 1 when the median misses its limit."""
    (figure,) = measure(say=lambda text: print(text, file=sys.stderr))
    print(f"{figure['name']}: {figure['value']:.0f} ms, at most {figure['limit']} ms; p99 {figure['p99']:.0f} ms")
    print(
        f"in a tenth of the time {figure['narrow_window_p50']:.0f} ms; a chain of as many {figure['chain_p50']:.0f} ms"
    )
    return 0 if figure["ratio"] <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
