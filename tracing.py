"""Why an event shows, or does not: one event followed through journal, rules, tables and index.

It joins what the rooms know and judges nothing: the lake tells the outcome and the rows, Kafka tells of what is not
folded yet, the index tells how far it shows. Nothing is scanned: the time in the event's id says where to look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from .schemas.errors import InputError, InvalidPositionError, MetajournalError, UnknownEventError
from .schemas.ids import id_bytes, id_text
from .schemas.positions import EPOCH_SHIFT, Position
from .schemas.registry import domain_named, has_documents

if TYPE_CHECKING:
    from .consumers.finding import FoundEvent, Looked
    from .lake.events import Judged, Made
    from .lake.views.views import View
    from .producers.topics import Epochs, TopicEpoch
    from .schemas.settings import Settings

NOT_FOLDED = "not folded yet"
MOST_ROWS = 10
"""Rows of each table that are shown of an event; one of many objects makes a thousand."""
_VERSION_7 = 7


class Seen(NamedTuple):
    """How far the index shows an event.

    Attributes:
        name: the index that searches use now; None where there is none.
        shows: the next position of the event's journal partition that it does not show; None where it is not known.
        said: "shown", "n positions behind", or why it is not known, or never shown.
    """

    name: str | None
    shows: int | None
    said: str


class Step(NamedTuple):
    """One place where the event stands; times are milliseconds UTC.

    Attributes:
        outcome: the rules' word, or "not folded yet".
        original: of a duplicate, the position that counts.
        rows: what it made, in table order.
        behind: positions before it that are not folded yet, its own included; 0 for a folded one.
    """

    position: Position
    tenant: str
    type: str
    aggregate: str
    entities: tuple[str, ...]
    actor: str | None
    append_time: int
    system_time: int | None
    event_time: int | None
    unit_id: str | None
    outcome: str
    reason: str | None
    detail: Any
    original: Position | None
    rows: tuple[Made, ...]
    behind: int
    seen: Seen

    @property
    def offset(self) -> int:
        return self.position.offset

    @property
    def row_counts(self) -> dict[str, int]:
        """How many rows it made in each table, in table order."""
        return dict(Counter(row.table for row in self.rows))

    @property
    def first_rows(self) -> tuple[Made, ...]:
        """At most MOST_ROWS of each table, in table order."""
        tables = groupby(self.rows, key=lambda row: row.table)
        return tuple(row for _, rows in tables for row in islice(rows, MOST_ROWS))


class Trace(NamedTuple):
    """An event's way. `steps` has one entry for each time that it stands in the journal."""

    event_id: str | None
    """None of a shelved record that was asked for by its position, where its header cannot be read."""
    made_at: int | None
    """When its id was made, by its emitter's clock; None where the id does not say."""
    steps: tuple[Step, ...]


def trace(
    settings: Settings,
    epochs: Callable[[], Epochs],
    lake: View | None,
    event: str | Position,
    *,
    timeout_s: float = 5.0,
) -> Trace:
    """Follow an event.

    Args:
        settings: how to reach Kafka and the index.
        epochs: gives the journal topics; asked only for an event that the lake does not hold.
        lake: a view of all tables of the lake; None where there is none yet.
        event: its id, as receipts, tables and change records print it, or its position.
        timeout_s: seconds to look for it in Kafka, where the lake does not hold it.
    Raises:
        InputError: the text is neither an event id nor a position, or a position of another journal.
        UnknownEventError: the event is neither in the lake nor in the topics.
        KafkaUnavailableError: no broker answers.
    """
    wanted = read_event(event)
    with ThreadPoolExecutor(1) as beside:  # the index is asked while the lake is read: each waits for its own import
        index = beside.submit(_index, settings)
        if isinstance(wanted, Position):
            identity, steps = _standing_at(settings, epochs, lake, wanted, timeout_s)
        else:
            identity, steps = id_text(wanted), _of_id(settings, epochs, lake, wanted, timeout_s)
        seen = index.result()
    made = None if identity is None else made_at(id_bytes(identity))
    return Trace(identity, made, tuple(step._replace(seen=seen(step.position)) for step in steps))


def read_event(event: str | Position) -> bytes | Position:
    """What names an event: the 16 bytes of its id, or its position. Raises: InputError."""
    if isinstance(event, Position):
        return event
    return Position.parse(event.strip()) if isinstance(event, str) and "/" in event else read_id(event)


def read_id(text: str) -> bytes:
    """The 16 bytes of an event id. Raises: InputError."""
    try:
        return id_bytes(text.strip())
    except (ValueError, AttributeError) as error:
        raise InputError(
            f"{text!r:.80} is not a valid event id.",
            code="invalid-event-id",
            hint="An event id looks like 019aa3a1-5b7c-7def-8123-456789abcdef: `metajournal emit --json` and "
            "`metajournal history --json` print it. Or pass the event's position, TOPIC/PARTITION/VALUE.",
        ) from error


def made_at(identity: bytes) -> int | None:
    """The time in a UUIDv7, milliseconds UTC; None for any other id. Source: RFC 9562, 5.7."""
    return int.from_bytes(identity[:6]) if identity[6] >> 4 == _VERSION_7 else None


def _of_id(
    settings: Settings, epochs: Callable[[], Epochs], lake: View | None, identity: bytes, timeout_s: float
) -> list[Step]:
    steps = [] if lake is None else _folded(settings, lake, id_text(identity)) or _shelved(lake, identity)
    return steps or _in_kafka(settings, epochs(), lake, identity, timeout_s)


