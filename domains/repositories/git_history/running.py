"""An import of a git history into a repository, from beginning to end; run again, it goes on where it was.

1. The lake is waited for until it has all that an earlier import has sent.
2. What the repository lacks is looked at; what it cannot take is refused before anything is sent.
3. What it lacks is sent, commit by commit; what an import that was killed left staged is dropped before.
4. The lake is waited for again; then the branches are where git has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ....lake.reading import LakeReader
from ....lake_client import ConnectedJournal
from ....schemas.errors import InputError, MetajournalError, RejectedError
from ....schemas.hashing import record_key
from ....schemas.urn import Urn
from ..events import RepositoryCreated
from ..reads import ends_of
from ..urns import repository_urn
from .importing import Counts, Importer
from .known import KnownCommits, Present, PresentBranch, created
from .plan import MergeMade
from .present import PresentQueries
from .reading import History
from .sending import JournalSink, wait_for_lake
from .survey import Survey, Todo
from .withdrawing import advice, not_withdrawn

Tell = Callable[[str, int, int], None]
"""Told what is being done, how much of it is, and of how much."""
CHECKING: Final = "checking"
IMPORTING: Final = "importing"
_AGAIN: Final = "Run it again: it goes on where it was."


def chosen(history: History, names: Sequence[str] = ()) -> dict[str, str]:
    """The branches of git that are imported, with their commits; first the one that is checked out.

    Args:
        names: only these; all local ones where there is none.
    Raises:
        InputError: git has no such branch, or none at all, or one that is not at a commit.
    """
    found = history.branches()
    unknown = [name for name in names if name not in found]
    if unknown:
        shown = ", ".join(sorted(found)[:10]) or "none"
        raise InputError(
            f"git has no branch {unknown[0]}.",
            code="unknown-branch",
            hint=f"Its branches are: {shown}",
            branch=unknown[0],
        )
    head = history.head() or "HEAD"
    wanted = sorted({*(names or found)}, key=lambda name: (name != head, name))
    if not wanted:
        raise InputError("The git repository has no commits.", code="no-commits", hint="Commit something first.")
    tips: dict[str, str] = {}
    for name, commit in zip(wanted, history.peeled([found[name] for name in wanted]), strict=True):
        if commit is None:
            raise _no_commit(name, found[name])
        tips[name] = commit
    return tips


def _no_commit(branch: str, found: str) -> InputError:
    return InputError(
        f"The branch {branch} of git is at {found[:12]}, and git has no commit there. Nothing was sent.",
        code="not-a-commit",
        hint="Set the branch to a commit, or import others: --branch NAME.",
        branch=branch,
    )


def repository_name(path: Path) -> str:
    """The name that a folder gives a repository; empty where it gives none."""
    return re.sub(r"[^a-z0-9._-]+", "-", path.resolve().name.removesuffix(".git").lower()).strip("-._")


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did, or would do.

    Attributes:
        repository: its name.
        branches: by git's names: `name` is ours, `git_id` git's commit, `commit` ours; None where it would be made.
        had: commits that were there before.
        counts: what was sent, or of commits and merges what would be.
        omitted: paths that were left out, and why.
        elsewhere: branches that something else has moved meanwhile.
    """

    repository: str
    branches: Mapping[str, Mapping[str, str | None]]
    had: int
    counts: Counts
    omitted: Mapping[str, str]
    elsewhere: Sequence[str] = ()
    dry: bool = False

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "ok": not self.elsewhere,
            "repository": self.repository,
            "dry_run": self.dry,
            "branches": {name: {**branch} for name, branch in self.branches.items()},
            "had_commits": self.had,
            **asdict(self.counts),
            "omitted": [{"path": ascii(path), "why": why} for path, why in self.omitted.items()],
            "elsewhere": [*self.elsewhere],
        }


