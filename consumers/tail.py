"""The end of one journal partition, read record by record as soon as the broker has them committed.

Left to others: what the records mean (foretelling), and when to begin again (follower).
"""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from ..producers.kafka import ErrorLog, asked_again, is_passing, make_consumer
from ..schemas.errors import KafkaUnavailableError, TopicMismatchError
from ..schemas.settings import Settings

_ASKED_S: Final = 10.0
_MOST: Final = 5_000
SETTINGS: Final[dict[str, Any]] = {
    "enable.partition.eof": True,
    "fetch.message.max.bytes": 8 * 1024 * 1024,  # a long tail comes in few answers
    "fetch.queue.backoff.ms": 10,  # a second, by default, once a long tail has filled the queue
    "fetch.error.backoff.ms": 50,
}


class Tail:
    """Reads one partition of a journal topic.

    Attributes:
        errors: what Kafka's client told.
    """

    def __init__(self, settings: Settings, topic: str, partition: int) -> None:
        self.errors = ErrorLog()
        self._place = (topic, partition)
        self._consumer = make_consumer(settings, self.errors, role="follower", **SETTINGS)

    def ends(self) -> tuple[int, int]:
        """First offset, and the one behind the last record. Raises: KafkaUnavailableError."""
        place = TopicPartition(*self._place)
        try:
            low, high = asked_again(
                self._consumer,
                lambda: self._consumer.get_watermark_offsets(place, timeout=_ASKED_S),
                time.monotonic() + _ASKED_S,
            )
        except KafkaException as error:
            text = f"The end of {self._place[0]}/{self._place[1]} cannot be read: {error.args[0].str()}."
            raise KafkaUnavailableError(text) from error
        return low, high

    def begin(self, offset: int) -> None:
        """Read from an offset on."""
        self._consumer.assign([TopicPartition(*self._place, offset)])

    def pause(self) -> None:
        """Read nothing until it is begun again."""
        self._consumer.unassign()

    def messages(self, timeout_s: float) -> tuple[list[Message], int]:
        """Records that have come, at once when there are any; and an offset below which there are no others (or 0).

        Raises:
            TopicMismatchError: the topic no longer holds what is to be read.
            KafkaException: the broker refuses for good.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return [], 0
        # consume() alone would wait until its time is over or its list is full.
        came = [first, *self._consumer.consume(_MOST, 0)]
        records = [message for message in came if message.error() is None]
        reached = max((self._end(message) for message in came if message.error() is not None), default=0)
        return records, reached

    def _end(self, message: Message) -> int:
        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return message.offset() or 0
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise lost(*self._place, error.str())
        if not is_passing(error):
            raise KafkaException(error)
        return 0

    def close(self) -> None:
        self._consumer.close()


def lost(topic: str, partition: int, why: str) -> TopicMismatchError:
    """The error of a topic that does not hold what stands behind the lake's mark."""
    return TopicMismatchError(
        f"{topic}/{partition} does not continue where the lake ends: {why}.",
        hint="The stream stops for the same reason: `metajournal status`. Does lake.path belong to another journal?",
        differences=(why,),
    )
