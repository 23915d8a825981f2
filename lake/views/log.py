"""Reading a Delta table's log: the version that a table is at, its files with their statistics, marks and clocks.

Who reads the lake reads no more of a table than this, and of a table that has moved on only the commits since, so what
a look costs follows the change. delta-rs writes; it reads here, too, at a price that every process which answers paid:
some thirty threads each time a table is opened, and 50 MiB the first time (docs/decisions/0032-our-own-reader-of-logs).
A log that needs more than the first version of the protocol's readers is refused, as is one with a gap.
Source: Delta transaction log protocol, "Delta Log Entries", "Checkpoints", "Action Reconciliation".
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ...rules.digest import digests_from
from ..storage.faults import as_read_error
from ..storage.log_damage import (
    CHECKPOINT,
    COMMIT,
    HINT,
    LOG,
    NoTableError,
    damage_of_log,
    files_below,
    last_checkpoint,
)
from ..storage.store import is_store
from .files import FileColumns
from .table import RULES, MarkedView

_READERS_OF_STORE: Final = 8
_GLANCES_S: Final = 60.0
"""Seconds for which the next commit alone is looked for: a tenth of what the log keeps commits, so it is still there.
Afterwards the log is listed, which also shows a commit that is missing."""
_ATTEMPTS: Final = 3
_READER_VERSION: Final = 1
_OF_CHECKPOINT: Final = (
    "add.path", "add.size", "add.partitionValues", "add.stats", "txn.appId", "txn.version",
    "metaData.schemaString", "metaData.partitionColumns", "metaData.configuration", "protocol.minReaderVersion",
)  # fmt: skip


class TableLog:
    """Follows the log of one table. Threads take turns: whoever shares it looks one at a time.

    Args:
        name: what the lake calls the table.
        uri: its folder or URL.
    """

    def __init__(self, name: str, uri: str, storage_options: Mapping[str, str]) -> None:
        self.name = name
        self.uri = uri
        self._options = dict(storage_options)
        self._files = files_below(uri, storage_options)
        self._readers = _READERS_OF_STORE if is_store(uri) else 1
        self._view: MarkedView | None = None
        self._listed_s = 0.0

    def look(self) -> MarkedView:
        """The table as it stands now; the same view as before where nobody has committed since.

        Raises:
            NoTableError: there is no table.
            DamagedTableError: a file of its log is gone, cut short or not readable.
            UnavailableError: the store does not answer.
        """
        view, self._view = self._view, None
        with self._reading():
            if view is None or time.monotonic() - self._listed_s > _GLANCES_S:
                self._view = self._listed(view)
            else:
                self._view = self._followed(view)
        return self._view

    def expire(self) -> None:
        """Have the next look list the log: what a commit behind the present one says is not enough."""
        self._listed_s = -_GLANCES_S

    def at_least(self, version: int) -> MarkedView:
        """The table as it stood at a version, or at a later one where the log has forgotten it. Raises: as `look`, and:

        DamagedTableError: the log ends before that version.
        """
        with self._reading():
            try:
                return self._from(self._checkpoint(self._names(), version), version)
            except FileNotFoundError:
                view = self._listed(None)
                if view.version < version:
                    raise
                return view

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read files of the log."""
        try:
            yield
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            if away := as_read_error(error, self.uri):
                raise away from error
            damage = damage_of_log(self.uri, self._options, f"{type(error).__name__}: {error}")
            if damage is None:
                raise
            raise damage from error

    def _followed(self, view: MarkedView) -> MarkedView:
        """A view and every commit that was made since."""
        replay = _Replay(view)
        while (actions := self._commit_if_there(view.version + 1 + replay.count)) is not None:
            replay.take(actions)
        return replay.view() if replay.count else view

    def _listed(self, view: MarkedView | None) -> MarkedView:
        """The newest version that the log's files show."""
        for attempt in range(1, _ATTEMPTS + 1):
            now = time.monotonic()
            names = self._names()
            newest = max(map(int, _versions(COMMIT, names)), default=-1)
            checkpoint = self._checkpoint(names, newest)
            newest = max(newest, checkpoint)
            if newest < 0:
                raise NoTableError(self.uri)
            try:
                hinted = last_checkpoint(self._files) if HINT in names else None
                if hinted is not None and hinted > checkpoint:
                    raise FileNotFoundError(f"{self.uri}/{LOG} lacks its last checkpoint")
                if view is None or not checkpoint <= view.version <= newest:
                    view = self._from(checkpoint, newest)
                elif view.version < newest:
                    view = self._after(view, newest)
            except FileNotFoundError:
                if attempt == _ATTEMPTS:
                    raise  # no cleanup took it: a file of the log is missing
                view = None
                continue
            self._listed_s = now
            return view
        raise AssertionError("unreachable")

    def _names(self) -> list[str]:
        infos = self._files.get_file_info(pafs.FileSelector(LOG, allow_not_found=True))
        return [info.base_name for info in infos]

    def _checkpoint(self, names: Iterable[str], version: int) -> int:
        """The newest checkpoint at or below a version; -1 where there is none."""
        return max((one for one in map(int, _versions(CHECKPOINT, names)) if one <= version), default=-1)

    def _from(self, checkpoint: int, version: int) -> MarkedView:
        """The table at a version, from a checkpoint on; -1: from its beginning."""
        replay = _Replay(MarkedView(self.name, self.uri, -1, _NO_FILES, pa.schema([]), (), self._options))
        if checkpoint >= 0:
            replay.take_checkpoint(self._checkpointed(checkpoint), checkpoint)
            own = self._commit_if_there(checkpoint)  # its own commit where it is still there: a checkpoint has no rules
            replay.take_rules(own or [])
        return self._replayed(replay, range(checkpoint + 1, version + 1))

    def _after(self, view: MarkedView, version: int) -> MarkedView:
        return self._replayed(_Replay(view), range(view.version + 1, version + 1))

    def _replayed(self, replay: _Replay, versions: range) -> MarkedView:
        for actions in self._commits(versions):
            replay.take(actions)
        return replay.view()

    def _checkpointed(self, version: int) -> pa.Table:
        with (
            self._files.open_input_file(f"{LOG}/{version:020}.checkpoint.parquet") as source,
            pq.ParquetFile(source, pre_buffer=False) as file,
        ):
            return file.read(columns=list(_OF_CHECKPOINT), use_threads=False)

    def _commits(self, versions: range) -> Iterable[list[Any]]:
        if self._readers == 1 or len(versions) < 2:
            return map(self._commit, versions)
        with ThreadPoolExecutor(self._readers) as pool:
            return list(pool.map(self._commit, versions))

    def _commit_if_there(self, version: int) -> list[Any] | None:
        try:
            return self._commit(version)
        except FileNotFoundError:
            return None

    def _commit(self, version: int) -> list[Any]:
        """The actions of a commit.

        Raises:
            FileNotFoundError: it is not there.
            ValueError: it is none; not an empty one either, as a power failure may leave it.
        """
        with self._files.open_input_stream(f"{LOG}/{version:020}.json") as source:
            lines = source.read().splitlines()
        actions = [orjson.loads(line) for line in lines if line.strip()]
        if not actions or not all(isinstance(action, dict) for action in actions):
            raise ValueError(f"commit {version} is none")
        return actions


