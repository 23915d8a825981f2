"""The ends of journal partitions, read record by record by one client as soon as the broker has them committed.

Partitions come and go while others are read on. Left to others: what the records mean (foretelling), when to begin
again (follower, whole_topic), and which thread reads (journal_reader).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from ..producers.kafka import ErrorLog, asked_again, is_passing, make_consumer
from ..schemas.errors import KafkaUnavailableError, TopicMismatchError
from ..schemas.settings import Settings
from .records import Partition

_ASKED_S: Final = 3.0
_MOST: Final = 1_000
"""Records that are handed on at once, of all partitions: a busy one must not hold the others up."""
_SETTINGS: Final[dict[str, Any]] = {
    "enable.partition.eof": True,
    "fetch.message.max.bytes": 8 * 1024 * 1024,  # a long tail comes in few answers
    "fetch.queue.backoff.ms": 10,  # a second, by default, once a long tail has filled the queue
    "fetch.error.backoff.ms": 50,
}


class Came(NamedTuple):
    """What was read of one partition.

    Attributes:
        messages: its records, in the order of their offsets.
        reached: an offset below which there are no others, or 0.
        problem: why it is read no further.
    """

    messages: list[Message]
    reached: int = 0
    problem: Exception | None = None


class Tail:
    """Reads partitions of journal topics; of one thread, since a client that polls answers no other.

    Args:
        settings: how to reach Kafka.
        wait_ms: for how long a broker waits for records of the partitions that are read; one that begins to be read
            waits so long for the others.

    Attributes:
        errors: what Kafka's client told.
    """

    def __init__(self, settings: Settings, *, wait_ms: int = 50) -> None:
        self.errors = ErrorLog()
        more = {**_SETTINGS, "fetch.wait.max.ms": wait_ms}
        self._consumer = make_consumer(settings, self.errors, role="follower", **more)
        self._assigned: set[Partition] = set()

    def ends(self, place: Partition) -> tuple[int, int]:
        """First offset of a partition, and the one behind its last record. Raises: KafkaUnavailableError."""
        try:
            low, high = asked_again(
                self._consumer,
                partial(self._consumer.get_watermark_offsets, TopicPartition(*place), timeout=_ASKED_S),
                time.monotonic() + _ASKED_S,
            )
        except KafkaException as error:
            text = f"The end of {place[0]}/{place[1]} cannot be read: {error.args[0].str()}."
            raise KafkaUnavailableError(text) from error
        return low, high

    def begin(self, offsets: Mapping[Partition, int]) -> None:
        """Read partitions from an offset on; what came of them from elsewhere and was not handed on is dropped."""
        self._leave(self._assigned & offsets.keys())
        self._consumer.incremental_assign([TopicPartition(*place, offset) for place, offset in offsets.items()])
        self._assigned |= offsets.keys()

    def leave(self, place: Partition) -> None:
        """Read nothing of a partition until it is begun again."""
        self._leave(self._assigned & {place})

    def _leave(self, places: set[Partition]) -> None:
        if places:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in places])
            self._assigned -= places

    def came(self, timeout_s: float) -> dict[Partition, Came]:
        """What has come, at once when there is any. Raises: KafkaException: the broker refuses for good."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return {}
        records: dict[Partition, list[Message]] = defaultdict(list)
        reached: dict[Partition, int] = defaultdict(int)
        problems: dict[Partition, Exception] = {}
        # consume() alone would wait until its time is over or its list is full.
        for message in [first, *self._consumer.consume(_MOST, 0)]:
            place, error = (message.topic() or "", message.partition() or 0), message.error()
            if error is None:
                records[place].append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                reached[place] = max(reached[place], message.offset() or 0)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                problems[place] = lost(*place, error.str())
            elif not is_passing(error):
                if not message.topic():
                    raise KafkaException(error)
                problems[place] = KafkaException(error)
        return {
            place: Came(records.get(place, []), reached.get(place, 0), problems.get(place))
            for place in {*records, *reached, *problems}
        }

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()


def lost(topic: str, partition: int, why: str) -> TopicMismatchError:
    """The error of a topic that does not hold what stands behind the lake's mark."""
    return TopicMismatchError(
        f"{topic}/{partition} does not continue where the lake ends: {why}.",
        hint="The stream stops for the same reason: `metajournal status`. Does lake.path belong to another journal?",
        differences=(why,),
    )
