"""Which entities a change record of a repository speaks of: those that its event names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...schemas.urn import Urn
from .urns import branch_urn, commit_urn, object_urn


def entities_of(subject: Urn, record: Mapping[str, Any]) -> tuple[Urn, ...]:
    """The entities of a record; the objects of a branch are its content, those that are registered are entities."""
    name, payload = subject.aggregate.name, record["event_payload"]
    found = [subject, subject.aggregate]
    found += [branch_urn(name, payload[key]) for key in ("branch", "source") if payload.get(key)]
    found += [commit_urn(name, payload["commit"])] if payload.get("commit") else []
    found += [object_urn(name, path) for path in payload.get("paths", ())]
    return tuple(dict.fromkeys(found))
