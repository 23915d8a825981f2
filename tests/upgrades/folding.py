"""The stream's and the indexer's part of an archive: the same starts with the same batches, whoever folds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from elasticsearch import ApiError

from metajournal.indexer.connection import is_away, make_client
from metajournal.indexer.errors import IndexMissingError
from metajournal.indexer.mapping import POSITIONS_ID
from metajournal.indexer.shown import read_shown
from metajournal.lake.digest import table_digest
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs
from metajournal.schemas.positions import Cut, behind, position
from metajournal.schemas.settings import Settings
from metajournal.streaming.publish import watermarks
from tests.index import index_holds
from tests.processes import running, running_stream, stream
from tests.upgrades.archive import Index
from tests.wait import eventually

KILLED: Final = -9
_RECORDING_INDEXER: Final = """
import pickle, sys
settings, *_ = pickle.load(sys.stdin.buffer)
from pathlib import Path
from elasticsearch import Elasticsearch
plain = Elasticsearch.perform_request
def noting(self, method, path, **more):
    if "/_bulk" in path:
        with Path(settings.stack.home, "sent").open("ab") as file:
            file.write(more["body"])
    return plain(self, method, path, **more)
Elasticsearch.perform_request = noting
from metajournal.indexer.fill.process import run_indexer
run_indexer(settings)
"""
"""An indexer that writes down what it sends: the index keeps of a document what hits show, and none of its terms."""


def fold(settings: Settings, epochs: Epochs, runs: Sequence[Mapping[str, Any]], logs: Path) -> None:
    """Start the stream once for each of the runs; one with `crash_at` kills itself there, the others reach the end.

    One Spark task at a time and no repeated outcomes, so that the same batches give the same topics.
    """
    for number, asked in enumerate(runs):
        fixed = {"master": "local[1]", "idle_outcome_interval_s": 86_400.0, **asked}
        one = replace(settings, stream=replace(settings.stream, **fixed))
        log = logs / f"stream-{number}.log"
        if "crash_at" in asked:
            killed = stream(one, log)
            assert killed.ended(180) == KILLED, killed.tail()
            continue
        with running_stream(one, log) as process:
            eventually(lambda: folded_all(settings, epochs), 60, f"the fold to the journal's end ({log})")
            assert process.stop() == 0, process.tail()


def folded_all(settings: Settings, epochs: Epochs) -> bool:
    """Whether the journal table holds all that the journal topics hold now."""
    lake = Lake(settings.lake.path)
    return lake.journal.exists() and not behind(marks_of(lake, epochs), ends_of(settings, epochs))


def ends_of(settings: Settings, epochs: Epochs) -> Cut:
    """The next position of each journal partition."""
    keys = [(topic, partition) for topic, one in epochs.items() for partition in range(one.partitions)]
    return {key: position(epochs[key[0]].epoch, high) for key, (_, high) in watermarks(settings, keys).items()}


def marks_of(lake: Lake, epochs: Epochs) -> Cut:
    return {
        (topic, partition): lake.journal.mark((topic, partition))
        for topic, one in epochs.items()
        for partition in range(one.partitions)
    }


def digests_of(lake: Lake, epochs: Epochs) -> dict[str, str]:
    """Digest of each table of the fold below the journal table's marks."""
    marks = marks_of(lake, epochs)
    tables = sorted((lake.journal, *lake.histories), key=lambda table: table.name)
    return {table.name: table_digest(table.delta, marks) for table in tables}


def index_all(settings: Settings, epochs: Epochs, log: Path) -> Index:
    """Have the indexer show what the lake holds; what the index holds then."""
    with running(_RECORDING_INDEXER, settings, log) as indexer:
        eventually(lambda: shows_the_lake(settings, epochs), 60, f"the index at the lake's marks ({log})")
        assert indexer.stop() == 0, indexer.tail()
    return capture_index(settings)


def shows_the_lake(settings: Settings, epochs: Epochs) -> bool:
    """Whether the index shows all that the journal table holds."""
    client = make_client(settings)
    try:
        shown = read_shown(client, settings.elasticsearch.index)
    except IndexMissingError:
        return False
    except ApiError as error:
        if not is_away(error):  # a shard may not have started yet
            raise
        return False
    finally:
        client.close()
    return not behind(shown.vector, marks_of(Lake(settings.lake.path), epochs))


def capture_index(settings: Settings) -> Index:
    """The index with the documents that were sent to it, once they are those that it holds."""
    documents = _sent(Path(settings.stack.home or "") / "sent")
    held = {name: (int(one["version"]), one["entity"]) for name, one in index_holds(settings).items()}
    assert {name: (version, one["entity"]) for name, version, one in documents} == held
    client = make_client(settings)
    try:
        alias = settings.elasticsearch.index
        [(name, body)] = client.indices.get(index=alias).body.items()
        own = ("uuid", "creation_date", "provided_name", "version", "number_of_replicas", "routing")
        wanted = {key: one for key, one in body["settings"]["index"].items() if key not in own}
        positions = client.get(index=alias, id=POSITIONS_ID)["_source"]
    finally:
        client.close()
    return Index(name, body["aliases"], wanted, body["mappings"], documents, positions)


def _sent(file: Path) -> list[tuple[str, int, Any]]:
    """The newest document of each entity among those that were sent."""
    lines = file.read_bytes().splitlines()
    newest: dict[str, tuple[int, Any]] = {}
    for action, document in zip(lines[::2], lines[1::2], strict=True):
        said = json.loads(action)["index"]
        if said["version"] >= newest.get(said["_id"], (0, None))[0]:
            newest[said["_id"]] = (said["version"], json.loads(document))
    return [(name, *one) for name, one in sorted(newest.items())]
