"""What the stream will say of some aggregates' events: its own fold over a pinned lake and the records behind it.

Takes the records of one journal partition in order, from the pin's mark on. Of each it keeps the append time, for the
running clock, and whether its schema is known, since an unknown one stops the stream; it decodes only what stands
under a followed key. No Kafka here: records come as values, and whoever waits for a verdict waits elsewhere.

Invariant: below `next`, the verdict of each event under a followed key is the one that the stream gives under the same
rules. Verdicts and rows are those of records at or above the mark; below it the lake has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from ..fold.folded import FactChange, Folded, Prior, RowKey, Verdict
from ..fold.prior import PriorRows
from ..fold.readings import Readings
from ..fold.records import Record, Shelved, UnknownSchema, read
from ..fold.repeats import Repeats
from ..fold.steps import RowFolder, Share, fold_shares
from ..lake.columns import JOURNAL_TABLE
from ..lake.declared import SPECS
from ..lake.views.viewed import ViewedTable
from ..producers.headers import HeaderNameError, headers_of
from ..rules.entity import EntityRow
from ..schemas.encoding.codec import PREFIX_BYTES, single_object_prefix
from ..schemas.encoding.known import contracts_by_fingerprint
from ..schemas.errors import UnavailableError
from ..schemas.hashing import record_key
from ..schemas.positions import position
from .facts import KeptFacts
from .pins import Pin

_JUDGED_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of records that are judged at once: an event of a megabyte may make a thousand rows."""


class Message(Protocol):
    """One record, as Kafka's client gives it; its value is bytes whatever its stubs say."""

    def offset(self) -> int | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Any: ...


class _Pinned:
    """The tables of the newest pin, for whoever looks prior rows up."""

    def __init__(self, pin: Pin) -> None:
        self.pin = pin

    @property
    def tables(self) -> Mapping[str, ViewedTable]:
        return self.pin.tables

    @property
    def journal(self) -> ViewedTable:
        return self.pin.tables[JOURNAL_TABLE]


class _PriorOfPin(PriorRows):
    """What stood before the mark; of marked events not all ids are read, but those that are asked for looked up."""

    def __init__(self, pinned: _Pinned) -> None:
        super().__init__(pinned, cache_rows=None, below=pinned.pin.mark)
        self._pinned = pinned
        self._key = pinned.pin.place.topic, pinned.pin.place.partition
        self.begin_with(self._key, Repeats())

    def fetch(self, batch: Sequence[Readings]) -> list[Prior]:
        events = [item for readings in batch for _, item in readings.items if not isinstance(item, Shelved)]
        identities = [(event.header.tenant, event.header.aggregate, event.header.event_id) for event in events]
        self.remember(self._key, [event_id for _, _, event_id in self._pinned.pin.marked(identities)])
        return super().fetch(batch)


