"""What is there held against what is recorded, and what the journal needs: differences as texts, and their errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...schemas.errors import TopicMismatchError
from .topic_admin import Wanted

_MEANS: Final = "continuing could break the order of an aggregate or lose what is already written"


def config_differences(wanted: Wanted, partitions: int, config: Mapping[str, Any]) -> list[str]:
    """What differs between a topic and what it must be."""
    differences = []
    if partitions != wanted.partitions:
        differences.append(f"{wanted.topic} has {partitions} partitions, needed are {wanted.partitions}")
    for key in wanted.checked:
        has, needs = config[key], wanted.config[key]
        fine = int(has) >= int(needs) if key == "max.message.bytes" else has == needs
        if not fine:
            least = "at least " if key == "max.message.bytes" else ""
            differences.append(f"{wanted.topic} has {key}={has}, needed is {least}{needs}")
    return differences


def missing(topics: Iterable[str]) -> TopicMismatchError:
    """The error of who finds no installation, or only a part of it."""
    names = list(topics)
    return TopicMismatchError(
        f"Topics are missing: {', '.join(names)}.",
        hint="Create them: `metajournal up` on one machine, or Journal.connect(create_topics=True) once.",
        differences=tuple(f"{topic} is missing" for topic in names),
    )


def mismatch(differences: Sequence[str]) -> TopicMismatchError:
    """The error of who finds topics that are not the recorded ones, or not as they must be."""
    return TopicMismatchError(
        f"{'; '.join(differences)}: {_MEANS}.",
        hint="Check that journal.prefix and kafka.bootstrap.servers are right. Correct a wrong topic configuration "
        "with kafka-configs. If a topic was lost or recreated, `metajournal restore topics` restores it from the lake; "
        "if it has another number of partitions, use another prefix.",
        differences=tuple(differences),
    )


def refusal(domain: str, differences: Sequence[str]) -> TopicMismatchError:
    """The error of who asks for a domain that is refused alone."""
    return TopicMismatchError(
        f"The domain {domain} is refused, everything else is served. {'; '.join(differences)}: {_MEANS}.",
        hint=f"What the lake contains of {domain} is kept. Correct a wrong topic configuration with kafka-configs; a "
        "missing change, state or outcome topic is created by the next start of the stream. If a journal topic is "
        "missing, was recreated or has another number of partitions, reading cannot continue: "
        "restore it from the lake (`metajournal restore topics`). Then start stream, indexer and clients again.",
        differences=tuple(differences),
        domain=domain,
    )
