"""The demo's step over a git history: it becomes a repository, and git is asked whether it is the same.

Left to whom: how a history is imported is its domain's; here its result is held against git's own answers.
Invariant: a history that cannot be imported is refused before any service starts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..domains.repositories.answers import CommitInfo, ObjectInfo
from ..domains.repositories.git_history.known import GIT_ID, NOTHING
from ..domains.repositories.git_history.plan import names_of
from ..domains.repositories.git_history.reading import History
from ..domains.repositories.git_history.running import IMPORTING, GitImport, chosen, repository_name
from ..domains.repositories.git_history.survey import Survey
from ..domains.repositories.questions import check_repository
from ..schemas.errors import InputError, UnavailableError
from ..terminal.rendering import table
from .demo_services import DEADLINE_S
from .telling import Teller

if TYPE_CHECKING:
    from ..client import Journal
    from ..domains.repositories.client import Repository

_ACTOR: Final = "demo"
_STORAGE: Final = "git:"
_COMPARED: Final = 25
"""About so many commits are compared whole; the counts are those of all."""
_PACKAGE: Final = Path(__file__).parents[1]
_COMMITS: Final = "commits"
_PAGE: Final = 10_000


@dataclass(frozen=True, slots=True)
class GitInput:
    """A git history that the demo takes.

    Attributes:
        history: as git has it.
        branches: the one that is checked out, with its commit.
        name: of the repository.
        commits: how many it has.
    """

    history: History
    branches: Mapping[str, str]
    name: str
    commits: int

    @property
    def branch(self) -> str:
        """The branch's name in the repository."""
        (name,) = names_of([*self.branches]).values()
        return name

    @property
    def head(self) -> str:
        """Git's id of the commit that it is at."""
        (commit,) = self.branches.values()
        return commit


@contextmanager
def git_input(path: Path | None, teller: Teller) -> Iterator[GitInput | None]:
    """The history of a clone, looked at; without a path that of this project's clone, or None where it is none.

    Raises:
        InputError, UnavailableError: the named one cannot be imported, and why.
    """
    where = path or (_PACKAGE if (_PACKAGE / ".git").exists() else None)
    if where is None:
        teller.line("This is not a git clone, so no git history is imported (--git PATH names one).")
        yield None
        return
    with ExitStack() as opened:
        try:
            found: GitInput | None = _looked_at(opened.enter_context(History(where)), where)
        except (InputError, UnavailableError) as error:
            if path is not None:
                raise
            teller.line(f"No git history is imported: {error.message}")
            found = None
        yield found


def _looked_at(history: History, where: Path) -> GitInput:
    branches = chosen(history, [history.head() or "HEAD"])
    todo = Survey(history, branches).todo(NOTHING)
    return GitInput(history, branches, check_repository(repository_name(where) or "history"), todo.commits)


class GitSteps:
    """The steps over a git history; each adds to the report and to its checks.

    Args:
        given: the history.
    """

    def __init__(self, teller: Teller, journal: Journal, report: dict[str, Any], given: GitInput) -> None:
        self.teller = teller
        self.journal = journal
        self.report = report
        self.given = given

    def bring_in(self) -> None:
        """Import the branch that is checked out, commit by commit."""
        given = self.given
        self.teller.section("Version objects: the history of a git clone, as a repository")
        began = time.monotonic()
        with self.teller.bars((_COMMITS,), given.commits) as advance:

            def tell(what: str, count: int, _total: int) -> None:
                if what == IMPORTING:
                    advance(_COMMITS, count)

            done = GitImport(
                self.journal, given.history, given.name, given.branches, storage=_STORAGE, actor=_ACTOR,
                timeout_s=DEADLINE_S, tell=tell,
            ).run()  # fmt: skip
        took = round(time.monotonic() - began, 1)
        self.report["git"] = {"head": given.head, "seconds": took, "imported": done.json()}
        counts = done.counts
        resolved = f"{counts.resolved:,} of {counts.merges:,} merges otherwise, in {counts.resolved_paths:,} paths"
        self.teller.line(
            f"{given.name}, branch {given.branch}: {counts.events:,} events in {took} s. Git has {resolved}."
        )

    def compare(self) -> None:
        """The same commits in both, and the same answers at some of them."""
        repository = self.journal.repositories[self.given.name]
        (branch,) = repository.branches(timeout_s=DEADLINE_S)
        repository.tree(branch.name, timeout_s=DEADLINE_S)  # from then on every commit's content is known
        git, here = _InGit(self.given.history, self.given.head), _InRepository(repository, branch.name)
        counts = {**_all(git, here), **_some(git, here, self.given.head)}
        shown = {name: {"git": one, "repository": other} for name, (one, other) in counts.items()}
        self.report["git"]["counts"] = shown
        self.report["checks"]["git and the repository agree"] = all(one == other for one, other in counts.values())
        rows = [(name, f"{one:,}", f"{other:,}") for name, (one, other) in counts.items()]
        self.teller.show(table(["git history", "git", "repository"], rows, right=["git", "repository"]))


