"""The ends of all partitions of one journal topic, read record by record by one client.

Left to others: what the records mean (foretelling), and when to begin again (whole_topic).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from ..producers.kafka import ErrorLog, is_passing, make_consumer
from ..schemas.errors import KafkaUnavailableError
from ..schemas.settings import Settings
from .tail import SETTINGS, lost

_ASKED_S: Final = 1.0
_MOST: Final = 5_000


class Came(NamedTuple):
    """What was read of one partition.

    Attributes:
        messages: its records, in the order of their offsets.
        reached: an offset below which there are no others, or 0.
    """

    messages: list[Message]
    reached: int


class TopicTail:
    """Reads a journal topic.

    Args:
        partitions: how many it has.

    Attributes:
        errors: what Kafka's client told.
    """

    def __init__(self, settings: Settings, topic: str, partitions: int) -> None:
        self.errors = ErrorLog()
        self._topic = topic
        self._partitions = range(partitions)
        self._consumer = make_consumer(settings, self.errors, role="follower", **SETTINGS)
        self._asker = make_consumer(settings, self.errors, role="ends")
        """Asks for the ends alone: a broker answers a connection's requests in order, and fetches wait for records."""

    def ends(self) -> dict[int, tuple[int, int]]:
        """First offset of each partition, and the one behind its last record.

        Raises:
            KafkaUnavailableError: the broker does not answer at once: whoever asks each second asks again.
        """
        try:
            return {
                partition: self._asker.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=_ASKED_S)
                for partition in self._partitions
            }
        except KafkaException as error:
            text = f"The ends of {self._topic} cannot be read: {error.args[0].str()}."
            raise KafkaUnavailableError(text) from error

    def begin(self, offsets: Mapping[int, int]) -> None:
        """Read from an offset of each partition on."""
        self._consumer.assign([TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()])

    def came(self, timeout_s: float) -> dict[int, Came]:
        """What has come, at once when there is any.

        Raises:
            TopicMismatchError: the topic no longer holds what is to be read.
            KafkaException: the broker refuses for good.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return {}
        records: dict[int, list[Message]] = defaultdict(list)
        reached: dict[int, int] = defaultdict(int)
        for message in [first, *self._consumer.consume(_MOST, 0)]:
            partition = message.partition() or 0
            error = message.error()
            if error is None:
                records[partition].append(message)
            else:
                reached[partition] = max(reached[partition], self._end(partition, message, error))
        return {partition: Came(records[partition], reached[partition]) for partition in {*records, *reached}}

    def _end(self, partition: int, message: Message, error: KafkaError) -> int:
        if error.code() == KafkaError._PARTITION_EOF:
            return message.offset() or 0
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise lost(self._topic, partition, error.str())
        if not is_passing(error):
            raise KafkaException(error)
        return 0

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()
        self._asker.close()
