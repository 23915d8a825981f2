"""Having our own domains join a journal that an earlier version made: at one start of the stream, nobody asks for it.

As those from outside they join at a cut, between two batches (adding). One that cannot, since entities of one of its
kinds live in the catalog, stays out alone: its kinds stay what the journal's record says, whatever this version
declares, and everything else is served.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from ...lake.tables import Lake
from ...producers.topics import Epochs
from ...schemas.errors import DomainError, MetajournalError
from ...schemas.outside import OWN_PACKAGE
from ...schemas.settings import Settings
from .adding import added, marks_of

_log = logging.getLogger("metajournal.stream")
_LIVING: Final = "Delete them (EntityDeleted); their history stays."
_AGAIN: Final = "Then end the stream and start it again (`metajournal down && metajournal up`): the domain joins then."
Refusals = Mapping[str, DomainError]


def join_ours(settings: Settings, epochs: Epochs, lake: Lake) -> tuple[Epochs, Refusals]:
    """Have every domain of our own join that has not, while nothing is judged.

    Args:
        lake: where the stream goes on, no table of it ahead of the journal table (`is_between`).
    Returns:
        What is recorded now, and why some domains did not join, by name.
    Raises:
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: a topic of such a domain is there already and not as it must be.
    """
    refusals = {}
    for domain in epochs.waiting:
        try:
            epochs = added(settings, domain, OWN_PACKAGE, epochs, lake, marks_of(lake, epochs))
            _log.info("The domain %s has joined the journal.", domain.name)
        except DomainError as error:
            error.advise(f"{_LIVING if error.code == 'kind-in-use' else error.hint} {_AGAIN}")
            _log.warning("The domain %s is not served: %s %s", domain.name, error, error.hint)
            refusals[domain.name] = error
    return epochs, refusals


def is_between(lake: Lake, epochs: Epochs) -> bool:
    """Whether the lake stands between two batches: no table holds rows of one that is not done."""
    tables = [table for table in lake.histories if table.exists()]
    return not any(table.mark(key) > mark for key, mark in marks_of(lake, epochs).items() for table in tables)


def told(refusals: Mapping[str, MetajournalError]) -> list[dict[str, Any]]:
    """Why domains are not served, as `metajournal status` shows it."""
    return [
        {"name": name, "why": f"{error.code}: {error.message}", "mend": error.hint}
        for name, error in sorted(refusals.items())
    ]
