"""What the broker says of topics, and has made: their description, configuration and ends.

Left to others: which topics there are to be, and whether they are as they must be (topics).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from ...schemas.errors import KafkaUnavailableError
from ..answers import Administrator

_PAUSE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Wanted:
    """How one topic must be: partitions and configuration."""

    topic: str
    partitions: int
    config: Mapping[str, str]
    checked: tuple[str, ...] = ("cleanup.policy", "message.timestamp.type", "max.message.bytes")
    """Keys that must be as wanted; the rest (retention) is the operator's to change."""


def described(admin: Administrator, topics: list[str], timeout_s: float) -> dict[str, TopicDescription]:
    """The topics that exist."""
    return admin.answers(
        lambda client, limit: client.describe_topics(TopicCollection(topics), request_timeout=limit),
        "Describing",
        timeout_s,
        fine=KafkaError.UNKNOWN_TOPIC_OR_PART,
    )


def create(admin: Administrator, wanted: list[Wanted], timeout_s: float) -> None:
    if not wanted:
        return
    # Replication -1: the broker's own default.
    new = [NewTopic(topic.topic, topic.partitions, -1, config=dict(topic.config)) for topic in wanted]
    admin.answers(
        lambda client, limit: client.create_topics(new, operation_timeout=limit, request_timeout=limit),
        "Creating",
        timeout_s,
        fine=KafkaError.TOPIC_ALREADY_EXISTS,
    )


def await_topics(admin: Administrator, topics: list[str], timeout_s: float) -> dict[str, TopicDescription]:
    """Wait until the broker's metadata show the topics with a leader for each partition (creation is asynchronous)."""
    deadline = time.monotonic() + timeout_s
    while True:
        descriptions = described(admin, topics, timeout_s)
        led = {
            name
            for name, topic in descriptions.items()
            if all(partition.leader is not None for partition in topic.partitions)
        }
        if len(led) == len(topics):
            return descriptions
        if time.monotonic() > deadline:
            missing = ", ".join(sorted(set(topics) - led))
            raise KafkaUnavailableError(f"Created topics do not appear within {timeout_s:g} s: {missing}.")
        time.sleep(_PAUSE_S)


def delete(admin: Administrator, topics: list[str], timeout_s: float) -> None:
    """Delete topics, and wait until the broker's metadata no longer show them."""
    if not topics:
        return
    deadline = time.monotonic() + timeout_s
    admin.answers(
        lambda client, limit: client.delete_topics(topics, operation_timeout=limit, request_timeout=limit),
        "Deleting",
        timeout_s,
        fine=KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    while left := described(admin, topics, timeout_s):
        if time.monotonic() > deadline:
            raise KafkaUnavailableError(f"Deleted topics are still there after {timeout_s:g} s: {', '.join(left)}.")
        time.sleep(_PAUSE_S)


def configure(admin: Administrator, topics: list[str], config: Mapping[str, str], timeout_s: float) -> None:
    """Set some configuration keys of topics, and wait until the broker shows them; the others stay as they are."""
    if not topics:
        return
    deadline = time.monotonic() + timeout_s
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()]
    resources = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries) for topic in topics]
    admin.answers(
        lambda client, limit: client.incremental_alter_configs(resources, request_timeout=limit),
        "Configuring",
        timeout_s,
    )
    while behind := [
        topic for topic, shown in configs(admin, topics, timeout_s).items() if not config.items() <= shown.items()
    ]:
        if time.monotonic() > deadline:
            raise KafkaUnavailableError(
                f"A changed configuration is not shown after {timeout_s:g} s: {', '.join(behind)}."
            )
        time.sleep(_PAUSE_S)


def has_records(admin: Administrator, topic: TopicDescription, timeout_s: float) -> bool:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(topic.name, partition.id): latest for partition in topic.partitions}
    ends = admin.answers(
        lambda client, limit: client.list_offsets(asked, request_timeout=limit), "Asking the end of", timeout_s
    )
    return any(end.offset > 0 for end in ends.values())


def configs(admin: Administrator, topics: list[str], timeout_s: float) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    answers = admin.answers(
        lambda client, limit: client.describe_configs(resources, request_timeout=limit),
        "Reading the configuration of",
        timeout_s,
    )
    return {
        resource.name: {key: str(entry.value) for key, entry in entries.items()}
        for resource, entries in answers.items()
    }
