"""What to do about an event that the rules rejected, by the reason that they give.

A reason of a domain that is not known here gets the step that fits all: the same event gets the same verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ANY: Final = "Read the reason; the same event gets the same verdict unless the entity changes."
STEPS: Final[Mapping[str, str]] = {
    "dirty": "Commit or reset what is staged in the branch first.",
    "disabled": "Enable the principal first.",
    "exists": "Choose another name, or change what is there.",
    "invalid": "Correct the field that the detail names, and send a new event.",
    "nothing-staged": "Stage something first.",
    "nothing-to-merge": "The branch holds it already; nothing is to be done.",
    "protected": "It cannot be changed; choose another.",
    "retired": "Its name never returns; choose another one.",
    "stale-entity": "Read the entity as it is now, and send the change again, held against that. (HTTP: its new ETag.)",
    "stale-head": "Look at the branch as it is now, and send the change again.",
    "stale-staging": "Look at what is staged now, and send the change again.",
    "too-large": "Send less, or remove something first; the detail names the limit.",
    "too-many": "Remove something first; the detail names the limit.",
    "unknown-entity": "Register the entity first, then send a new event.",
    "wrong-aggregate": "Send it with the key of its own entity, as the client does.",
}
"""The next step by reason."""


def next_step(reason: str | None) -> str:
    """What to do about a rejected event."""
    return STEPS.get(reason or "", _ANY)
