"""What is lost of a journal's topics, and what can be restored: looked at, and nothing changed.

The records of `<prefix>.epochs` come from the topic, or from the copy in the lake where the topic is lost, or was
created again by somebody who did not know that there had been one. A journal topic is *lost* if it is missing, or was
created again and is empty. One that holds records is never touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka.admin import TopicDescription

from ...lake.storage.kept_epochs import KeptEpochs
from ...lake.tables import Lake
from ...producers.answers import Administrator
from ...producers.compacted import read_all
from ...producers.recorded.restored import Earlier, restored_field, restored_of
from ...producers.recorded.topic_admin import described
from ...producers.topics import Epochs, TopicEpoch, epochs_of, wanted_topics
from ...schemas.encoding.known import contracts_by_fingerprint
from ...schemas.errors import StreamError
from ...schemas.positions import epoch_of, offset_of
from ...schemas.registry import owner_of_undeclared
from ...schemas.settings import Settings
from ..publish import watermarks
from ..replay import count_records

Records = dict[str, bytes]
MISSING: Final = "missing"
EMPTY: Final = "created again, empty"
BEGUN: Final = "partly restored"
INTACT: Final = "intact"
_EPOCHS_UNKNOWN: Final = (
    "Without them it is not known which kinds belong to which topic, and verdicts could change. Restore the topic from "
    "a backup of Kafka; or use a copy of the lake that the stream of this version has written."
)


@dataclass(frozen=True, slots=True)
class TopicLoss:
    """What became of one journal topic.

    Attributes:
        state: MISSING, EMPTY, BEGUN or INTACT.
        target: its record in the epochs topic once it is restored; of an intact one, as it is recorded now.
        records: how many the journal table holds of it; 0 for an intact one.
        topic_id: of the topic that is there; None where there is none.
    """

    topic: str
    state: str
    target: TopicEpoch
    records: int
    topic_id: str | None = None

    @property
    def is_lost(self) -> bool:
        """Whether there is anything to restore."""
        return self.state != INTACT

    @property
    def ends(self) -> tuple[int, ...]:
        """The offset in each partition at which the restored records end."""
        return self.target.earlier[-1][1] if self.target.earlier else (0,) * self.target.partitions

    @property
    def positions(self) -> int:
        """How many offsets are restored."""
        return sum(self.ends) if self.is_lost else 0


@dataclass(frozen=True, slots=True)
class Loss:
    """What is lost of a journal.

    Attributes:
        topics: every journal topic.
        records: those of the epochs topic as they were before the loss.
        epochs: the same, as values.
        epochs_lost: the epochs topic lacks some of them, or holds others.
        foreign: keys of records that somebody wrote there who did not know of the loss.
        schemas: schemas that the schemas topic lacks, by key.
        schemas_lost: that topic is missing.
        created: further topics of the journal that are missing; they are created empty.
    """

    topics: tuple[TopicLoss, ...]
    records: Records
    epochs: Epochs
    epochs_lost: bool
    foreign: tuple[str, ...]
    schemas: Mapping[str, bytes]
    schemas_lost: bool
    created: tuple[str, ...]

    @property
    def lost(self) -> tuple[TopicLoss, ...]:
        """The journal topics that are to be restored."""
        return tuple(topic for topic in self.topics if topic.is_lost)

    @property
    def is_any(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.lost or self.epochs_lost or self.schemas_lost or self.created)

    def record(self, topic: TopicLoss, topic_id: str) -> dict[str, Any]:
        """The record of a restored topic: what it said before, with a new epoch and id."""
        return {
            **json.loads(self.records[topic.topic]),
            "epoch": topic.target.epoch,
            "topic_id": topic_id,
            **restored_field(topic.target.earlier),
        }


def look(settings: Settings, admin: Administrator, lake: Lake, kept: KeptEpochs, timeout_s: float) -> Loss:
    """Look at what there is of the topics, and hold it against the lake.

    Raises:
        StreamError: a topic holds records that are not those of the lake, or it is not known what was recorded.
        KafkaUnavailableError: the broker does not answer in time.
    """
    names = settings.journal.topics
    records, present = _recorded(settings, admin, kept, timeout_s)
    epochs = epochs_of(names.epochs, records)
    lake.include([served.name for served in epochs.outside])
    outside = [served.name for served in epochs.outside]
    wanted = [topic.topic for topic in wanted_topics(settings, None, outside)]
    there = described(admin, sorted({*wanted, *epochs.topics}), timeout_s)
    note = kept.note()
    topics = tuple(
        _of_topic(settings, lake, known, there.get(name), note.get(name))
        for name, known in sorted(epochs.topics.items())
    )
    as_recorded = [topic for topic in topics if topic.topic_id == epochs.topics[topic.topic].topic_id]
    if not kept.copy() and any(topic.state == EMPTY for topic in as_recorded):
        raise _unknown(names.epochs, "was created together with the empty topics")
    contracts = contracts_by_fingerprint().items()
    schemas = {f"{fingerprint:016x}": contract.text.encode() for fingerprint, contract in contracts}
    published = read_all(settings, names.schemas, timeout_s=timeout_s) if names.schemas in there else {}
    special = {*epochs.topics, names.epochs, names.schemas}
    return Loss(
        topics,
        records,
        epochs,
        epochs_lost=present != _parsed(records),
        foreign=tuple(key for key in present if key not in records),
        schemas={key: text for key, text in schemas.items() if key not in published},
        schemas_lost=names.schemas not in there,
        created=tuple(name for name in wanted if name not in there and name not in special),
    )


def _parsed(records: Mapping[str, bytes]) -> dict[str, Any]:
    return {key: json.loads(value) for key, value in records.items()}


def _recorded(
    settings: Settings, admin: Administrator, kept: KeptEpochs, timeout_s: float
) -> tuple[Records, dict[str, Any]]:
    """The records of the epochs topic as they were before the loss, and what that topic holds now."""
    source = settings.journal.topics.epochs
    owner = settings.journal.topics.journal(owner_of_undeclared())
    copy = kept.copy()
    is_there = source in described(admin, [source], timeout_s)
    present = read_all(settings, source, timeout_s=timeout_s) if is_there else {}
    if copy and owner not in copy:
        raise StreamError(
            f"The lake's copy of the epochs topic names other topics than {owner}.",
            code="other-journal",
            hint="Check journal.prefix and lake.path: this is the lake of a journal with another prefix.",
        )
    if owner not in present or (copy and _is_newer(copy[owner], present[owner])):
        # A topic that somebody created again knows nothing of the cuts, kinds and shelved positions that there were.
        if not copy:
            raise _unknown(source, "has no record of the journal" if is_there else "is missing")
        return copy, _parsed(present)
    return present, _parsed(present)


def _is_newer(kept: bytes, present: bytes) -> bool:
    """Whether the copy tells of a later or another topic than the epochs topic does."""
    copied, recorded = json.loads(kept), json.loads(present)
    return bool(copied["topic_id"] != recorded["topic_id"] and copied["epoch"] >= recorded["epoch"])


def _unknown(source: str, why: str) -> StreamError:
    return StreamError(
        f"What {source} recorded is not known: the topic {why}, and the lake has no copy of it.",
        code="epochs-unknown",
        hint=_EPOCHS_UNKNOWN,
    )


def _of_topic(
    settings: Settings, lake: Lake, known: TopicEpoch, there: TopicDescription | None, noted: Mapping[str, Any] | None
) -> TopicLoss:
    marks = [lake.journal.mark((known.topic, number)) for number in range(known.partitions)]
    topic_id = None if there is None else str(there.topic_id)
    ends = () if there is None else _ends(settings, there)
    if noted is not None and noted["topic_id"] == known.topic_id:
        noted = None  # it was restored and recorded
    if noted is not None and noted["topic_id"] == topic_id:
        target = _noted(known, noted)
        return TopicLoss(known.topic, BEGUN, target, _count(lake, target), topic_id)
    reached = [offset_of(mark) for mark in marks]
    whole = len(ends) == known.partitions and all(map(int.__le__, reached, ends))
    if topic_id == known.topic_id and whole:
        return TopicLoss(known.topic, INTACT, known, 0, topic_id)
    if any(ends):
        raise _holds_records(known, topic_id, ends, reached)
    target = _next(known, marks) if noted is None else _noted(known, noted)  # it may have been lost again meanwhile
    state = MISSING if there is None else EMPTY
    return TopicLoss(known.topic, state, target, _count(lake, target), topic_id)


def _noted(known: TopicEpoch, noted: Mapping[str, Any]) -> TopicEpoch:
    """What an unfinished restoration is going to record."""
    epoch, topic_id = int(noted["epoch"]), str(noted["topic_id"])
    return TopicEpoch(known.topic, epoch, topic_id, known.partitions, known.served, restored_of(noted))


def _next(known: TopicEpoch, marks: list[int]) -> TopicEpoch:
    """What is recorded of a topic once its records are restored into the next epoch."""
    if any(epoch_of(mark) > known.epoch for mark in marks):
        raise StreamError(
            f"The lake holds {known.topic} in epoch {max(map(epoch_of, marks))}, recorded is {known.epoch}.",
            code="epochs-differ",
            hint="The lake is newer than the record: use the copy of the lake that belongs to this journal.",
        )
    ends = tuple(offset_of(known.reached(number, mark)) for number, mark in enumerate(marks))
    earlier: Earlier = (*known.earlier, (known.epoch, ends))
    return TopicEpoch(known.topic, known.epoch + 1, "", known.partitions, known.served, earlier)


def _count(lake: Lake, target: TopicEpoch) -> int:
    keys = [(target.topic, number) for number in range(target.partitions)]
    starts = [target.first(number) for _, number in keys]
    return count_records(lake.journal.delta, keys, starts, [target.start(number) for _, number in keys])


def _ends(settings: Settings, there: TopicDescription) -> tuple[int, ...]:
    places = [(there.name, number) for number in range(len(there.partitions))]
    return tuple(high for _, high in watermarks(settings, places).values())


def _holds_records(known: TopicEpoch, topic_id: str | None, ends: tuple[int, ...], reached: list[int]) -> StreamError:
    if topic_id == known.topic_id:
        return StreamError(
            f"{known.topic} lost a part of its records: it ends at {list(ends)}, the lake at {reached}.",
            code="topic-holds-records",
            hint="Copy what it holds if it is needed, delete the topic, and restore it again: the lake contains more.",
        )
    return StreamError(
        f"{known.topic} was created again, and holds records that the lake does not know: it ends at {list(ends)}.",
        code="topic-holds-records",
        hint="Somebody emitted after the loss. Stop every producer, save those records if they are needed, delete the "
        "topic, and restore it again.",
    )
