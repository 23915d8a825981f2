"""A lake of one repository, filled in columns as the fold fills it, and its commits made by the real process.

Rows of `objects`, `commits` and `branches` go into their tables batch by batch, with upkeep between them as the stream
does it. What each commit contains is then made by the process that makes derived tables, a piece at a time.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.show import _column
from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from metajournal.lake.columns import JOURNAL, TIMESTAMP
from metajournal.lake.declared import SPECS
from metajournal.lake.tables import Lake, Reached
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.derived.committing import commit, tables_of
from metajournal.streaming.derived.functions import DERIVED
from metajournal.streaming.derived.making import USUAL, Offer
from metajournal.streaming.derived.process import Request
from metajournal.streaming.derived.server import Answered, Beside

REPO: Final = "bench"
FUNCTION: Final = "trees"
TOPIC: Final = TopicNames().journal("repositories")
KEY: Final = (TOPIC, 0)
_FIRST: Final = 1 << 40
_EVENT_ROWS: Final = 1_000
_ENTRY_BYTES: Final = 16

Numbers = npt.NDArray[np.int64]


def path_names(numbers: Numbers) -> pa.Array:
    """The paths of some numbers: a thousand that follow each other share a prefix."""
    texts = pa.array(numbers).cast(pa.string())
    folders = pc.utf8_lpad(pa.array(numbers // 1_000).cast(pa.string()), 5, "0")
    return pc.binary_join_element_wise("data/", folders, "/part-", pc.utf8_lpad(texts, 8, "0"), ".parquet", "")


class CommitLake:
    """Fills the tables of a lake.

    Args:
        folder: of the lake.
    """

    def __init__(self, folder: str | Path) -> None:
        self.lake = Lake(str(folder))
        self.lake.include(["repositories"])
        self.lake.create()
        self.position = _FIRST
        self.heads: dict[str, str] = {}
        self._staging = {"main": _FIRST}
        self._staged = {"main": 0}
        self._count = 0
        self._waiting: dict[str, list[pa.Table]] = {"objects": [], "commits": [], "branches": [], "resets": []}
        self._choose = np.random.default_rng(11)

    def create(self) -> None:
        """Create the repository: readers ask for it, the pass does not."""
        columns = self._branch("main") | {"urn": str(repository_urn(REPO)), "created": _FIRST, "members": 1}
        self._add("branches", columns, 1)

    def line(self, branch: str, count: int) -> None:
        """So many commits behind each other on a branch, of which nothing but refs is written."""
        ids = [hashlib.sha256(f"{branch}/{self.position + one}".encode()).hexdigest() for one in range(count)]
        columns = {
            "commit": [str(commit_urn(REPO, one)) for one in ids], "branch": str(branch_urn(REPO, branch)),
            "parents": [[one] for one in [self.heads[branch], *ids[:-1]]], "staging": None, "strategy": None,
            "message": "m", "metadata": "{}", "staging_digest": "00" * 16, "digest": "00" * 16,
            "logical_timestamp": np.arange(count) + self.position,
        }  # fmt: skip
        self._add("commits", columns, count)
        self.position += count
        self._begin(branch, ids[-1])

    def write(self, numbers: Numbers, branch: str = "main", *, deleted: bool = False) -> None:
        """Stage objects, in events of 1,000."""
        for start in range(0, len(numbers), _EVENT_ROWS):
            part = np.sort(numbers[start : start + _EVENT_ROWS])
            columns = self._entries(part, deleted=deleted) | {
                "repo": REPO, "staging": self._staging[branch], "path": path_names(part),
                "branch": str(branch_urn(REPO, branch)), "seq": np.arange(len(part)),
            }  # fmt: skip
            self._add("objects", columns, len(part), deleted=deleted)
            self._staged[branch] += len(part)
            self._add("branches", self._branch(branch), 1)
            self.position += 1

    def commit(self, branch: str = "main", *, source: str | None = None, strategy: str = "none") -> str:
        """Commit what is staged, or merge another branch; gives the commit's id."""
        self._count += 1
        made = hashlib.sha256(str(self._count).encode()).hexdigest()
        parents = [self.heads[one] for one in (branch, source) if one is not None and one in self.heads]
        columns = {
            "commit": str(commit_urn(REPO, made)), "branch": str(branch_urn(REPO, branch)), "parents": [parents],
            "staging": self._staging[branch] if self._staged[branch] else None,
            "strategy": None if source is None else strategy, "message": "m", "metadata": "{}",
            "staging_digest": "00" * 16, "digest": "00" * 16,
        }  # fmt: skip
        self._add("commits", columns, 1)
        self._begin(branch, made)
        return made

    def branch(self, name: str, at: str = "main") -> None:
        """Begin a branch at another one's head."""
        self._begin(name, self.heads[at])

    def _begin(self, branch: str, head: str) -> None:
        self.heads[branch], self._staging[branch], self._staged[branch] = head, self.position, 0
        self._add("branches", self._branch(branch), 1)
        self.position += 1

    def reset(self, path: str, branch: str = "main", *, is_prefix: bool = True) -> None:
        """Drop what is staged under a prefix."""
        columns = {"repo": REPO, "staging": self._staging[branch], "path": path, "is_prefix": is_prefix}
        self._add("resets", columns, 1)
        self.position += 1

    def batch(self, *, tidy_s: float = 0.0) -> None:
        """What was added becomes one batch of the stream, with its upkeep."""
        marks = {KEY: self.position}
        for name, waiting in self._waiting.items():
            rows = pa.concat_tables(waiting) if waiting else SPECS[name].schema.empty_table()
            self.lake.tables[name].append(rows, Reached(marks, {}, {"repositories": "bench"}))
            waiting.clear()
        self.lake.journal.append(self._journal(), Reached(marks, marks, {"repositories": "bench"}))
        self.lake.tidy(for_s=tidy_s)

    def load(self, objects: int, *, commits: int = 1, batch_rows: int = 50_000) -> None:
        """Write objects in random order and commit them, in batches as a backlog comes."""
        order = self._choose.permutation(objects)
        waiting = 0
        for part in np.array_split(order, commits):
            for start in range(0, len(part), _EVENT_ROWS):
                self.write(part[start : start + _EVENT_ROWS])
                waiting += _EVENT_ROWS
                if waiting >= batch_rows:
                    self.batch(tidy_s=0.3)
                    waiting = 0
            self.commit()
        self.batch(tidy_s=0.3)

    def scattered(self, among: int, count: int) -> Numbers:
        """Numbers of some objects, anywhere."""
        return self._choose.choice(among, count, replace=False)

    def _branch(self, branch: str) -> dict[str, Any]:
        return {
            "urn": str(branch_urn(REPO, branch)), "head": self.heads.get(branch), "staging": self._staging[branch],
            "staging_digest": "00" * 16, "staged_events": 1, "staged_rows": self._staged[branch],
            "created": None, "members": None,
        }  # fmt: skip

    def _entries(self, numbers: Numbers, *, deleted: bool) -> dict[str, Any]:
        count = len(numbers)
        if deleted:
            return dict.fromkeys(("size", "checksum", "address", "blocks", "content_type", "metadata", "mtime_ms",
                                  "content"))  # fmt: skip
        contents = self._choose.bytes(count * _ENTRY_BYTES)
        offsets = pa.py_buffer(np.arange(0, (count + 1) * _ENTRY_BYTES, _ENTRY_BYTES, dtype=np.int32))
        content = pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(contents)])
        checksums = pa.array([contents[at : at + _ENTRY_BYTES].hex() for at in range(0, len(contents), _ENTRY_BYTES)])
        return {
            "size": pa.array(self._choose.integers(0, 1 << 20, count)), "checksum": checksums,
            "address": pc.binary_join_element_wise("s3://bucket/blocks/", checksums, ""), "blocks": None,
            "content_type": "application/parquet", "metadata": "{}",
            "mtime_ms": pa.array(np.full(count, 1_700_000_000_000)), "content": content,
        }  # fmt: skip

    def _add(self, table: str, columns: dict[str, Any], count: int, *, deleted: bool = False) -> None:
        schema = SPECS[table].schema
        when = pa.scalar(1_700_000_000_000_000, pa.timestamp("us")).cast(TIMESTAMP)
        every = {
            "tenant": "default", "aggregate": str(repository_urn(REPO)), "domain": "repositories",
            "journal_partition": 0, "logical_timestamp": self.position, "seq": 0, "system_time": when,
            "event_time": when, "event_id": f"01890000-0000-7000-8000-{self.position & 0xFFFFFFFFFFFF:012x}",
            "actor": "bench", "deleted": deleted,
        }  # fmt: skip
        made = {**every, **columns}
        arrays = [_made(made[field.name], field.type, count) for field in schema]
        self._waiting[table].append(pa.table(arrays, schema=schema))

    def _journal(self) -> pa.Table:
        row = {
            "topic": TOPIC, "journal_partition": 0, "logical_timestamp": self.position - 1, "outcome": "accepted",
            **dict.fromkeys(("system_time", "append_time"), 1_700_000_000_000_000), "system_date": 0,
        }  # fmt: skip
        return pa.Table.from_pylist([row], schema=JOURNAL)


