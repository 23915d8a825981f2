"""Rows of the lineage tables: what stands of the facts about runs, accesses and writers from outside.

Every row holds the whole of what stands for its key after one event, so the newest row of a key is the standing fact.
Key columns are never null: an access without a component has the empty one. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple


class RunRow(NamedTuple):
    """What stands of one run.

    Attributes:
        run: its URN.
        program: URN of its program.
        start: least RunStarted, milliseconds UTC; None while there is none.
        first_access: least time of its accesses, milliseconds UTC; None while there is none.
        stop: greatest RunStopped, milliseconds UTC; None while there is none.
        status: how it ended; None with `stop`.
    """

    tenant: str
    run: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    program: str
    start: int | None
    first_access: int | None
    stop: int | None
    status: str | None

    @property
    def started(self) -> int | None:
        """When the run began: its least start, else its first access."""
        return self.first_access if self.start is None else self.start


class AccessRow(NamedTuple):
    """The standing fact about one run, data, kind of access and component.

    Attributes:
        component: the empty text where there is none.
        program: URN of the run's program.
        happened_at: milliseconds UTC.
        metadata: {"user": {"properties", "tags"}, "system": …} as recorded with the access, or None.
    """

    tenant: str
    run: str
    data: str
    access: str
    component: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    program: str
    happened_at: int
    metadata: Mapping[str, Any] | None


class RelationRow(NamedTuple):
    """A program has touched a piece of data at least once, in any run: the way from data to programs."""

    tenant: str
    data: str
    program: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool


class ExternalWriteRow(NamedTuple):
    """The standing fact about one stream, outside writer and day.

    Attributes:
        day: UTC day of `happened_at`, as `2026-01-31`.
        happened_at: milliseconds UTC.
    """

    tenant: str
    stream: str
    source: str
    day: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    happened_at: int


class RunKey(NamedTuple("RunKey", [("run", str)])):
    """The key of what stands of a run."""

    __slots__ = ()
    TABLE: ClassVar[str] = "runs"


class AccessKey(NamedTuple("AccessKey", [("run", str), ("data", str), ("access", str), ("component", str)])):
    """The key of an access; of one without a component the empty text."""

    __slots__ = ()
    TABLE: ClassVar[str] = "accesses"


class RelationKey(NamedTuple("RelationKey", [("data", str), ("program", str)])):
    """The key of a relation."""

    __slots__ = ()
    TABLE: ClassVar[str] = "relations"


class ExternalWriteKey(NamedTuple("ExternalWriteKey", [("stream", str), ("source", str), ("day", str)])):
    """The key of a source's write to a stream on a day."""

    __slots__ = ()
    TABLE: ClassVar[str] = "external_writes"


ROWS: Final[Mapping[type[Any], type[Any]]] = {
    RunRow: RunKey,
    AccessRow: AccessKey,
    RelationRow: RelationKey,
    ExternalWriteRow: ExternalWriteKey,
}
"""Each class of rows, and that of their keys."""
