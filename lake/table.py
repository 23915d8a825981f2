"""One Delta table: opening, idempotent append, marks, compaction and vacuum.

A *mark* is the next position of a journal partition that a table does not hold yet. Marks stand in the table's own log
as txn actions (app id `<topic>/<partition>`), in the same commit as the rows that they speak of, so a table always
tells exactly what it holds. Every commit writes max(held, reached), since Delta accepts a lower version too.
Which rows belong to a batch is the stream's matter, and what they mean is the rules'.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..rules.digest import digests_from, digests_text
from ..schemas.errors import LakeWriteError, StreamError
from .columns import PARTITION_COLUMNS
from .declared import SPECS
from .storage.compaction import Compaction, StepHook, passed
from .storage.damage import reading
from .storage.faults import is_delta_error, writing
from .storage.files import DataFile, TableFiles, files_of, in_order
from .storage.log_damage import LOG, empty_commit, has_log, opening
from .storage.runs import LiveFile
from .storage.store import is_store
from .views.table import CLOCK, RULES
from .views.table import PartitionKey as PartitionKey

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake.transaction import AddAction, RemoveAction

Marks = dict[PartitionKey, int]

_CONFIGURATION = {
    # A handle that opens the table reads every commit since the last checkpoint: 0.2 to 0.4 ms each.
    "delta.checkpointInterval": "20",
    "delta.enableDeletionVectors": "false",
    # Every commit lists the log: with 3,000 files in it, an append took three times as long.
    "delta.logRetentionDuration": "interval 10 minutes",
}
_COMPACTION = "metajournal.compaction"
_COMMIT = "metajournal.commit"
"""In a commit's metadata: the handle that made it and the number of its attempt, which so knows it again."""
_LISTED = "metajournal.tables"
"""Property of the journal table: the history tables that were made for the lake, so that one of them can be gone."""
_GLANCES_S = 60.0  # a tenth of what the log keeps its commits: the next one cannot have come and gone meanwhile


@dataclass(frozen=True)
class Reached:
    """How far a commit brings a table.

    Attributes:
        marks: next position per (topic, partition).
        clocks: running system_time per (topic, partition), milliseconds UTC; only the journal table keeps them.
        rules: digest of the rules of each domain that had a share in the rows.
    """

    marks: Mapping[PartitionKey, int]
    clocks: Mapping[PartitionKey, int]
    rules: Mapping[str, str]


