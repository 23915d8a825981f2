"""Which domains an indexer takes in: those of the journal's record, whose words stand in their packages."""

from __future__ import annotations

from ...producers.recorded.served import require_packages
from ...producers.topics import read_epochs
from ...schemas.errors import KafkaUnavailableError
from ...schemas.settings import Settings
from .patience import Patience


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
            epochs = read_epochs(settings)
        except KafkaUnavailableError as error:
            if patience is None:
                raise
            patience.wait(error.message.rstrip("."))
        else:
            require_packages(epochs.outside)
            return epochs.domains
