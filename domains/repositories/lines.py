"""Change records of repositories for people: what an event did, on one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...terminal.differences import listed
from ...terminal.following import LINE_WIDTH
from ...terminal.rendering import named, shortened

_ID: Final = 12
_PATHS_WIDTH: Final = 100


def changed(record: Mapping[str, Any]) -> tuple[str, str | None]:
    """What a change record says, and who made the change."""
    payload = record.get("event_payload")
    name = str(record.get("event_type"))
    what = _said(name, payload) if isinstance(payload, Mapping) else name
    return shortened(what, LINE_WIDTH), record.get("client_id")


def _said(name: str, payload: Mapping[str, Any]) -> str:
    match name:
        case "RepositoryCreated":
            return f"created with branch {payload.get('branch')}, objects in {payload.get('storage_namespace')}"
        case "RepositoryDeleted" | "BranchDeleted":
            return "deleted"
        case "BranchCreated":
            return f"created at {_commit(payload.get('head'))}"
        case "BranchReverted":
            return f"reverted to {_commit(payload.get('head'))}"
        case "ObjectsWritten":
            return f"staged {_objects(payload)}"
        case "ObjectsDeleted":
            return f"staged the deletion of {_objects(payload)}"
        case "Committed":
            return f"committed {_commit(payload.get('commit'))}: {payload.get('message')}"
        case "Merged":
            return f"merged {payload.get('source')} as {_commit(payload.get('commit'))}: {payload.get('message')}"
        case "BranchReset":
            return f"reset {_reset(payload)}"
        case "ObjectsRegistered":
            return f"registered {_paths(payload.get('paths'), 0)}"
        case "ObjectsUnregistered":
            return f"unregistered {_paths(payload.get('paths'), 0)}"
    return name


def _commit(commit: Any) -> str:
    return "no commit" if commit is None else str(commit)[:_ID]


def _objects(payload: Mapping[str, Any]) -> str:
    shown, omitted = payload.get("objects"), payload.get("omitted")
    paths = [one[0] for one in shown if isinstance(one, list) and one] if isinstance(shown, list) else []
    return _paths(paths, omitted if isinstance(omitted, int) else 0)


def _paths(paths: Any, omitted: int) -> str:
    """How many paths, and the first ones."""
    first = [named(path) for path in paths] if isinstance(paths, list) else []
    count = len(first) + omitted
    return f"{count:,} object{'' if count == 1 else 's'}: {listed(first, _PATHS_WIDTH)}"


def _reset(payload: Mapping[str, Any]) -> str:
    path, prefix = payload.get("path"), payload.get("prefix")
    if path is not None:
        return f"what is staged of {named(path)}"
    return "everything staged" if prefix is None else f"what is staged of paths that begin with {named(prefix)}"