class Table:
    """One Delta table, held open; `refresh` before reading what others may have written."""

    def __init__(self, name: str, uri: str, storage_options: Mapping[str, str]) -> None:
        self.name = name
        self.schema = SPECS[name].schema
        self.uri = uri
        self.storage_options = dict(storage_options)
        self._table: DeltaTable | None = None
        self._looked_s = 0.0
        self._held: dict[str, int] = {}
        self._rules: dict[str, str] = {}
        self._compaction = Compaction(self)
        self._identity = uuid.uuid4().hex
        self._attempts = 0

    @property
    def delta(self) -> DeltaTable:
        """The delta-rs handle.

        Raises:
            NoTableError: nothing was ever written.
            DamagedTableError: a file of its log is gone, cut short or not readable.
        """
        if self._table is None:
            from deltalake import DeltaTable  # 70 MiB, and threads: only for who writes, see `views.log`

            with opening(self.uri, self.storage_options):
                opened = DeltaTable(self.uri, storage_options=self.storage_options)
            if damage := empty_commit(self.uri):
                raise damage
            self._table = opened
        return self._table

    @property
    def readable(self) -> DeltaTable:
        """What look-ups read: this handle at its version."""
        return self.delta

    def exists(self) -> bool:
        """Whether it is there, be it damaged."""
        return self._table is not None or has_log(self.uri, self.storage_options)

    def create(self, retention_h: int = 1) -> None:
        """Make the table when it is missing; a table made by somebody else in between is as good.

        Args:
            retention_h: hours that the log remembers removed files, which is how the vacuum knows their age. A table
                made with other properties gets these.
        """
        wanted = _CONFIGURATION | {
            "delta.deletedFileRetentionDuration": f"interval {retention_h} hours",
            "delta.dataSkippingStatsColumns": ",".join(SPECS[self.name].statistics),
        }
        if self.exists():
            configuration = self.delta.metadata().configuration
            changed = {name: value for name, value in wanted.items() if configuration.get(name) != value}
            if changed:
                with self._known_again():
                    self.delta.alter.set_table_properties(changed, commit_properties=self._properties())
            return
        if not is_store(self.uri):
            Path(self.uri).mkdir(parents=True, exist_ok=True)
        from deltalake import DeltaTable

        try:
            DeltaTable.create(
                self.uri,
                schema=self.schema,
                mode="ignore",
                partition_by=PARTITION_COLUMNS.get(self.name),
                configuration=wanted,
                storage_options=self.storage_options,
            )
        except Exception as error:
            if not (is_delta_error(error) and _is_conflict(error) and self.exists()):
                raise

    def list_tables(self, names: Collection[str]) -> None:
        """Have the journal table list the tables that were made beside it."""
        if self.listed() != frozenset(names):
            with self._known_again():
                self.delta.alter.set_table_properties(
                    {_LISTED: ",".join(sorted(names))}, raise_if_not_exists=False, commit_properties=self._properties()
                )

    def listed(self) -> frozenset[str] | None:
        """Names of the tables that were made beside the journal table; None where an earlier version made them."""
        names = self.delta.metadata().configuration.get(_LISTED)
        return None if names is None else frozenset(names.split(","))

    def is_newest(self) -> bool:
        """Whether nobody has committed since the last look, as one glance at a local log tells; if not, `refresh`."""
        if self._table is None or is_store(self.uri) or time.monotonic() - self._looked_s > _GLANCES_S:
            return False
        log = Path(self.uri, LOG)
        return log.is_dir() and not (log / f"{self._table.version() + 1:020}.json").exists()

    def refresh(self) -> None:
        """See what others have written."""
        self._looked_s = time.monotonic()
        if self._table is not None:
            try:
                self._table.update_incremental()
            except Exception as error:
                if not is_delta_error(error):
                    raise
                self._table = None  # opened anew below: that says what is wrong, unless only the handle was too old
        self._held.clear()
        _ = self.delta  # opened now where it was not, so that a table that is not there is said at once

    def _version_of(self, app: str) -> int:
        """What the table says of an application, 0 for nothing: looked for in its log once."""
        if app not in self._held:
            self._held[app] = self.delta.transaction_version(app) or 0
        return self._held[app]

    def mark(self, key: PartitionKey) -> int:
        """The next position of a journal partition that this table does not hold; 0 when it never heard of it."""
        return self._version_of(f"{key[0]}/{key[1]}")

    def clock(self, key: PartitionKey) -> int:
        """The running system_time at the mark, milliseconds UTC; 0 before the first record."""
        return self._version_of(f"{CLOCK}{key[0]}/{key[1]}")

    def rules(self) -> dict[str, str]:
        """By domain the digest of the rules that made its newest share of the rows; none before the first commit."""
        for commit in self.delta.history(20):
            if RULES in commit:
                return digests_from(str(commit[RULES]))
        return {}

    def append(self, rows: pa.Table, reached: Reached) -> None:
        """Add rows and move the marks, in one commit.

        Args:
            rows: rows of this table's schema, only those at or above its marks.
            reached: marks (and clocks) after this commit; lower ones than held are kept at what is held.
        Raises:
            StreamError: another writer committed the same marks meanwhile (two streams on one lake).
            LakeWriteError: the disk is full or the store refused; whether the commit is there, a fresh handle tells.
        """
        self._commit_with(reached, lambda properties: self._write(rows, properties))

    def add_files(self, files: Sequence[DataFile], reached: Reached) -> None:
        """Make written files part of the table and move the marks, in one commit; as `append` in all else."""
        self._commit_with(reached, lambda properties: self._add([file.add_action() for file in files], properties))

    def _commit_with(self, reached: Reached, commit: Callable[[CommitProperties], None]) -> None:
        from deltalake import CommitProperties, Transaction

        now = int(time.time() * 1000)
        wanted = {f"{t}/{p}": v for (t, p), v in reached.marks.items()}
        wanted |= {f"{CLOCK}{t}/{p}": v for (t, p), v in reached.clocks.items()}
        versions = {app: max(version, self._version_of(app)) for app, version in wanted.items()}
        rules = {**(self._rules or self.rules()), **reached.rules}
        properties = CommitProperties(
            custom_metadata=self._metadata(rules),
            app_transactions=[Transaction(app, version, now) for app, version in versions.items()],
            max_commit_retries=0,
        )
        try:
            with self._known_again(), writing(self.uri):
                commit(properties)
        except Exception as error:
            if isinstance(error, LakeWriteError) or not _is_conflict(error):
                raise
            raise StreamError(
                f"Another process wrote table {self.name!r} at the same time.",
                code="second-writer",
                hint="Run one stream per lake: `metajournal status` shows the running one.",
            ) from error
        self._held.update(versions)
        self._rules = rules

    @contextmanager
    def _known_again(self) -> Iterator[None]:
        """Commit; where a store loses the answer to a commit that it took, it is asked again, and finds it there.

        So where a commit is refused since its version is there, and what is there is this very attempt, it was made.
        After any other failure the table is opened anew: the commit may be there all the same.
        """
        before = self.delta.version()
        try:
            yield
        except Exception as error:
            try:
                if not isinstance(error, LakeWriteError) and _is_conflict(error) and self._went_on(before):
                    return
            except Exception:
                self._forget()
                raise
            self._forget()
            raise

    def _forget(self) -> None:
        """Open the table anew when it is needed next: this handle may not know what was committed."""
        self._table = None
        self._held.clear()
        self._rules = {}

    def _went_on(self, before: int) -> bool:
        """Whether the newest commit is the latest attempt, and those before it, after a version, are this handle's too;
        then it goes on from the newest.
        """
        if not is_store(self.uri):
            return False
        from deltalake import DeltaTable

        with writing(self.uri):
            newest = DeltaTable(self.uri, storage_options=self.storage_options)
            commits = newest.history(newest.version() - before) if newest.version() > before else []
        made = [str(commit.get(_COMMIT)) for commit in commits]
        if not made or made[0] != self._attempt or any(not one.startswith(self._identity) for one in made):
            return False
        self._table = newest
        self._held.clear()
        return True

    def _write(self, rows: pa.Table, properties: CommitProperties) -> None:
        if rows.num_rows and SPECS[self.name].indexed:  # delta-rs writes no index
            files = files_of([rows], TableFiles(self.name, self.uri, self.storage_options))
            self._add([file.add_action() for file in files], properties)
        elif rows.num_rows:
            from deltalake import WriterProperties, write_deltalake

            spec = SPECS[self.name]
            rows = in_order(self.name, rows) if spec.sorts_files else rows
            writer = WriterProperties(compression="ZSTD", compression_level=1, max_row_group_size=spec.group_rows)
            write_deltalake(self.delta, rows, mode="append", commit_properties=properties, writer_properties=writer)
        else:
            self._add([], properties)

    def _add(self, actions: list[AddAction | RemoveAction], properties: CommitProperties) -> None:
        self.delta.create_write_transaction(
            actions,
            mode="append",
            schema=self.delta.schema(),
            partition_by=PARTITION_COLUMNS.get(self.name),
            commit_properties=properties,
        )
        self.delta.update_incremental()

    def tidy(self, hook: StepHook = passed) -> bool:
        """Do one short piece of compaction (about 0.1 s); tells whether there was anything to do.

        Only the writer may call it, between two appends: two compactors would double rows.

        Args:
            hook: called at "compact-before-files", "compact-after-files" and "compact-after-commit" of each job.
        """
        with writing(self.uri):
            return self._compaction.step(hook)[0]

    def compact(self, hook: StepHook = passed) -> int:
        """Compact until nothing is left to do, however long it takes; gives the number of files that went away."""
        total, more = 0, True
        while more:
            more, gone = self._compaction.step(hook)
            total += gone
        return total

    def replace(self, removed: Sequence[LiveFile], added: Sequence[DataFile]) -> bool:
        """Put files with the same rows in the place of live ones, in one commit; marks stay as they are.

        Returns:
            False where somebody else committed meanwhile; then nothing has changed.
        """
        from deltalake import Transaction
        from deltalake.transaction import RemoveAction

        now = int(time.time() * 1000)
        number = (self.delta.transaction_version(_COMPACTION) or 0) + 1
        properties = self._properties(Transaction(_COMPACTION, number, now))
        gone = [RemoveAction(file.path, False, now, file.size_bytes, dict(file.partition)) for file in removed]
        try:
            with self._known_again():
                self._add([*gone, *(file.add_action(data_change=False) for file in added)], properties)
        except Exception as error:
            if not _is_conflict(error):
                raise
            return False
        return True

    def vacuum(self, retention_h: int) -> int:
        """Delete the files that no version of the last hours holds, orphans of unfinished writes too.

        Args:
            retention_h: hours that a removed or an uncommitted file is kept; longer than any batch, any compaction
                and any reader that stays on one version.
        Returns:
            Number of files deleted.
        """
        gone: list[str] = []
        with self._known_again(), writing(self.uri):
            gone = self.delta.vacuum(
                retention_h,
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
                commit_properties=self._properties(),
            )
        return len(gone)

    def _properties(self, *transactions: Transaction) -> CommitProperties:
        """Of a commit that adds no rows: it repeats the rules' digests, since the log forgets old commits."""
        from deltalake import CommitProperties

        self._rules = self._rules or self.rules()
        return CommitProperties(
            custom_metadata=self._metadata(self._rules),
            app_transactions=list(transactions),
            max_commit_retries=0,
        )

    @property
    def _attempt(self) -> str:
        """What the latest commit that was tried is called."""
        return f"{self._identity}/{self._attempts}"

    def _metadata(self, rules: Mapping[str, str]) -> dict[str, str]:
        self._attempts += 1
        return {_COMMIT: self._attempt, **({RULES: digests_text(rules)} if rules else {})}

    def query(self, select: str, where: str, among: Mapping[str, Sequence[Any]] | None = None) -> list[dict[str, Any]]:
        """Rows of this table at the held version, as dicts; files and row groups are pruned by their statistics.

        Args:
            select: columns, as SQL.
            where: condition, as SQL; callers put only values of restricted alphabets or `quoted` ones into it.
            among: values by column that the rows have, for who cannot tell by the condition which files to read.
        """
        rows = self.sql(f"select {select} from {self.name} where {where}", among)
        row_dicts: list[dict[str, Any]] = rows.to_pylist(maps_as_pydicts="strict")
        return row_dicts

    def sql(self, statement: str, among: Mapping[str, Sequence[Any]] | None = None) -> pa.Table:
        """Run one SQL statement over this table (under its own name) at the held version.

        Args:
            among: as of `query`.
        Raises:
            DamagedTableError, StaleReadError: a file of it cannot be read.
        """
        from deltalake import QueryBuilder

        table = self.delta
        with reading(table):
            return pa.table(QueryBuilder().register(self.name, table).execute(statement).read_all())


def _is_conflict(error: Exception) -> bool:
    """Whether a commit failed since another handle committed meanwhile."""
    return "ransaction" in f"{type(error).__name__} {error}"


def quoted(text: str) -> str:
    """An SQL string literal that holds exactly this text."""
    return "'" + text.replace("'", "''") + "'"


def from_json(text: str | None) -> Any:
    """The value of a JSON column."""
    return None if text is None else json.loads(text)
