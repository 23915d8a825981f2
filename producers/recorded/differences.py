"""What is there held against what is recorded, and what the journal needs: differences as texts, and their errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...schemas.errors import TopicMismatchError
from .topic_admin import Wanted

_MEANS: Final = "going on could break the order of an aggregate or lose what is already written"


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
        hint="Look whether journal.prefix and kafka.bootstrap.servers are the right ones. A wrong configuration is"
        " mended with kafka-configs; a topic that was made anew, or has other partitions, needs another prefix.",
        differences=tuple(differences),
    )


def refusal(domain: str, differences: Sequence[str]) -> TopicMismatchError:
    """The error of who asks for a domain that is refused alone."""
    return TopicMismatchError(
        f"The domain {domain} is refused, everything else is served. {'; '.join(differences)}: {_MEANS}.",
        hint=f"What the lake holds of {domain} stays. A wrong configuration is mended with kafka-configs; a change, "
        "state or outcome topic that is missing is made by the next start of the stream. A journal topic that is "
        "missing, was made anew or has other partitions cannot be read on: bring the recorded one back, or begin a "
        "journal under another prefix. Then start stream, indexer and clients again.",
        differences=tuple(differences),
        domain=domain,
    )
