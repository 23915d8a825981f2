"""The model: the whole fold over raw journal records, in memory, as plainly as it can be written.

It is the oracle of every test that folds: what the tables, topics and index hold must equal what stands here. It uses
`schemas` to decode and `rules` to judge, shares nothing with `streaming`, and knows no batches, caches or marks.
A record is looked at in this order, and the first thing found is its verdict:

    no `mj-digest` header            shelved, "no-digest"
    digest differs                   shelved, "bad-digest"
    value over MAX_EVENT_BYTES       shelved, "too-large"
    no single-object header          shelved, "not-single-object"
    unknown fingerprint              stop of this partition: UnknownSchemaError, once the other partitions are folded
    body does not decode             shelved, "undecodable"
    key is not <tenant>/<aggregate>  shelved, "wrong-key"
    aggregate of another domain      shelved, "wrong-topic"
    sent before                      duplicate of the first record with that tenant, aggregate and id
    otherwise                        what the rules say: accepted, unchanged, rejected
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from metajournal.domains.catalog.documents import change_records
from metajournal.rules import Accepted, At, EntityRow, FactKey, ForeignRowError, Reads, Rejected, apply, reads
from metajournal.rules.documents import state_document
from metajournal.rules.tables import TABLE_OF, key_of
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import (
    InvalidUrnError,
    NotSingleObject,
    Undecodable,
    UnknownFingerprint,
    UnknownSchemaError,
)
from metajournal.schemas.hashing import digest
from metajournal.schemas.header import Header
from metajournal.schemas.limits import MAX_EVENT_BYTES
from metajournal.schemas.urn import Urn


class JournalRecord(NamedTuple):
    """A record of a journal topic as Kafka holds it; `digest` is its header `mj-digest`, None where it has none."""

    partition: int
    position: int
    append_time: int
    key: bytes | None
    value: bytes | None
    digest: bytes | None


class Verdict(NamedTuple):
    """What became of a record; `data` as in the outcome record."""

    outcome: str
    data: dict[str, Any] = {}  # noqa: RUF012  (never changed)

    def as_json(self, position: int) -> list[Any]:
        """Its form in an outcome record."""
        return [position, self.outcome, self.data] if self.data else [position, self.outcome]


class Published(NamedTuple):
    """A record of a change or state topic."""

    partition: int
    position: int
    seq: int
    tenant: str
    urn: str
    system_time: int
    document: dict[str, Any]


class ModelRows:
    """The newest rows of one tenant, for a rule of one aggregate."""

    def __init__(
        self,
        newest: dict[tuple[str, str], EntityRow],
        tenant: str,
        aggregate: str,
        announced: Reads = Reads(),  # noqa: B008  (a value)
        facts: dict[tuple[str, str, FactKey], Any] | None = None,
    ) -> None:
        self._newest = newest
        self._announced = announced
        self._facts = facts or {}
        self._tenant = tenant
        self._aggregate = aggregate

    def entity(self, urn: str) -> EntityRow | None:
        if Urn.parse(urn).aggregate != self._aggregate:
            raise ForeignRowError(urn)
        return self._newest.get((self._tenant, urn))

    def fact(self, key: FactKey) -> Any:
        if not any(one == key and one.TABLE == key.TABLE for one in self._announced.facts):
            raise ForeignRowError(f"{key} of {key.TABLE}")
        return self._facts.get((key.TABLE, self._tenant, key))

    def members(self, aggregate: str, kinds: Collection[str]) -> list[EntityRow]:
        if aggregate != self._aggregate or not {*kinds} <= {*self._announced.members}:
            raise ForeignRowError(f"{kinds} of {aggregate}")
        rows = [row for (tenant, _), row in self._newest.items() if tenant == self._tenant]
        return [row for row in rows if row.aggregate == aggregate and row.kind in kinds]


@dataclass
class Model:
    """Everything that follows from a journal topic; all attributes are what has been folded so far.

    Attributes:
        tables: history rows by table, in (partition, position, seq) order within each `fold`.
        verdicts: what became of each (partition, position).
        system_times: running system_time of each (partition, position), milliseconds.
        user_changes: the USER change topic.
        system_changes: the SYSTEM change topic.
        states: the state topic.
        newest: newest row by (tenant, URN), deleted ones included.
        facts: newest row of the other tables by (table, tenant, key).
    """

    topic: str = "metajournal.journal.catalog"
    tables: dict[str, list[Any]] = field(default_factory=lambda: {"entities": []})
    verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    system_times: dict[tuple[int, int], int] = field(default_factory=dict)
    user_changes: list[Published] = field(default_factory=list)
    system_changes: list[Published] = field(default_factory=list)
    states: list[Published] = field(default_factory=list)
    newest: dict[tuple[str, str], EntityRow] = field(default_factory=dict)
    facts: dict[tuple[str, str, FactKey], Any] = field(default_factory=dict)
    _clock: dict[int, int] = field(default_factory=dict)
    _sent: dict[tuple[int, str, str, bytes], list[tuple[int, bool]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, records: Iterable[JournalRecord], topic: str = "metajournal.journal.catalog") -> Model:
        """The model of a whole journal topic.

        Raises:
            UnknownSchemaError: as `fold`.
        """
        model = cls(topic)
        model.fold(records)
        return model

    @property
    def documents(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Current state document by (tenant, URN), those of deleted entities included."""
        return {(one.tenant, one.urn): one.document for one in self.states}

    def fold(self, records: Iterable[JournalRecord]) -> None:
        """Take more records, which stand above those taken before in their partitions.

        Raises:
            UnknownSchemaError: a record needs a newer version. The first such one of a partition and what stands
                above it are not folded, everything else is; the error names the one of the lowest partition.
        """
        partitions: dict[int, list[JournalRecord]] = defaultdict(list)
        for record in records:
            partitions[record.partition].append(record)
        stops = []
        for _, held in sorted(partitions.items()):
            try:
                for record in sorted(held, key=lambda one: one.position):
                    self._take(record)
            except UnknownSchemaError as stop:
                stops.append(stop)
        if stops:
            raise stops[0]

    def _take(self, record: JournalRecord) -> None:
        place = (record.partition, record.position)
        verdict = self._verdict(record)
        self.verdicts[place] = verdict
        self.system_times[place] = self._clock[record.partition] = self._time(record)

    def _time(self, record: JournalRecord) -> int:
        return max(record.append_time, self._clock.get(record.partition, record.append_time))

    def _verdict(self, record: JournalRecord) -> Verdict:
        value = record.value or b""
        if record.digest is None:
            return _shelved("no-digest")
        if record.digest != digest(value):
            return _shelved("bad-digest")
        if len(value) > MAX_EVENT_BYTES:
            return _shelved("too-large")
        try:
            decoded = codec.decode(value)
        except NotSingleObject:
            return _shelved("not-single-object")
        except UnknownFingerprint as unknown:
            raise UnknownSchemaError(self.topic, record.partition, record.position, unknown.fingerprint) from unknown
        except Undecodable:
            return _shelved("undecodable")
        header = decoded.header
        if record.key != f"{header.tenant}/{header.aggregate}".encode():
            return _shelved("wrong-key")
        if _domain(header.aggregate) not in (self.topic.rpartition(".")[2], None):
            return _shelved("wrong-topic")
        original = self._original(record, header)
        if original is not None:
            return Verdict("duplicate", {"of": original})
        return self._judged(record, header, decoded.event)

    def _original(self, record: JournalRecord, header: Header) -> int | None:
        """Position of the first record that this one repeats."""
        earlier = self._sent[record.partition, header.tenant, header.aggregate, header.event_id]
        marked = header.repeat or any(repeat for _, repeat in earlier)
        original = earlier[0][0] if earlier and marked else None
        earlier.append((record.position, header.repeat))
        return original

    def _judged(self, record: JournalRecord, header: Header, event: Any) -> Verdict:
        rows = ModelRows(self.newest, header.tenant, header.aggregate, reads(header, event), self.facts)
        outcome = apply(header, event, At(record.position, self._time(record), digest(record.value or b"")), rows)
        if isinstance(outcome, Rejected):
            return Verdict("rejected", {"reason": outcome.reason, "detail": outcome.detail})
        if not isinstance(outcome, Accepted):
            return Verdict("unchanged")
        for row in outcome.rows:
            self._write(record.partition, row)
        for fact in outcome.facts:
            table = TABLE_OF[type(fact)]
            self.tables.setdefault(table, []).append(fact)
            self.facts[table, fact.tenant, key_of(fact)] = fact
        return Verdict("accepted")

    def _write(self, partition: int, row: EntityRow) -> None:
        def published(document: dict[str, Any]) -> Published:
            place = (partition, row.logical_timestamp, row.seq)
            return Published(*place, row.tenant, str(row.urn), row.system_time, document)

        self.tables["entities"].append(row)
        for scope, document in change_records(self.newest.get((row.tenant, row.urn)), row):
            (self.user_changes if scope == "USER" else self.system_changes).append(published(document))
        self.states.append(published(state_document(row, partition)))
        self.newest[row.tenant, row.urn] = row


def _domain(aggregate: str) -> str | None:
    """The domain of an aggregate; None where it is no URN, which is the rules' to refuse."""
    try:
        return Urn.parse(aggregate).domain
    except InvalidUrnError:
        return None


def _shelved(reason: str) -> Verdict:
    return Verdict("shelved", {"reason": reason})
