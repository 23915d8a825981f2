"""Which domains an indexer takes in: those of the journal's record, whose words stand in their packages.

Our own that have yet to join the journal do so when the stream starts, which may be after the indexer: it looks again.
"""

from __future__ import annotations

import logging
from typing import Final

from ...producers.answers import Administrator
from ...producers.recorded.epochs import epoch_differences
from ...producers.recorded.served import require_packages
from ...producers.recorded.topic_admin import described
from ...producers.topics import Epochs, read_epochs
from ...schemas.errors import KafkaUnavailableError
from ...schemas.registry import joining, owner_of_undeclared, served_domains
from ...schemas.settings import Settings
from .patience import Patience

_log = logging.getLogger("metajournal.indexer")
_ANSWER_S: Final = 5.0


def domains_of(settings: Settings, patience: Patience | None = None) -> tuple[str, ...]:
    """Names of the domains that the journal serves.

    Args:
        settings: how to reach Kafka.
        patience: waits while it is away.
    Raises:
        KafkaUnavailableError: it does not answer, and nobody waits.
        DomainError: the package of a served domain is not installed here: its entities would not be found by its words.
    """
    while True:
        try:
            if not _is_recorded(settings):
                return served_domains()  # nothing was ever recorded: who reads our own topics waits for them
            epochs = read_epochs(settings)
            require_packages(epochs.outside)
            return _whole(settings, epochs)
        except KafkaUnavailableError as error:
            if patience is None:
                raise
            patience.wait(error.message.rstrip("."))


def waits(domains: tuple[str, ...]) -> bool:
    """Whether a domain of our own has yet to join: then the stream of this version is about to have it do so."""
    return any(domain.name not in domains for domain in joining())


def _whole(settings: Settings, epochs: Epochs) -> tuple[str, ...]:
    """The served domains without those that are refused alone: whoever waited for their topics would index nothing."""
    names, owner = settings.journal.topics, owner_of_undeclared()
    read = {name: (names.journal(name), names.state(name), names.outcomes(name)) for name in epochs.domains}
    admin = Administrator(settings).connect(_ANSWER_S)
    there = described(admin, [topic for topics in read.values() for topic in topics], _ANSWER_S)
    lost = {}
    for name, (journal, *others) in read.items():
        differences = epoch_differences(epochs, journal, there)
        differences += [f"{topic} is missing" for topic in others if topic not in there]
        if differences and name != owner:
            lost[name] = differences
    for name, differences in lost.items():
        _log.info("The domain %s is not indexed: %s.", name, "; ".join(differences))  # the stream warns of it
    return tuple(name for name in epochs.domains if name not in lost)


def _is_recorded(settings: Settings) -> bool:
    """Whether the epochs topic is there. Raises: KafkaUnavailableError."""
    topic = settings.journal.topics.epochs
    return topic in described(Administrator(settings).connect(_ANSWER_S), [topic], _ANSWER_S)