_NO_FILES: Final = pa.table({})


class _Replay:
    """Actions laid over a view, in the order of their versions."""

    def __init__(self, view: MarkedView) -> None:
        self._base = view
        self._added: dict[str, Mapping[str, Any]] = {}
        self._gone: set[str] = set()
        self._transactions = dict(view.transactions)
        self._rules: str | None = None
        self._metadata: Mapping[str, Any] | None = None
        self._version = view.version
        self.count = 0

    def take(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """The next commit."""
        for action in actions:
            for kind, content in action.items():
                if kind == "add":
                    self._added[content["path"]] = content
                    self._gone.add(content["path"])  # of the base: what is added again stands in its place
                elif kind == "remove":
                    self._added.pop(content["path"], None)
                    self._gone.add(content["path"])
                elif kind == "txn":
                    self._transactions[content["appId"]] = content["version"]
                elif kind == "metaData":
                    self._metadata = content
                elif kind == "protocol":
                    _check_reader(content["minReaderVersion"])
                elif kind == "commitInfo":
                    self._rules = content.get(RULES, self._rules)
        self._version += 1
        self.count += 1

    def take_rules(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """The rules of a commit that a checkpoint holds."""
        for action in actions:
            self._rules = action.get("commitInfo", {}).get(RULES, self._rules)

    def take_checkpoint(self, rows: pa.Table, version: int) -> None:
        """All that stood at a version."""
        for kind in ("protocol", "metaData", "txn", "add"):
            for content in rows[kind].drop_null().to_pylist(maps_as_pydicts="strict"):
                if kind == "add":
                    self._added[content["path"]] = content
                elif kind == "txn":
                    self._transactions[content["appId"]] = content["version"]
                elif kind == "metaData":
                    self._metadata = content
                else:
                    _check_reader(content["minReaderVersion"])
        self._version = version

    def view(self) -> MarkedView:
        """The view that they make."""
        base = self._base
        columns = base.columns if self._metadata is None else FileColumns.of(self._metadata)
        if columns is None:
            raise ValueError("no commit says what the table's columns are")
        files = base.files
        if self._gone and files.num_rows:
            files = files.filter(pc.invert(pc.is_in(files["path"], pa.array(list(self._gone), pa.string()))))
        if self._added or not files.num_columns:
            added = columns.table(list(self._added.values()))
            files = pa.concat_tables([files, added], promote_options="default") if files.num_rows else added
        return MarkedView(
            base.name, base.uri, self._version, files, columns.schema, columns.partition_columns, base.storage_options,
            transactions=self._transactions, columns=columns,
            rules=base.rules if self._rules is None else digests_from(str(self._rules)),
        )  # fmt: skip


def _check_reader(version: int) -> None:
    if version > _READER_VERSION:
        raise ValueError(f"the table wants readers of version {version} of the protocol; {_READER_VERSION} is known")


def _versions(pattern: re.Pattern[str], names: Iterable[str]) -> list[str]:
    return [match[1] for match in map(pattern.fullmatch, names) if match]
