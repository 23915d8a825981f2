"""What to do about an event that the rules rejected, by the reason that they give: each domain says it of its own.

A reason that is not known here gets the step that fits all: the same event gets the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from .errors import RejectedError
from .registry import domains_in

STEPS: Final[Mapping[str, str]] = {
    "invalid": "Correct the field that the detail names, and send a new event.",
    "stale-entity": "Read the entity as it is now, and send the change again, held against that. (HTTP: its new ETag.)",
    "wrong-aggregate": "Send it with the key of its own entity, as the client does.",
}
"""The next step by the reasons of `rules.admission`, which every domain's events may get."""


def detail_in_words(detail: Any) -> str:
    """The detail of a rejection, as people read it: pairs, faults of fields, or a text."""
    if isinstance(detail, Mapping):
        return ", ".join(f"{key} {value}" for key, value in detail.items())
    if isinstance(detail, Iterable) and not isinstance(detail, str):
        return "; ".join(map(_fault_in_words, detail))
    return "" if detail is None else str(detail)


def _fault_in_words(fault: Any) -> str:
    if isinstance(fault, Mapping) and {"field", "message"} <= fault.keys():
        return f"{fault['field']}: {fault['message']}"
    return detail_in_words(fault)


def next_step(reason: str, topic: str) -> str:
    """What to do about a rejected event.

    Args:
        topic: the journal topic in which it stands.
    """
    name = topic.rpartition(".")[2]
    first = sorted(domains_in(name), key=lambda domain: domain.name != name)  # annotations stand in every topic
    found = [dict(domain.next_steps) for domain in first]
    return next((steps[reason] for steps in (STEPS, *found) if reason in steps), RejectedError.HINT)