class GitImport:
    """Imports a git history.

    Args:
        journal: where to.
        history: what.
        repository: name of the repository.
        branches: of git, as `chosen` gives them.
        storage: the repository's storage namespace, where it is created.
        actor: who imports; as of `emit`.
        omits_paths: whether paths that no repository can have are left out; else they are refused.
        other_history: whether the repository's commits may be those of another history; else that is refused.
        timeout_s: seconds to wait for a verdict, and for the lake.
        tell: told how far it is.
    """

    def __init__(
        self,
        journal: ConnectedJournal,
        history: History,
        repository: str,
        branches: Mapping[str, str],
        *,
        storage: str,
        actor: str | None = None,
        omits_paths: bool = False,
        other_history: bool = False,
        timeout_s: float = 120.0,
        tell: Tell = lambda what, done, total: None,
    ) -> None:
        self._journal = journal
        self._history = history
        self._repository = repository
        self._branches = branches
        self._storage = storage
        self._actor = actor
        self._timeout_s = timeout_s
        self._tell = tell
        self._survey = Survey(
            history, branches, omits_paths=omits_paths, takes_other=other_history,
            tell=lambda done, total: tell(CHECKING, done, total),
        )  # fmt: skip

    def foresee(self) -> Imported:
        """What there is to do; nothing is sent. Raises: InputError: as `Survey`."""
        todo = self._survey.todo(self._present())
        counts = Counts(commits=todo.commits, merges=sum(isinstance(step, MergeMade) for step in todo.steps))
        branches = self._told(todo.known)
        return Imported(self._repository, branches, len(todo.known), counts, self._survey.omitted, dry=True)

    def run(self) -> Imported:
        """Do it all.

        Who interrupts it gets a note with the exception: run again, it goes on where it was.

        Raises:
            InputError: as `Survey`; nothing was sent.
            RejectedError: something else changed the repository meanwhile; what was staged is dropped where that can
                be done, and the error says so.
            NotYetVisibleError, OutcomeUnknownError, KafkaUnavailableError: as `emit` and `Receipt.outcome`.
        """
        try:
            return self._run()
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(_AGAIN)
            raise

    def _run(self) -> Imported:
        present = self._present()
        todo = self._survey.todo(present)
        sink = JournalSink(self._journal, self._urn, self._actor, self._timeout_s)
        if not present.branches:
            present = self._create(sink)
            todo = self._survey.todo(present)
        had = len(todo.known)
        importer = Importer(self._history, self._repository, todo.known, present.branches, sink)
        try:
            self._send(importer, todo)
            sink.wait()
            importer.confirm()
        except RejectedError as error:
            self._withdraw(importer, error)
            raise
        elsewhere = self._elsewhere(importer.heads)
        branches = self._told(importer.known)
        return Imported(self._repository, branches, had, importer.counts, self._survey.omitted, elsewhere)

    def _send(self, importer: Importer, todo: Todo) -> None:
        for branch, staging_digest in todo.dirty.items():
            importer.reset(branch, staging_digest)
        for step in todo.steps:
            importer.take(step)
            self._tell(IMPORTING, importer.counts.commits, todo.commits)

    def _withdraw(self, importer: Importer, refused: RejectedError) -> None:
        """Drop what is left staged, and have the error say so."""
        try:
            self._journal.flush()
            done = importer.withdraw(self._present_branches())
        except MetajournalError as problem:
            refused.advise(not_withdrawn(self._repository, problem))
            return
        refused.data = {**refused.data, "dropped": [*done.dropped], "left": [*done.left]}
        refused.advise(advice(self._repository, refused, done))

    @property
    def _urn(self) -> Urn:
        return repository_urn(self._repository)

    def _create(self, sink: JournalSink) -> Present:
        default = next(iter(self._survey.tips))
        sink.confirm(sink.send(RepositoryCreated(self._urn, default, self._storage)))
        return created(default)

    def _present(self) -> Present:
        """What the repository has, with all that an earlier import has sent."""
        return self._queries().present(self._tenant, self._repository)

    def _present_branches(self) -> dict[str, PresentBranch]:
        """Where its branches are, with all that was sent."""
        return self._queries().present_branches(self._tenant, self._repository)

    def _queries(self) -> PresentQueries:
        """What reads the lake, once it has all that the journal has."""
        ends = ends_of(self._journal, record_key(self._tenant, str(self._urn)))
        wait_for_lake(self._journal, ends, self._timeout_s)
        return self._journal.opened("repositories.git", _opened)

    @property
    def _tenant(self) -> str:
        return self._journal.settings.journal.tenant

    def _told(self, known: KnownCommits) -> dict[str, dict[str, str | None]]:
        """The branches, with the ids that are known."""
        return {
            name: {
                "name": self._survey.names[name],
                "git_id": commit,
                "commit": known.id_of(commit) if commit in known else None,
            }
            for name, commit in self._branches.items()
        }

    def _elsewhere(self, heads: Mapping[str, str]) -> list[str]:
        """The branches that the lake has elsewhere."""
        there = self._present_branches()
        names = self._survey.names.values()
        return [name for name in names if name not in there or (there[name].head or "") != heads[name]]


def _opened(lake: LakeReader) -> PresentQueries:
    return lake.beside(PresentQueries)
