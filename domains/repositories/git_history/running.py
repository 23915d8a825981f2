"""An import of a git history into a repository, from beginning to end; run again, it goes on where it was.

1. The history is looked at; what a repository cannot take is refused.
2. The repository is created. If it is there already, that event is refused, and once the lake has it, the lake also has
   all that an earlier import has sent.
3. What the repository lacks is sent, commit by commit; what an import that was killed left staged is dropped before.
4. The lake has it all, and the branches are where git has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ....lake.reading import LakeReader
from ....lake_client import ConnectedJournal
from ....schemas.errors import InputError
from ..events import RepositoryCreated
from ..rows import NOTHING_STAGED
from ..urns import repository_urn
from .importing import Counts, Importer
from .known import Present, PresentBranch
from .plan import MergeMade
from .present import PresentQueries
from .reading import History
from .sending import JournalSink
from .survey import Survey, Todo

Tell = Callable[[str, int, int], None]
"""Told what is being done, how much of it is, and of how much."""
CHECKING: Final = "checking"
IMPORTING: Final = "importing"


def chosen(history: History, names: Sequence[str] = ()) -> dict[str, str]:
    """The branches of git that are imported, with their commits; first the one that is checked out.

    Args:
        names: only these; all local ones where there is none.
    Raises:
        InputError: git has no such branch, or none at all.
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
    wanted = sorted(names or found, key=lambda name: (name != history.head(), name))
    if not wanted:
        raise InputError("The git repository has no commits.", code="no-commits", hint="Commit something first.")
    return {name: found[name] for name in wanted}


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
            history, branches, omits_paths=omits_paths, tell=lambda done, total: tell(CHECKING, done, total)
        )

    def foresee(self) -> Imported:
        """What there is to do, as far as the lake is; nothing is sent. Raises: InputError: as `Survey`."""
        todo = self._survey.todo(self._present())
        merges = sum(isinstance(step, MergeMade) for step in todo.steps)
        made = dict(zip(todo.known.git_ids, todo.known.ids, strict=True))
        counts = Counts(commits=todo.commits, merges=merges)
        branches = self._told(made)
        return Imported(self._repository, branches, len(todo.known), counts, self._survey.omitted, dry=True)

    def run(self) -> Imported:
        """Do it all.

        Raises:
            InputError: as `Survey`; nothing was sent, or nothing but the repository.
            RejectedError: something else changed the repository meanwhile.
            NotYetVisibleError, OutcomeUnknownError, KafkaUnavailableError: as `emit` and `Receipt.outcome`.
        """
        self.foresee()
        sink = JournalSink(self._journal, repository_urn(self._repository), self._actor, self._timeout_s)
        present = self._begin(sink)
        todo = self._survey.todo(present)
        had = len(todo.known)
        importer = Importer(self._history, self._repository, todo.known, present.branches, sink)
        for branch, staging_digest in todo.dirty.items():
            importer.reset(branch, staging_digest)
        self._take(importer, todo)
        sink.wait()
        known = importer.known
        branches = self._told(dict(zip(known.git_ids, known.ids, strict=True)))
        elsewhere = self._elsewhere(importer.heads)
        return Imported(self._repository, branches, had, importer.counts, self._survey.omitted, elsewhere)

    def _begin(self, sink: JournalSink) -> Present:
        """The repository is there; gives what it has."""
        default = next(iter(self._survey.tips))
        sink.send(RepositoryCreated(repository_urn(self._repository), default, self._storage))
        if not sink.is_refused():
            return Present({default: PresentBranch(None, 0, NOTHING_STAGED)}, ())
        sink.wait()
        return self._present()

    def _take(self, importer: Importer, todo: Todo) -> None:
        total = todo.commits
        for step in todo.steps:
            importer.take(step)
            self._tell(IMPORTING, importer.counts.commits, total)

    def _present(self) -> Present:
        tenant = self._journal.settings.journal.tenant
        return self._journal.opened("repositories.git", _opened).present(tenant, self._repository)

    def _told(self, made: Mapping[str, str]) -> dict[str, dict[str, str | None]]:
        """The branches, of our ids by git's."""
        return {
            name: {"name": self._survey.names[name], "git_id": commit, "commit": made.get(commit)}
            for name, commit in self._branches.items()
        }

    def _elsewhere(self, heads: Mapping[str, str]) -> list[str]:
        """The branches that the lake has elsewhere."""
        there = self._present().branches
        names = self._survey.names.values()
        return [name for name in names if name not in there or (there[name].head or "") != heads[name]]


def _opened(lake: LakeReader) -> PresentQueries:
    return lake.beside(PresentQueries)