def tries(command: str, given: GitInput) -> list[tuple[str, str]]:
    """What to try while the services run on: a command and what it does."""
    return [
        (f"{command} repo log {given.name} {given.branch} --limit 5", "the newest commits of the git history"),
        (f"{command} repo ls {given.name} {given.branch} --delimiter /", "what is there"),
    ]


class _Side(Protocol):
    """Who answers about a history, asked by git's ids.

    Attributes:
        parents: of each commit.
    """

    parents: dict[str, tuple[str, ...]]

    def listing(self, commit: str) -> set[tuple[str, str, str]]:
        """Path, mode and blob of each file."""
        ...

    def differing(self, old: str, new: str) -> set[str]:
        """The paths in which two commits differ."""
        ...

    def bases(self, left: str, right: str) -> set[str]:
        """The merge bases of two commits."""
        ...


class _InGit:
    """What git says."""

    def __init__(self, history: History, head: str) -> None:
        self._history = history
        self.parents = {node.id: node.parents for node in history.graph([head])}

    def listing(self, commit: str) -> set[tuple[str, str, str]]:
        lines = self._history.git.answer("ls-tree", "-r", "-z", "--full-tree", commit).decode().split("\0")[:-1]
        described = (line.split("\t", 1) for line in lines)
        return {(path, *said.split(" ")[::2]) for said, path in described}  # type: ignore[misc]  # mode, type, blob

    def differing(self, old: str, new: str) -> set[str]:
        return {change.path for change in self._history.changes(new, old)}

    def bases(self, left: str, right: str) -> set[str]:
        return {*self._history.git.answer("merge-base", "--all", left, right, fine=(0, 1)).decode().split()}


class _InRepository:
    """What a repository says."""

    def __init__(self, repository: Repository, branch: str) -> None:
        self._repository = repository
        log = [*_log(repository, branch)]
        self._ids = {commit.metadata[GIT_ID]: commit.id for commit in log}
        self._git_ids = {ours: git_id for git_id, ours in self._ids.items()}
        self.parents = {commit.metadata[GIT_ID]: tuple(self._git_ids[one] for one in commit.parents) for commit in log}

    def listing(self, commit: str) -> set[tuple[str, str, str]]:
        found = self._repository.list_all(self._ids[commit])
        return {(one.path, one.metadata["mode"], one.checksum) for one in found if isinstance(one, ObjectInfo)}

    def differing(self, old: str, new: str) -> set[str]:
        return {one.path for one in self._repository.diff_all(self._ids[old], self._ids[new])}

    def bases(self, left: str, right: str) -> set[str]:
        return {self._git_ids[one] for one in self._repository.merge_bases(self._ids[left], self._ids[right])}


def _log(repository: Repository, branch: str) -> Iterator[CommitInfo]:
    """Every commit of a branch's history."""
    page = repository.log(branch, limit=_PAGE)
    yield from page.items
    while page.before is not None:
        page = repository.log(branch, limit=_PAGE, before=page.before)
        yield from page.items


def _all(git: _Side, here: _Side) -> dict[str, tuple[int, int]]:
    """Counts over all commits."""
    sides = git.parents, here.parents
    commits, merges = zip(*((len(one), sum(len(some) > 1 for some in one.values())) for one in sides), strict=True)
    same = sum(git.parents[commit] == here.parents.get(commit) for commit in git.parents)
    return {"commits": commits, "merges": merges, "commits with the same parents": (len(git.parents), same)}


def _some(git: _Side, here: _Side, head: str) -> dict[str, tuple[int, int]]:
    """At how many of some commits both say the same."""
    some = [*git.parents][:: len(git.parents) // _COMPARED + 1]
    same = {
        "listing": [git.listing(one) == here.listing(one) for one in some],
        "difference to the newest": [git.differing(one, head) == here.differing(one, head) for one in some],
        "merge bases of neighbours": [git.bases(*two) == here.bases(*two) for two in pairwise(some)],
    }
    paths = {"paths at the newest": (len(git.listing(head)), len(here.listing(head)))}
    return paths | {f"{len(held)} commits: same {name}": (len(held), sum(held)) for name, held in same.items()}
