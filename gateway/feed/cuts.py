"""Where a feed is, as the id of its events: the next offset of each partition of the change topics.

    1~catalog:5f0c.a1.0.7~files:19be.0.3

Offsets are in base 36. Each topic bears a mark of its identity, so that an id of a topic that was made anew is known to
be one. A topic that is not named was not begun. Pure: values in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from ...consumers.records import Partition
from ...schemas.errors import InputError

_VERSION: Final = "1"
_BETWEEN: Final = "~"
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_TOPIC: Final = re.compile(r"(?P<label>[a-z0-9_.-]{1,200}):(?P<mark>[0-9a-f]{4})(?P<offsets>(?:\.[0-9a-z]{1,9})+)")
_MOST_CHARACTERS: Final = 8_192

Offsets = Mapping[Partition, int]
"""The next offset of each partition; 0 where none is named."""


class Topic(NamedTuple):
    """A change topic as ids name it.

    Attributes:
        name: of the topic.
        label: what ids call it.
        mark: tells it from one that was made anew under its name.
        partitions: how many it has.
    """

    name: str
    label: str
    mark: str
    partitions: int


class Read(NamedTuple):
    """What an id says.

    Attributes:
        offsets: of topics that are there.
        is_whole: nothing that it names was made anew meanwhile, or is gone.
    """

    offsets: dict[Partition, int]
    is_whole: bool


def mark_of(topic_id: str) -> str:
    """The mark of a topic with one of Kafka's ids."""
    return blake2b(topic_id.encode(), digest_size=2).hexdigest()


class Cuts:
    """Writes and reads the ids of one installation's feeds.

    Args:
        topics: the change topics, by label.
    """

    def __init__(self, topics: Iterable[Topic]) -> None:
        self.topics = tuple(topics)
        self._by_label = {topic.label: topic for topic in self.topics}

    def text(self, offsets: Offsets) -> str:
        """The id of a place."""
        return joined(self.part(topic.name, offsets) for topic in self.topics)

    def part(self, name: str, offsets: Offsets) -> str:
        """What an id says of one topic; nothing where it was not begun."""
        topic = next(topic for topic in self.topics if topic.name == name)
        following = [offsets.get((name, number), 0) for number in range(topic.partitions)]
        if not any(following):
            return ""
        return ".".join([f"{topic.label}:{topic.mark}", *map(_base36, following)])

    def read(self, text: str) -> Read:
        """What an id says.

        Raises:
            InputError: it is none of a feed.
        """
        version, *parts = text.split(_BETWEEN)
        matches = [_TOPIC.fullmatch(part) for part in parts]
        if version != _VERSION or len(text) > _MOST_CHARACTERS or None in matches:
            raise InputError(
                f"{text!r:.80} is not the id of a feed's event.", code="bad-event-id",
                hint="Send the id of the last event as it came, or none.",
            )  # fmt: skip
        offsets: dict[Partition, int] = {}
        is_whole = True
        for match in matches:
            assert match is not None
            topic, following = self._by_label.get(match["label"]), match["offsets"][1:].split(".")
            if topic is None or (topic.mark, topic.partitions) != (match["mark"], len(following)):
                is_whole = False
                continue
            offsets |= {(topic.name, number): int(offset, 36) for number, offset in enumerate(following)}
        return Read(offsets, is_whole)


def joined(parts: Iterable[str]) -> str:
    """An id, from what it says of each topic."""
    return _BETWEEN.join([_VERSION, *filter(None, parts)])


def _base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
        if number == 0:
            return text
