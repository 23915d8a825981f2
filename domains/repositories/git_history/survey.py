"""What an import of a git history has to do, and what it cannot do: looked at before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ....schemas.errors import InputError
from ....schemas.wording import many
from ..rules import MAX_MEMBERS
from .known import KnownCommits, Present, known_of
from .objects import Leaf, Node
from .plan import (
    WORKING,
    BranchGone,
    BranchMade,
    CommitMade,
    MergeMade,
    Step,
    names_of,
    octopuses,
    plan,
    with_octopuses,
)
from .reading import History
from .telling import git_path_fault

_SHOWN: Final = 10
_NAMED: Final = 100
"""As many of them are named in an error's data."""
_AT_ONCE: Final = 1000
"""Contents that are looked for at once."""
_ELSEWHERE: Final = "elsewhere"
"""In place of git's id of a commit: one that stands for a commit of git's, and is not the one that counts."""


class Todo(NamedTuple):
    """What a repository lacks of a history.

    Attributes:
        known: the commits that it has.
        steps: what makes the others.
        dirty: branches on which a killed import has left something staged, with the digest of it.
    """

    known: KnownCommits
    steps: Sequence[Step]
    dirty: Mapping[str, str]

    @property
    def commits(self) -> int:
        """How many commits are missing."""
        return sum(isinstance(step, CommitMade | MergeMade) for step in self.steps)


class Survey:
    """A history, of which nothing is sent that a repository cannot take.

    Args:
        history: as git has it.
        branches: of git, with their commits; the default branch first.
        omits_paths: whether paths that no repository can have are left out; else they are refused.
        takes_other: whether the repository's commits may be those of another history; else that is refused.
        tell: told how many of the missing commits have been looked at, and of how many.
    Raises:
        InputError: the history has octopus merges. Nothing was sent.

    Attributes:
        graph: all commits of the history, each after its parents.
        names: our names of git's branches.
        tips: the commit of each, by our name.
        omitted: paths that no repository can have, and why.
    """

    def __init__(
        self,
        history: History,
        branches: Mapping[str, str],
        *,
        omits_paths: bool = False,
        takes_other: bool = False,
        tell: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.graph = [*history.graph(dict.fromkeys(branches.values()))]
        _check_octopuses(self.graph, history)
        self.names = names_of([*branches])
        self.tips = {self.names[name]: commit for name, commit in branches.items()}
        self.omitted: dict[str, str] = {}
        self._history = history
        self._omits_paths = omits_paths
        self._takes_other = takes_other
        self._tell = tell
        self._looked_at: set[str] = set()

    def todo(self, present: Present) -> Todo:
        """What a repository lacks, looked at path by path where that was not done before.

        Args:
            present: what it has.
        Raises:
            InputError: paths that cannot be, contents that git lacks, too many branches at once, a repository of
                another history, or a branch that is at a commit which did not come from git.
        """
        known = known_of(present, self.graph)
        if not known and not self._takes_other:
            _check_same(present, self._history)
        heads = _heads(present, known, self.tips)
        steps = [*plan(self.graph, self.tips, known, heads)]
        _check_number(steps, present.members)
        self._look_at([node for node in self.graph if node.id not in known and node.id not in self._looked_at])
        dirty = {name: one for name, one in present.branches.items() if name in heads and one.staged_events}
        return Todo(known, steps, {name: one.staging_digest for name, one in dirty.items()})

    def _look_at(self, missing: Sequence[Node]) -> None:
        """Raises: InputError: there are paths that no repository can have, or contents that git lacks."""
        contents: dict[Leaf, tuple[str, str]] = {}
        for number, node in enumerate(missing, 1):
            for change in self._history.changes(node.id, node.parents[0] if node.parents else None):
                if (why := git_path_fault(change.path)) is not None:
                    self.omitted.setdefault(change.path, f"{why} (commit {node.id[:12]})")
                elif change.new is not None:
                    contents[change.new] = change.path, node.id
                    if len(contents) == _AT_ONCE:
                        self._look_for(contents)
            self._looked_at.add(node.id)
            self._tell(number, len(missing))
        self._look_for(contents)
        if self.omitted and not self._omits_paths:
            raise _bad_paths(self.omitted)

    def _look_for(self, contents: dict[Leaf, tuple[str, str]]) -> None:
        """Ask git whether it has some contents, and forget them.

        Args:
            contents: each with a path and a commit that have it.
        Raises:
            InputError: git lacks one.
        """
        try:
            self._history.sizes([*contents])
        except InputError as error:
            places = {leaf.blob: place for leaf, place in contents.items()}
            if error.data.get("object") not in places:
                raise
            raise _lacking(error.data["object"], *places[error.data["object"]]) from error
        contents.clear()


def _check_same(present: Present, history: History) -> None:
    """Raises: InputError: a repository's commits came from git, and this history has none of them."""
    if present.commits and not history.has_any(commit.git_id for commit in present.commits):
        raise InputError(
            f"The repository was made from another history, that of {present.storage}: none of its "
            f"{len(present.commits):,} commits from git is in {history.git.path}. Nothing was sent.",
            code="other-history",
            hint="Import into a repository of another name: --repository NAME. To have this one's branches moved to "
            "the other history: --other-history.",
            storage_namespace=present.storage,
        )


def _lacking(blob: str, path: str, commit: str) -> InputError:
    return InputError(
        f"git does not have the object {blob}, the content of {path!a:.80} in commit {commit[:12]}. Nothing was sent.",
        code="git-failed",
        hint="The clone is damaged (git fsck): import from another clone.",
        object=blob,
    )


def _check_octopuses(graph: Sequence[Node], history: History) -> None:
    """Raises: InputError: a commit has more than two parents; it tells which of all of git's branches have one."""
    found = octopuses(graph)
    if found:
        having, others = _by_octopuses(history)
        have = "has" if len(found) == 1 else "have"
        raise InputError(
            f"{many(len(found), 'commit')} {have} more than two parents: {_listed([node.id[:12] for node in found])}. "
            f"Branches of git that contain one: {_listed(having)}. Nothing was sent.",
            code="octopus-merge",
            hint="A repository's merges have two parents: import branches that contain no such commit, by --branch. "
            f"There are: {_listed(others)}",
            commits=[node.id for node in found[:_NAMED]],
            branches=having[:_NAMED],
            importable=others[:_NAMED],
        )


def _by_octopuses(history: History) -> tuple[list[str], list[str]]:
    """The branches of git that contain a commit of more than two parents, and those that do not."""
    found = history.branches()
    tips = dict(zip(found, history.peeled([*found.values()]), strict=True))
    at_commits = {name: commit for name, commit in sorted(tips.items()) if commit is not None}
    tainted = with_octopuses([*history.graph(dict.fromkeys(at_commits.values()))])
    having = [name for name, commit in at_commits.items() if commit in tainted]
    return having, [name for name, commit in at_commits.items() if commit not in tainted]


def _listed(names: Sequence[str]) -> str:
    """The first of some names."""
    return (", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")) or "none"


