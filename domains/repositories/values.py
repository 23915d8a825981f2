"""The JSON shapes of repositories: what commands and the gateway say of them, their branches and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .queries import BranchInfo, CommitInfo, LogPage, RepositoryInfo


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
