"""What a repository has of a git history, by git's ids: the commits, their graph, and where its branches are. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ..merging.bases import NO_PARENT, Base, ParentColumns, base_of
from ..rows import NOTHING_STAGED
from .objects import Node

GIT_ID: Final = "git.id"
"""The key of a commit's metadata under which git's id stands."""


class PresentCommit(NamedTuple):
    """A commit of the repository that an import made.

    Attributes:
        id: ours.
        git_id: git's.
        parents: ours.
    """

    id: str
    git_id: str
    parents: Sequence[str]


class PresentBranch(NamedTuple):
    """A branch of the repository.

    Attributes:
        head: our id of the commit that it is at, or None.
        staged_events, staging_digest: of what is staged on it.
    """

    head: str | None
    staged_events: int
    staging_digest: str


class Present(NamedTuple):
    """A repository as an import finds it.

    Attributes:
        branches: by name.
        commits: those with an id of git's, by position.
        members: branches and registered objects.
        storage: its storage namespace.
    """

    branches: Mapping[str, PresentBranch]
    commits: Sequence[PresentCommit]
    members: int
    storage: str = ""


NOTHING: Final = Present({}, (), 0)


def created(default_branch: str) -> Present:
    """A repository that has just been created."""
    return Present({default_branch: PresentBranch(None, 0, NOTHING_STAGED)}, (), 1)


class KnownCommits:
    """Git's commits that the repository has, numbered in the order of their positions; it grows."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        """Ours, by number."""
        self.git_ids: list[str] = []
        self._numbers: dict[str, int] = {}
        self._first, self._second = array("q"), array("q")
        self._parents = ParentColumns(self._first, self._second)

    def __contains__(self, git_id: object) -> bool:
        return git_id in self._numbers

    def __len__(self) -> int:
        return len(self.ids)

    def id_of(self, git_id: str) -> str:
        """Our id of one of git's."""
        return self.ids[self._numbers[git_id]]

    def add(self, node: Node, made: str) -> None:
        """The commit of the greatest position, with its id of ours; its parents are known."""
        numbers = [self._numbers[parent] for parent in node.parents]
        self._first.append(numbers[0] if numbers else NO_PARENT)
        self._second.append(numbers[1] if len(numbers) > 1 else NO_PARENT)
        self._numbers[node.id] = len(self.ids)
        self.ids.append(made)
        self.git_ids.append(node.id)

    def base(self, destination: str, source: str) -> Base | None:
        """What two commits, by git's ids, are merged against, in these numbers."""
        return base_of(self._parents, self.ids, self._numbers[destination], self._numbers[source])


def known_of(present: Present, graph: Iterable[Node]) -> KnownCommits:
    """The commits of a history that a repository has, each with all that it descends from.

    Of several commits that stand for the same one the first counts; one whose parents are others is none of them.
    """
    nodes = {node.id: node for node in graph}
    known = KnownCommits()
    for commit in present.commits:
        node = nodes.get(commit.git_id)
        if node is None or node.id in known or not all(parent in known for parent in node.parents):
            continue
        if [known.id_of(parent) for parent in node.parents] == [*commit.parents]:
            known.add(node, commit.id)
    return known
