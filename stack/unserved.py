"""Why domains of this version are not served: what the stream found at its start, or that it has yet to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..producers.answers import Administrator
from ..producers.recorded.topic_admin import described
from ..producers.topics import check_topics
from ..schemas.errors import MetajournalError, TopicMismatchError
from ..schemas.registry import owner_of_undeclared
from ..schemas.settings import Settings
from .supervisor import read_told

_ASKED_S = 3.0
_START = "Start the stream of this version (`metajournal down && metajournal up`): the domain joins then, in one start."


def unserved_here(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Domains that the journal could serve and does not, or that are refused: name, why, and what mends it.

    None where no journal answers, or none has been made yet.
    """
    try:
        topic, admin = settings.journal.topics.epochs, Administrator(settings).connect(_ASKED_S)
        epochs = check_topics(settings, timeout_s=_ASKED_S) if topic in described(admin, [topic], _ASKED_S) else None
    except TopicMismatchError as error:
        yield owner_of_undeclared(), str(error), error.hint
        return
    except MetajournalError:
        return
    if epochs is not None:
        yield from ((name, str(error), error.hint) for name, error in epochs.refusals.items())
        yield from ((domain.name, *why_unserved(settings, domain.name)) for domain in epochs.waiting)


def why_unserved(settings: Settings, name: str) -> tuple[str, str]:
    """Why a domain of our own has not joined the journal, as the stream says itself, and what to do."""
    home = settings.stack.home
    report = read_told(Path(home) / "stream.json") if home is not None else {}
    told = {domain["name"]: (domain["why"], domain["mend"]) for domain in report.get("unserved") or ()}
    return told.get(name, ("this journal was made by an earlier version, and the domain has yet to join it.", _START))