class Foretold:
    """Verdicts and rows of the followed keys behind a pin.

    Args:
        pin: where it begins.
        keys: Kafka keys to follow; None: every one.
        take_in: is given what was judged, each time.

    Attributes:
        next: everything below is read.
        verdicts: by position.
        rows: newest rows of `entities` made at or above the mark.
        stopped_by: what stands at `next`, where that is an unknown schema.
    """

    def __init__(
        self, pin: Pin, keys: Iterable[bytes] | None, take_in: Callable[[Folded], None] = lambda folded: None
    ) -> None:
        self._pinned = _Pinned(pin)
        self._folder = RowFolder(_PriorOfPin(self._pinned))
        self._clock = pin.clock
        self._seen: dict[bytes | None, int] = {}
        self._known = frozenset(map(single_object_prefix, contracts_by_fingerprint().values()))
        self.keys = set(keys or ())
        self._every = keys is None
        self._take_in = take_in
        self.next = pin.mark
        self.verdicts: dict[int, Verdict] = {}
        self.rows: dict[RowKey, EntityRow] = {}
        self.stopped_by: UnknownSchema | None = None
        self._facts: dict[bytes, KeptFacts] = {}

    @property
    def pin(self) -> Pin:
        return self._pinned.pin

    def renew(self, pin: Pin) -> None:
        """Go on with a newer pin of the same mark."""
        self._pinned.pin = pin

    def goes_on(self) -> bool:
        """Whether no unknown schema stands in the way."""
        return self.stopped_by is None

    def has_passed(self, key: bytes) -> bool:
        """Whether records of a key were read without being judged, so that to follow it means to begin again."""
        return key not in self.keys and key in self._seen

    def take(self, messages: Iterable[Message]) -> bool:
        """Read records in offset order, up to an unknown schema; tells whether any stands under a followed key.

        Raises:
            UnavailableError: the stream can read a record, and this cannot; what comes before it is judged.
        """
        own: list[Record] = []
        place, first = self.pin.place, position(self.pin.epoch, 0)
        clock, seen, keys, known, every = self._clock, self._seen, self.keys, self._known, self._every
        start = self.next
        unread: HeaderNameError | None = None
        try:
            for message in messages:
                value = first + (message.offset() or 0)
                time_ms, key, payload = message.timestamp()[1], message.key(), message.value() or b""
                if payload[:PREFIX_BYTES] not in known:
                    reading = read(_record(message, value, time_ms), place)
                    if isinstance(reading, UnknownSchema):
                        self.next, self.stopped_by = value, reading
                        break
                if time_ms > clock:
                    clock = time_ms
                if every or key in keys:
                    own.append(_record(message, value, clock))
                else:
                    seen[key] = value
                self.next = value + 1
        except HeaderNameError as error:
            unread = error
        self._clock = clock
        for records in _bits(own):
            end = self.next if records[-1] is own[-1] else records[-1].position + 1
            self._judge(Share(place, records, self.pin.epoch, start, end, self.pin.clock))
            start = end
        if unread is not None:
            raise self._beyond(self.next) from unread
        return bool(own)

    def _beyond(self, value: int) -> UnavailableError:
        topic, partition = self.pin.place.topic, self.pin.place.partition
        return UnavailableError(
            f"A header of the record at {topic}/{partition}/{value} has a name that is not UTF-8, so only the stream "
            "can read the record.",
            code="journal-header-unreadable",
            hint="Ask again once the stream has folded it; `metajournal status` shows how far it is.",
        )

    def facts(self, key: bytes, tables: Collection[str] | None) -> tuple[int, dict[str, list[Any]]]:
        """Rows that events of a followed key made in other tables than `entities`, in the order of these events.

        Args:
            tables: whose rows; None: of all of them.
        Returns:
            Position at and above which no row is missing, and copies of the rows by table.
        """
        kept = self._facts.get(key)
        return (self.pin.mark, {}) if kept is None else kept.of(tables)

    def reach(self, value: int) -> None:
        """Everything below a position is read: what stands there are markers of transactions."""
        if self.goes_on():
            self.next = max(self.next, value)

    def _judge(self, share: Share) -> None:
        """The stream's own fold. Each record bears the running clock at its place instead of its append time, since
        others that moved it are not here."""
        (made,) = fold_shares(self._folder, [share])
        self._folder.advance(made)
        self.verdicts.update((judged.record.position, judged.verdict) for judged in made.folded.judged)
        self.rows.update(made.folded.current)
        self._keep(made.folded)
        self._take_in(made.folded)

    def _keep(self, folded: Folded) -> None:
        """Keep the rows of other tables, by the key of their aggregate: under any other one a record is shelved."""
        read: dict[bytes, dict[str, list[Any]]] = defaultdict(dict)
        unread: dict[bytes, dict[str, list[Any]]] = defaultdict(dict)
        for table, changes in folded.facts.items():
            made = read if SPECS[table].read_by_rules else unread
            for key, rows in _by_key(changes).items():
                made[key][table] = rows
        for key in {**read, **unread}:
            if key not in self._facts:
                self._facts[key] = KeptFacts(self.pin.mark)
            self._facts[key].add(read[key], unread[key])


def _record(message: Message, value: int, time_ms: int) -> Record:
    return Record(value, time_ms, message.key(), message.value(), headers_of(message))


def _bits(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Records in bits of bounded bytes."""
    first, taken_bytes = 0, 0
    for number, record in enumerate(records):
        taken_bytes += len(record.value or b"")
        if taken_bytes > _JUDGED_BYTES and number > first:
            yield records[first:number]
            first, taken_bytes = number, len(record.value or b"")
    if first < len(records):
        yield records[first:]


def _by_key(changes: Iterable[FactChange]) -> dict[bytes, list[Any]]:
    """The rows that changes made, by the Kafka key of their aggregate."""
    rows: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for _, after in changes:
        rows[after.tenant, after.aggregate].append(after)
    return {record_key(*aggregate): made for aggregate, made in rows.items()}
