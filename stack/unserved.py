"""Why domains of this version are not served: what the stream found at its start, or that it has yet to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..producers.topics import Epochs, read_epochs
from ..schemas.errors import MetajournalError
from ..schemas.registry import joining
from ..schemas.settings import Settings
from .supervisor import read_told

_ASKED_S = 3.0
_START = "Start the stream of this version (`metajournal down && metajournal up`): the domain joins then, in one start."


def unserved_here(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Our own domains that the journal could serve and does not: name, why, and what mends it.

    None where there is nothing to join, or no journal answers.
    """
    try:
        epochs = read_epochs(settings, timeout_s=_ASKED_S) if joining() else Epochs({})
    except MetajournalError:
        return
    for domain in epochs.waiting if epochs else ():
        yield domain.name, *why_unserved(settings, domain.name)


def why_unserved(settings: Settings, name: str) -> tuple[str, str]:
    """Why a domain of our own has not joined the journal, as the stream says itself, and what to do."""
    home = settings.stack.home
    report = read_told(Path(home) / "stream.json") if home is not None else {}
    told = {domain["name"]: (domain["why"], domain["mend"]) for domain in report.get("unserved") or ()}
    return told.get(name, ("this journal was made by an earlier version, and the domain has yet to join it.", _START))
