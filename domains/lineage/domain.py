"""Lineage: facts about runs, which stand in the topic of their apps."""

from __future__ import annotations

from typing import Final

from ...schemas.domain import Actions, Domain

DOMAIN: Final = Domain(
    "lineage",
    __package__,
    event_types=(
        "lineage.AccessesRecorded.1",
        "lineage.RunStarted.1",
        "lineage.RunStopped.1",
        "lineage.ExternalWrite.1",
    ),
    imports=("catalog",),
    journal="catalog",
    actions=Actions("Lineage", ("Write",)),
    original=True,
)
