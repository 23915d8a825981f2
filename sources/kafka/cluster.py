"""Reads a Kafka cluster: its topics with partitions, replication and the settings that differ from the broker's.

Internal topics are left out. Invariant: what the client's settings hide is in no error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ConfigSource

from ...producers.kafka import NOT_ALLOWED, ErrorLog, asked_again, make_admin
from ...schemas.masking import scrubbed
from ...schemas.settings import Settings
from ..found import Problem
from ..source import SourceError, SourceUnavailableError

BATCH: Final = 200
"""Number of topics described by one request."""
INTERNAL: Final = re.compile(r"__.*|_schemas|_confluent.*")
"""Names of topics in which Kafka and its companions keep their own state, besides those that the broker calls so."""
_FIRST_ANSWER_S: Final = 10.0
_TIMEOUT_S: Final = 20.0
_OWN: Final = "DYNAMIC_TOPIC_CONFIG"


class Topic(NamedTuple):
    """A topic.

    Attributes:
        replication: least number of replicas of a partition.
        settings: those that were set for it, without sensitive ones.
    """

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]


class Cluster:
    """A connection to a cluster.

    Args:
        shown: what it is called in errors.
        config: librdkafka's settings, `bootstrap.servers` among them.
    Raises:
        ConfigError: the client refuses a setting.
    """

    def __init__(self, shown: str, config: Mapping[str, str]) -> None:
        self._shown = shown
        self._errors = ErrorLog()
        self._admin: AdminClient = make_admin(Settings(kafka=dict(config)), self._errors)

    def names(self) -> list[str]:
        """The topics that this user may see, without internal ones, sorted.

        Raises:
            SourceError: the cluster refuses this user, or shows no topic at all.
            SourceUnavailableError: no broker answers.
        """
        try:
            listed = self._asked(partial(self._admin.list_topics, timeout=_FIRST_ANSWER_S / 2))
        except KafkaException as error:
            self._fail(error)
        names = sorted(name for name in listed.topics if not INTERNAL.fullmatch(name))
        if not names:
            raise SourceError(
                f"{self._shown} shows no topic; nothing was changed.",
                code="no-such-topic",
                hint="Check that this user may describe topics, and that this is the right cluster.",
            )
        return names

    def topics(self, names: Sequence[str]) -> Iterator[Topic | Problem | None]:
        """These topics, in this order; None for one that the broker calls internal, or that is gone by now.

        Raises:
            SourceError, SourceUnavailableError: as `names`.
        """
        for start in range(0, len(names), BATCH):
            yield from self._described(names[start : start + BATCH])

    def _described(self, names: Sequence[str]) -> Iterator[Topic | Problem | None]:
        described = self._admin.describe_topics(TopicCollection([*names]), request_timeout=_TIMEOUT_S)
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        configured = self._admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
        for name, resource in zip(names, resources, strict=True):
            try:
                about = described[name].result()
                if about.is_internal:
                    yield None
                    continue
                settings = _set(configured[resource].result().values())
            except KafkaException as error:
                if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
                    yield None
                elif error.args[0].code() in NOT_ALLOWED:
                    yield Problem(name, error.args[0].str())
                else:
                    self._fail(error)
                continue
            replicas = [len(partition.replicas) for partition in about.partitions]
            yield Topic(name, len(replicas), min(replicas, default=0), settings)

    def _asked(self, ask: Any) -> Any:
        deadline = time.monotonic() + _FIRST_ANSWER_S
        return asked_again(self._admin, ask, deadline, stopping=lambda: self._errors.hopeless is not None)

    def _fail(self, error: KafkaException) -> NoReturn:
        """Raises: SourceError, SourceUnavailableError: what the client says, without secrets."""
        self._admin.poll(0)
        hopeless = self._errors.hopeless
        noted = hopeless or self._errors.latest
        text = scrubbed(error.args[0].str() if noted is None else noted.text, self._errors.hidden)
        if hopeless is not None or error.args[0].code() in NOT_ALLOWED:
            raise SourceError(
                f"{self._shown} refuses this user: {text}",
                code="not-authenticated",
                hint="Check the client's security settings (--setting KEY=VALUE); nothing was changed.",
            ) from None
        raise SourceUnavailableError(f"{self._shown} does not answer: {text}") from None


def own_topics(names: Collection[str]) -> set[str]:
    """The topics of metajournal installations: those of each prefix with `.epochs`, `.schemas` and journal topics."""
    known = set(names)
    prefixes = [
        prefix
        for prefix in (name.removesuffix(".epochs") for name in names if name.endswith(".epochs"))
        if f"{prefix}.schemas" in known and any(name.startswith(f"{prefix}.journal.") for name in names)
    ]
    own = {f"{prefix}.{word}" for prefix in prefixes for word in ("epochs", "schemas", "dlq", "audit")}
    begins = tuple(f"{prefix}.{word}." for prefix in prefixes for word in ("journal", "changes", "state", "outcomes"))
    return own | {name for name in names if begins and name.startswith(begins)}


def _set(entries: Collection[ConfigEntry]) -> dict[str, str]:
    """The settings that were set for a topic itself."""
    return {
        entry.name: str(entry.value)
        for entry in entries
        if ConfigSource(entry.source).name == _OWN and not entry.is_sensitive and entry.value is not None
    }