def _made(values: Any, kind: pa.DataType, count: int) -> Any:
    if isinstance(values, np.ndarray):
        values = pa.array(values)
    if isinstance(values, list):
        return pa.array(values, kind)
    return _column(values, kind, count)


class Pass:
    """The process that makes derived tables, asked as the stream asks it.

    Args:
        lake: its tables.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._beside = Beside()
        self.pieces: list[float] = []
        """Seconds that each piece took, with its commit."""

    def run(self, *, most_pieces: int = 1 << 30) -> float:
        """Make what is lacking; gives the seconds that it took."""
        began = time.perf_counter()
        owned = DERIVED[FUNCTION]
        for _ in range(most_pieces):
            started = time.perf_counter()
            tables = tables_of(owned, self._lake)
            uris = {name: table.uri for name, table in tables.items()}
            upto = {KEY: self._lake.journal.mark(KEY)}
            offer = self._asked(Request(FUNCTION, self._lake.path, {}, uris, upto, USUAL))
            if offer is None:
                break
            if not commit(offer, tables):
                raise RuntimeError("a piece does not fit")
            self._lake.tidy()
            self.pieces.append(time.perf_counter() - started)
            if not offer.more:
                break
        return time.perf_counter() - began

    def _asked(self, request: Request) -> Offer | None:
        self._beside.ask(request)
        while (taken := self._beside.take()) is None:
            time.sleep(0.001)
        if not isinstance(taken, Answered) or not isinstance(taken.answer, Offer | None):
            raise RuntimeError(f"the process gave {taken}")
        return taken.answer

    def peak_bytes(self) -> int:
        """The most memory that the process has had."""
        status = Path(f"/proc/{self._beside.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024

    def processor_s(self) -> float:
        """Seconds of processor time that the process has had: other work on the machine changes it less."""
        fields = Path(f"/proc/{self._beside.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the process."""
        self._beside.close()


def rows_written(lake: Lake) -> int:
    """Rows that the table `trees` holds: nothing of it is ever deleted."""
    listed = lake.tables["trees"].delta.get_add_actions(flatten=True)
    return sum(count or 0 for count in pa.table(listed)["num_records"].to_pylist())


def layers_of(lake: Lake) -> Sequence[int]:
    """How many layers each commit has, in the order of positions."""
    told = lake.tables["commit_trees"].query("layers", "true order by logical_timestamp")
    return [len(row["layers"]) for row in told]
