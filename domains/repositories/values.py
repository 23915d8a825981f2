"""The JSON shapes of repositories: what commands and the gateway say of them, their branches and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def repository_json(repository: RepositoryInfo) -> dict[str, Any]:
    """A repository."""
    return repository._asdict()


def branch_json(branch: BranchInfo) -> dict[str, Any]:
    """A branch."""
    return {**branch._asdict(), "dirty": branch.staged_events > 0}


def commit_json(commit: CommitInfo) -> dict[str, Any]:
    """A commit."""
    return {**commit._asdict(), "parents": [*commit.parents], "metadata": {**commit.metadata}}


def log_json(page: LogPage) -> dict[str, Any]:
    """Commits, and what asks for the next page."""
    return {"commits": [commit_json(commit) for commit in page.items], "before": page.before}


def object_json(one: ObjectInfo) -> dict[str, Any]:
    """An object."""
    return {
        **one._asdict(),
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
    return {**tree._asdict(), "conflicting": [one._asdict() for one in tree.conflicting]}


def garbage_json(counts: GarbageCounts) -> dict[str, Any]:
    """How much of a repository no live branch needs."""
    return counts._asdict()


def garbage_item_json(item: Block | LayerUse | UnreachedCommit | OldTransaction) -> dict[str, Any]:
    """A block, layer, commit or transaction of a plan."""
    return item._asdict()
