"""What a table's log says beside its files: the versions of txn actions (marks and clocks), and the rules' digest.

delta-rs tells one transaction at a time and reads the log anew for each. Here all are read at once, and of a table that
has moved on only the commits since: the cost follows the change.
Source: Delta transaction log protocol, "Transaction Identifiers", "Checkpoints".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ...rules.digest import digests_from
from ..storage.damage import CHECKPOINT, LOG, files_below, last_checkpoint
from ..storage.store import is_store
from .table import RULES

_TXN: Final = b'{"txn":'
_INFO: Final = b'{"commitInfo":'
_READERS_OF_STORE: Final = 8


@dataclass(frozen=True)
class LogState:
    """What the log of a table says up to a version.

    Attributes:
        transactions: version by app id.
        rules: digests of the rules by domain in the newest commit that names some.
    """

    version: int
    transactions: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)


class LogReader:
    """Reads the log of one table.

    Args:
        uri: its folder or URL.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        self._files = files_below(uri, storage_options)
        self._readers = _READERS_OF_STORE if is_store(uri) else 1

    def state(self, version: int, known: LogState | None = None) -> LogState:
        """What it says up to a version.

        Args:
            version: one that a handle has read, so that it is there and whole.
            known: what it said up to an earlier version.
        Raises:
            OSError, ValueError: a file of it cannot be read.
        """
        if known is not None and known.version <= version:
            try:
                return self._after(known, range(known.version + 1, version + 1), version)
            except FileNotFoundError:
                pass  # these commits stand in a checkpoint by now, and are gone
        hinted = last_checkpoint(self._files)
        if hinted is not None and hinted <= version:
            try:
                return self._from(hinted, version)
            except FileNotFoundError:
                pass  # the hint is older than the log: a newer checkpoint is there
        return self._from(self._checkpoint(version), version)

    def _from(self, checkpoint: int, version: int) -> LogState:
        """What it says up to a version, from a checkpoint on; -1: from its beginning."""
        if checkpoint < 0:
            return self._after(LogState(-1), range(version + 1), version)
        known = LogState(checkpoint, self._checkpointed(checkpoint))
        own = self._files.get_file_info(f"{LOG}/{checkpoint:020}.json").type == pafs.FileType.File
        # Its own commit is read too where it is still there: a checkpoint keeps no rules.
        return self._after(known, range(checkpoint if own else checkpoint + 1, version + 1), version)

    def _checkpoint(self, version: int) -> int:
        """The newest checkpoint at or below a version; -1 where there is none."""
        names = (info.base_name for info in self._files.get_file_info(pafs.FileSelector(LOG)))
        versions = (int(match[1]) for match in map(CHECKPOINT.fullmatch, names) if match)
        return max((checkpoint for checkpoint in versions if checkpoint <= version), default=-1)

    def _checkpointed(self, version: int) -> dict[str, int]:
        with (
            self._files.open_input_file(f"{LOG}/{version:020}.checkpoint.parquet") as source,
            pq.ParquetFile(source, pre_buffer=False) as file,
        ):
            rows = file.read(columns=["txn.appId", "txn.version"], use_threads=False)["txn"].drop_null()
        return {transaction["appId"]: transaction["version"] for transaction in rows.to_pylist()}

    def _after(self, known: LogState, commits: range, version: int) -> LogState:
        transactions, rules = dict(known.transactions), None
        for lines in self._commits(commits):
            for line in lines:
                if line.startswith(_TXN):
                    action = json.loads(line)["txn"]
                    transactions[action["appId"]] = action["version"]
                elif line.startswith(_INFO):
                    rules = json.loads(line)["commitInfo"].get(RULES, rules)
        return LogState(version, transactions, known.rules if rules is None else digests_from(str(rules)))

    def _commits(self, versions: range) -> Iterable[list[bytes]]:
        if self._readers == 1 or len(versions) < 2:
            return map(self._commit, versions)
        with ThreadPoolExecutor(self._readers) as pool:
            return list(pool.map(self._commit, versions))

    def _commit(self, version: int) -> list[bytes]:
        with self._files.open_input_file(f"{LOG}/{version:020}.json") as source:
            lines: list[bytes] = source.read().splitlines()
            return lines
