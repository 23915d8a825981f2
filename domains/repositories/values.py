"""The JSON shapes of repositories: what commands and the gateway say of them, their branches and commits.

Whether an answer is final they say only where a point or a time was asked for: see `with_final`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from ...schemas.shapes import TEXT, WHOLE, Map, Named

if TYPE_CHECKING:
    from .answers import (
        BranchInfo,
        CommitInfo,
        DiffPage,
        ListPage,
        LogPage,
        ObjectInfo,
        RepositoryInfo,
        TreeInfo,
    )
    from .garbage import Block, GarbageCounts, LayerUse, OldTransaction, UnreachedCommit

REPOSITORY: Final = {
    "urn": str, "name": str, "default_branch": str, "storage_namespace": str, "created": int, "members": int,
}  # fmt: skip
BRANCH: Final = Named("Branch", {
    "urn": str, "name": str, "head": TEXT, "staged_events": int, "staged_rows": int, "staging_digest": str,
    "logical_timestamp": int, "dirty": bool,
})  # fmt: skip
OBJECT: Final = Named("Object", {
    "path": str, "size": int, "checksum": str, "address": TEXT,
    "blocks": [{"address": str, "size": int, "checksum": str}], "content_type": TEXT, "metadata": Map(str),
    "mtime": WHOLE, "content": str,
})  # fmt: skip
OBJECT_STATE: Final = Named("ObjectState", {"size": int, "content": str})
COMMIT: Final = Named("Commit", {
    "urn": str, "id": str, "branch": str, "parents": [str], "strategy": TEXT, "message": str, "metadata": Map(str),
    "actor": TEXT, "event_time": int, "logical_timestamp": int,
})  # fmt: skip
LOG: Final = {"commits": [COMMIT], "before": WHOLE, "final?": bool}
LISTED: Final = {
    "items": [({"type": str, **OBJECT}, {"type": str, "path": str})], "after": TEXT, "final?": bool,
}  # fmt: skip
DIFF: Final = {
    "items": [{"path": str, "change": str, "left": (None, OBJECT_STATE), "right": (None, OBJECT_STATE)}],
    "after": TEXT, "final?": bool,
}  # fmt: skip


class _Fields(Protocol):
    def _asdict(self) -> dict[str, Any]: ...


def with_final(shown: dict[str, Any], final: bool, *, asked: bool) -> dict[str, Any]:
    """An answer, with whether no event still to come can change it, where a point or a time was asked for."""
    return {**shown, "final": final} if asked else shown


def _fields(answer: _Fields) -> dict[str, Any]:
    return {name: value for name, value in answer._asdict().items() if name != "final"}


def repository_json(repository: RepositoryInfo) -> dict[str, Any]:
    """A repository."""
    return _fields(repository)


def branch_json(branch: BranchInfo) -> dict[str, Any]:
    """A branch."""
    return {**_fields(branch), "dirty": branch.staged_events > 0}


def commit_json(commit: CommitInfo) -> dict[str, Any]:
    """A commit."""
    return {**_fields(commit), "parents": [*commit.parents], "metadata": {**commit.metadata}}


def log_json(page: LogPage) -> dict[str, Any]:
    """Commits, and what asks for the next page."""
    return {"commits": [commit_json(commit) for commit in page.items], "before": page.before}


def object_json(one: ObjectInfo) -> dict[str, Any]:
    """An object."""
    return {
        **_fields(one),
        "blocks": [block._asdict() for block in one.blocks],
        "metadata": {**one.metadata},
    }


def list_json(page: ListPage) -> dict[str, Any]:
    """Objects and common prefixes, and what asks for the next page."""
    from .answers import ObjectInfo

    items = [
        {"type": "object", **object_json(one)} if isinstance(one, ObjectInfo) else {"type": "prefix", "path": one.path}
        for one in page.items
    ]
    return {"items": items, "after": page.after}


def diff_json(page: DiffPage) -> dict[str, Any]:
    """Paths that two refs do not have alike, and what asks for the next page."""
    items = [
        {
            "path": one.path,
            "change": one.change,
            "left": None if one.left is None else one.left._asdict(),
            "right": None if one.right is None else one.right._asdict(),
        }
        for one in page.items
    ]
    return {"items": items, "after": page.after}


def tree_json(tree: TreeInfo) -> dict[str, Any]:
    """What a commit contains, in sum."""
    return {**_fields(tree), "conflicting": [one._asdict() for one in tree.conflicting]}


def garbage_json(counts: GarbageCounts) -> dict[str, Any]:
    """How much of a repository no live branch needs."""
    return counts._asdict()


def garbage_item_json(item: Block | LayerUse | UnreachedCommit | OldTransaction) -> dict[str, Any]:
    """A block, layer, commit or transaction of a plan."""
    return item._asdict()
