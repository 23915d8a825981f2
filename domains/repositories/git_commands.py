"""`metajournal repo import-git`: the history of a git repository, as a repository."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...terminal.exits import FINE, PROBLEM
from ...terminal.options import SECONDS, Options, json_option, options
from ...terminal.rendering import console, fields, note, print_json, print_line, safe
from .command_parts import repository_named

if TYPE_CHECKING:
    from .client import Repository
    from .git_history.running import Imported

_TELL_S: Final = 1.0


@click.command("import-git")
@click.argument("path", type=click.Path(path_type=Path), metavar="PATH")
@click.option("--repository", metavar="NAME", help="Name of the repository (default: that of the folder).")
@click.option("--branch", "branches", metavar="NAME", multiple=True, help="Only this branch of git; may be repeated.")
@click.option("--storage", metavar="URL", help="Where the objects' bytes lie (default: the git repository).")
@click.option("--omit-paths", is_flag=True, help="Leave out paths that a repository cannot have, instead of refusing.")
@click.option(
    "--other-history", "other", is_flag=True,
    help="Also into a repository whose commits came from another git history.",
)  # fmt: skip
@click.option("--dry-run", "dry", is_flag=True, help="Show what would be imported, and send nothing.")
@click.option("--actor", metavar="NAME", help="Who is making the change.")
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=120.0, show_default=True, metavar="SECONDS",
    help="How long to wait for a verdict, and for the lake, without progress.",
)  # fmt: skip
@json_option
@options
def import_git(
    given: Options, /, path: Path, repository: str | None, branches: tuple[str, ...], storage: str | None,
    omit_paths: bool, other: bool, dry: bool, actor: str | None, timeout_s: float, as_json: bool,
) -> int:  # fmt: skip
    """Import the history of a git repository: its local branches with all their commits.

    The checksum of an object is git's blob, its mode is metadata; a commit has git's id and author in its metadata, and
    the author's time. Run again, it goes on where it was, also after a kill, and brings in what is new. PATH is a
    complete clone: git itself reads it. Tags are not imported.

    \b
    metajournal repo import-git ~/src/metajournal --branch main
    metajournal repo log metajournal main
    """
    from .git_history.reading import History
    from .git_history.running import GitImport, chosen, repository_name
    from .questions import check_repository

    began = time.monotonic()
    name = check_repository(repository_name(path) if repository is None else repository)
    lines = _Lines(name, silent=as_json)
    with History(path) as history:
        wanted = chosen(history, branches)
        with given.journal() as journal:
            job = GitImport(
                journal, history, name, wanted, storage=storage or path.resolve().as_uri(),
                actor=actor, omits_paths=omit_paths, other_history=other, timeout_s=timeout_s, tell=lines.tell,
            )  # fmt: skip
            done = job.foresee() if dry else job.run()
            lines.end()
            heads = [] if dry else [one["commit"] for one in done.branches.values() if one["commit"] is not None]
            readable = _readable(repository_named(journal, name), heads, timeout_s, lines)
    return _told(done, round(time.monotonic() - began, 3), as_json, readable=readable)


def _readable(repo: Repository, heads: Sequence[str], timeout_s: float, lines: _Lines) -> bool:
    """Wait until what the branches contain can be read, as long as that comes nearer; whether it can."""
    from ...schemas.errors import NotYetVisibleError

    for head in heads:
        nearest, until = None, time.monotonic() + timeout_s
        while True:
            try:
                repo.tree(head, timeout_s=_TELL_S)
                break
            except NotYetVisibleError as error:
                lacking = sum(error.behind.values())
            if nearest is None or lacking < nearest:
                nearest, until = lacking, time.monotonic() + timeout_s
                lines.say(f"working out what the commits contain: {lacking:,} events to go")
            if time.monotonic() >= until:
                return False
    return True


def _told(done: Imported, seconds: float, as_json: bool, *, readable: bool) -> int:
    shown = {**done.json(), **({} if done.dry else {"readable": readable}), "seconds": seconds}
    if as_json:
        print_json(shown)
    else:
        console().print(fields(_summary(done, seconds)))
        for path, why in done.omitted.items():
            note(safe(f"left out: {path!a} {why}"))
        for branch in done.elsewhere:
            note(safe(f"{branch} was moved by something else meanwhile: run the import again."))
        if not readable:
            note("What the commits contain is still being worked out: until then ls, get and diff say so.")
    return PROBLEM if done.elsewhere else FINE


def _summary(done: Imported, seconds: float) -> dict[str, Any]:
    counts = done.counts
    renamed = {name: one["name"] for name, one in done.branches.items() if one["name"] != name}
    resolved = f", {counts.resolved:,} resolved in {counts.resolved_paths:,} paths" if counts.resolved else ""
    branches = {
        "repository": done.repository,
        "branches": f"{len(done.branches):,}" + "".join(f"; {name} as {ours}" for name, ours in renamed.items()),
    }
    if done.dry:
        return {**branches, "commits": f"{counts.commits:,} would be imported, {done.had:,} are there"}
    return {
        **branches,
        "commits": f"{counts.commits:,} imported, {done.had:,} were there",
        "merges": f"{counts.merges:,}{resolved}",
        "paths": f"{counts.written:,} written, {counts.deleted:,} deleted",
        "events": f"{counts.events:,} in {seconds:,.1f} s",
    }


class _Lines:
    """Progress on standard error: a line now and then, and one where a step ends."""

    def __init__(self, name: str, *, silent: bool) -> None:
        self._name = name
        self._out = None if silent else console(stderr=True)
        self._printed_s = 0.0
        self._latest: tuple[str, int, int] | None = None

    def tell(self, what: str, done: int, total: int) -> None:
        """How far it is."""
        if self._latest is not None and self._latest[0] != what:
            self.end()
        self._latest = (what, done, total)
        if time.monotonic() - self._printed_s >= _TELL_S:
            self.end()

    def say(self, what: str) -> None:
        """Print a line of its own."""
        if self._out is not None:
            print_line(safe(f"{self._name}: {what}"), out=self._out)

    def end(self) -> None:
        """Print how far it is, unless that was printed."""
        if self._latest is not None and self._out is not None:
            what, done, total = self._latest
            print_line(safe(f"{self._name}: {what}: {done:,} of {total:,} commits"), out=self._out)
        self._printed_s, self._latest = time.monotonic(), None