def _heads(present: Present, known: KnownCommits, tips: Mapping[str, str]) -> dict[str, str | None]:
    """Where the branches are that an import may move, by git's ids.

    Raises: InputError: one of git's names is at a commit that no import has made.
    """
    git_ids = dict(zip(known.ids, known.git_ids, strict=True))
    made = {commit.id for commit in present.commits}
    heads: dict[str, str | None] = {}
    for name, branch in present.branches.items():
        if name not in tips and not name.startswith(WORKING):
            continue
        if branch.head is not None and branch.head not in made:
            raise InputError(
                f"The branch {name} is at {branch.head[:12]}, which did not come from git. Nothing was sent.",
                code="not-from-git",
                hint="Import into a repository of another name (--repository), or other branches (--branch); or set it "
                "back to a commit that an import has made: `metajournal repo log`, `metajournal repo revert`.",
                branch=name,
                head=branch.head,
            )
        heads[name] = None if branch.head is None else git_ids.get(branch.head, _ELSEWHERE)
    return heads


def _check_number(steps: Sequence[Step], members: int) -> None:
    """Raises: InputError: at some time there would be more members than a repository takes."""
    most = members
    for step in steps:
        members += isinstance(step, BranchMade) - isinstance(step, BranchGone)
        most = max(most, members)
    if most > MAX_MEMBERS:
        raise InputError(
            f"With these branches the repository would have {most:,} branches and registered objects at some time; the "
            f"limit is {MAX_MEMBERS:,}. Nothing was sent.",
            code="too-many",
            hint="Import fewer branches: --branch NAME.",
        )


def _bad_paths(bad: Mapping[str, str]) -> InputError:
    shown = "; ".join(f"{path!a:.80} {why}" for path, why in [*bad.items()][:_SHOWN])
    more = f"; and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
    return InputError(
        f"{many(len(bad), 'path')} cannot be in a repository: {shown}{more}. Nothing was sent.",
        code="bad-paths",
        hint="Leave them out: --omit-paths.",
        paths=[ascii(path) for path in [*bad][:_NAMED]],
    )
