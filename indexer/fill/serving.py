"""Which domains an indexer takes in: those of the journal's record, whose words stand in their packages.

Our own that have yet to join the journal do so when the stream starts, which may be after the indexer: it looks again.
"""

from __future__ import annotations

from typing import Final

from ...producers.answers import Administrator
from ...producers.recorded.served import require_packages
from ...producers.recorded.topic_admin import described
from ...producers.topics import read_epochs
from ...schemas.errors import KafkaUnavailableError
from ...schemas.registry import joining, served_domains
from ...schemas.settings import Settings
from .patience import Patience

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
        except KafkaUnavailableError as error:
            if patience is None:
                raise
            patience.wait(error.message.rstrip("."))
        else:
            require_packages(epochs.outside)
            return epochs.domains


def waits(domains: tuple[str, ...]) -> bool:
    """Whether a domain of our own has yet to join: then the stream of this version is about to have it do so."""
    return any(domain.name not in domains for domain in joining())


def _is_recorded(settings: Settings) -> bool:
    """Whether the epochs topic is there. Raises: KafkaUnavailableError."""
    topic = settings.journal.topics.epochs
    return topic in described(Administrator(settings).connect(_ANSWER_S), [topic], _ANSWER_S)