def _standing_at(
    settings: Settings, epochs: Callable[[], Epochs], lake: View | None, position: Position, timeout_s: float
) -> tuple[str | None, list[Step]]:
    """The id of the event at a position, and its one step: from the lake, or one record of Kafka."""
    from .consumers.finding import find_at
    from .lake.events import event_at

    if lake is not None and (folded := event_at(lake, position)) is not None:
        identity, judged = folded
        return identity, [_judged_step(settings, lake, judged)]
    known = epochs()
    marks = _marks(known, lake)
    if (position.topic, position.partition) not in marks or not _holds(known, position):
        raise InvalidPositionError(f"{position} is not a position of this journal.", text=str(position))
    waits = position.value >= marks[position.topic, position.partition]
    event = find_at(settings, position, timeout_s=timeout_s) if waits else None
    if event is None:
        raise UnknownEventError(
            f"There is no readable event at {position}.",
            hint="Check the position, as `metajournal emit` and `metajournal history` print it.",
            position=str(position),
        )
    return id_text(event.header.event_id), [_waiting(event, marks)]


def _in_kafka(settings: Settings, epochs: Epochs, lake: View | None, identity: bytes, timeout_s: float) -> list[Step]:
    from .consumers.finding import find_event

    marks, began = _marks(epochs, lake), {topic: topic_epoch.epoch for topic, topic_epoch in epochs.items()}
    looked = find_event(settings, identity, marks, began, since_ms=made_at(identity) or 0, timeout_s=timeout_s)
    if not looked.events:
        raise _unknown(id_text(identity), looked, marks)
    return [_waiting(event, marks) for event in looked.events]


def _marks(epochs: Epochs, lake: View | None) -> dict[tuple[str, int], int]:
    """For each journal partition the next position that is not folded."""
    begun = {
        (topic, number): topic_epoch.start(number)
        for topic, topic_epoch in epochs.items()
        for number in _numbers(topic_epoch)
    }
    return {key: max(first, 0 if lake is None else lake.journal.mark(key)) for key, first in begun.items()}


def _holds(epochs: Epochs, position: Position) -> bool:
    return epochs[position.topic].holds(position.partition, position.value)


def _numbers(topic: TopicEpoch) -> range:
    return range(topic.partitions)


def _folded(settings: Settings, lake: View, event_id: str) -> list[Step]:
    from .lake.events import judged_events

    return [_judged_step(settings, lake, judged) for judged in judged_events(lake, event_id)]


def _judged_step(settings: Settings, lake: View, judged: Judged) -> Step:
    """A record of the lake with the rows that it made; only an accepted one made any."""
    from .lake.events import rows_made

    if judged.outcome != "accepted":
        return _step(judged, ())
    domain = settings.journal.topics.domain_of(judged.position.topic)
    return _step(judged, tuple(rows_made(lake, judged, domain)))


def _shelved(lake: View, identity: bytes) -> list[Step]:
    from .consumers.finding import CLOCKS_MS
    from .lake.events import shelved_events

    return [_step(judged, ()) for judged in shelved_events(lake, identity, (made_at(identity) or 0) - CLOCKS_MS)]


def is_known(settings: Settings, position: Position) -> bool:
    """Whether the domain of a journal topic is one of our own, or was taken in: only then its tables are known."""
    return domain_named(settings.journal.topics.domain_of(position.topic)) is not None


def _step(judged: Judged, rows: tuple[Made, ...]) -> Step:
    return Step(
        judged.position, judged.tenant, judged.type, judged.aggregate, judged.entities, judged.actor,
        judged.append_time, judged.system_time, judged.event_time, judged.unit_id, judged.outcome, judged.reason,
        judged.detail, judged.duplicate_of, rows, 0, _NOT_ASKED,
    )  # fmt: skip


def _waiting(event: FoundEvent, marks: Mapping[tuple[str, int], int]) -> Step:
    header, position = event.header, event.position
    unit = None if header.unit is None else id_text(header.unit.id)
    before = position.value + 1 - marks[position.topic, position.partition]
    return Step(
        position, header.tenant, header.type, header.aggregate, tuple(header.entities), header.actor,
        event.append_time, None, header.event_time, unit, NOT_FOLDED, None, None, None, (), before, _NOT_ASKED,
    )  # fmt: skip


def _unknown(event_id: str, looked: Looked, marks: Mapping[tuple[str, int], int]) -> UnknownEventError:
    rest = "" if looked.whole else ", not all of which could be read in time"
    return UnknownEventError(
        f"No event {event_id} can be read: it is neither in the lake nor in the part of the journal after it{rest}.",
        hint="Check the id. Without an acknowledgement the event may never have reached the journal. A shelved "
        "record whose header cannot be read has no id: it is in the dead-letter topic (<prefix>.dlq)."
        if looked.whole
        else "Ask again in a while: the stream is far behind (`metajournal status`), or a unit of events before it is "
        "not committed yet.",
        event_id=event_id,
        whole=looked.whole,
        searched_from={f"{topic}/{number}": mark for (topic, number), mark in marks.items()},
    )


_NOT_ASKED = Seen(None, None, "not asked")
_NOT_SEARCHABLE = Seen(None, None, "never: entities of this domain are not searchable")


def _index(settings: Settings) -> Callable[[Position], Seen]:
    """A function from a position to what the index shows of it; asks the index once."""
    from .indexer.search.visible import shown_by

    try:
        name, vector = shown_by(settings)
    except MetajournalError as error:
        missing = Seen(None, None, error.message)
        return lambda position: missing

    def seen(position: Position) -> Seen:
        if not has_documents(settings.journal.topics.domain_of(position.topic)):
            return _NOT_SEARCHABLE
        shows = vector.get((position.topic, position.partition), 0)
        behind = position.value + 1 - max(shows, position.epoch << EPOCH_SHIFT)
        return Seen(name, shows, "shown" if shows > position.value else f"{behind:,} positions behind")

    return seen
