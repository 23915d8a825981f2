"""`metajournal repo`: create repositories, stage objects, commit, look at branches and logs.

A single command waits for the outcome of what it has sent. A table and its `--json` come from the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import click

from ...terminal.exits import FINE
from ...terminal.inputs import standard_input
from ...terminal.options import Options, json_option, options
from ...terminal.rendering import many, note, print_json, print_line, safe, shortened, table, time_text
from .command_parts import (
    SHORT,
    actor_option,
    as_at_option,
    asks_then,
    expected_head_option,
    note_if_not_final,
    repository_named,
    said_by,
    show_table,
    tell_outcomes,
)
from .garbage_commands import gc
from .git_commands import import_git
from .merge_commands import MERGING
from .read_commands import READING
from .tail_commands import tail

if TYPE_CHECKING:
    from .client import WithRepositories

_MEMBERS: Final = "branches and registered objects"
_MOST_NAMED: Final = 10
"""Paths that are named one by one."""
_ENTRY = '{"path": …, "size": …, "checksum": …, "address": …}'


@click.group()
def repo() -> None:
    """Keep git-like versions of objects: stage their metadata on branches, and commit it.

    A REF is a branch (main@ is its head without what is staged, main@2026-01-31T12:00Z what it was then), a commit's id
    or the beginning of one, each also followed by ~2 or ^1.

    \b
    metajournal repo create sales --storage s3://sales-lake
    metajournal repo write sales main objects.jsonl
    metajournal repo commit sales main --message "First load"
    metajournal repo ls sales main raw/
    metajournal repo diff sales main~1 main
    """


@repo.command()
@click.argument("name")
@click.option("--storage", metavar="URL", required=True, help="Where the objects' bytes lie, such as s3://bucket.")
@click.option(
    "--default-branch", metavar="BRANCH", default="main", show_default=True, help="Branch that it begins with."
)
@actor_option
@json_option
@options
def create(
    given: Options, /, name: str, storage: str, default_branch: str, actor: str | None, as_json: bool
) -> int:  # fmt: skip
    """Create a repository with its default branch."""
    from .events import RepositoryCreated

    with given.journal() as journal:
        event = RepositoryCreated(repository_named(journal, name).urn, default_branch, storage)
        return tell_outcomes([journal.emit(event, **said_by(actor))], as_json)


@repo.command()
@click.argument("name")
@actor_option
@json_option
@options
def delete(given: Options, /, name: str, actor: str | None, as_json: bool) -> int:
    """Delete a repository, with its branches and registered objects. Its commits stay."""
    with given.journal() as journal:
        return tell_outcomes([repository_named(journal, name).delete(**said_by(actor))], as_json)


@repo.command("list")
@as_at_option
@json_option
@options
def list_(given: Options, /, as_at: str | None, as_json: bool) -> int:
    """List the repositories."""
    from ...values import point
    from .values import repository_json, with_final

    at = None if as_at is None else point(as_at)
    asked = at is not None
    with given.journal() as journal:
        found = cast("WithRepositories", journal).repositories.list(as_at=at)
    shown = [with_final(repository_json(one), found.final, asked=asked) for one in found]
    note_if_not_final(found.final, asked=asked)  # with --json, too: there may be no repository to tell it
    if as_json:
        print_json(shown)
        return FINE
    columns = ["repository", "default branch", _MEMBERS, "storage"]
    rows = [(one["name"], one["default_branch"], f"{one['members']:,}", one["storage_namespace"]) for one in shown]
    return show_table(table(columns, rows, right=[_MEMBERS]) if rows else None, "no repositories")


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.option("--at", "ref", metavar="REF", help="Create it at this commit (default: without a commit).")
@click.option("--delete", "drops", is_flag=True, help="Delete the branch, and what is staged on it, instead.")
@expected_head_option
@actor_option
@json_option
@options
def branch(
    given: Options,
    /,
    repository: str,
    branch: str,
    ref: str | None,
    drops: bool,
    expected_head: str | None,
    actor: str | None,
    as_json: bool,
) -> int:
    """Create a branch, or delete one."""
    if drops and ref is not None:
        raise click.UsageError("Give either --at or --delete.")
    if expected_head is not None and not drops:
        raise click.UsageError("--expected-head belongs to --delete: a new branch has no head to expect.")
    with given.journal() as journal:
        repo = repository_named(journal, repository)
        if drops:
            sent = repo.branch(branch).drop(expected_head=expected_head, **said_by(actor))
        else:
            sent = repo.branch(branch).create(None if ref is None else repo.commit(ref).id, **said_by(actor))
        return tell_outcomes([sent], as_json)


@repo.command()
@click.argument("repository")
@click.option("--transactions", is_flag=True, help="Also list branches of transactions (_tx/…).")
@as_at_option
@json_option
@options
def branches(given: Options, /, repository: str, transactions: bool, as_at: str | None, as_json: bool) -> int:
    """List the branches of a repository, with their heads and what is staged on them."""
    from ...values import point
    from .values import branch_json, with_final

    at = None if as_at is None else point(as_at)
    asked = at is not None
    with given.journal() as journal:
        found = repository_named(journal, repository).branches(transactions=transactions, as_at=at)
    shown = [with_final(branch_json(one), found.final, asked=asked) for one in found]
    if as_json:
        print_json(shown)
        return FINE
    note_if_not_final(found.final, asked=asked)
    rows = [(one["name"], (one["head"] or "-")[:SHORT], _staged(one)) for one in shown]
    return show_table(table(["branch", "head", "staged"], rows) if rows else None, "no branches")


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.argument("file", metavar="FILE|-")
@actor_option
@json_option
@options
def write(given: Options, /, repository: str, branch: str, file: str, actor: str | None, as_json: bool) -> int:
    """Stage objects on a branch, from JSON lines of a file or of standard input (-).

    Each line is an object: {"path": …, "size": …, "checksum": …, "address": …}, and optionally "content_type",
    "metadata", "mtime"; "blocks" instead of "address". All lines are read and checked before the first one is sent.
    """
    from ...schemas.errors import Fault, InvalidEventError
    from .events import entry_faults
    from .pieces import size_faults

    entries = []
    lines: dict[str, int] = {}
    for number, entry in _entries(file):
        faults = entry_faults(f"line {number}", entry) or size_faults(f"line {number}", entry)
        if not faults and (earlier := lines.setdefault(entry.path, number)) != number:
            faults = [Fault(f"line {number}.path", f"is that of line {earlier}: give each path once")]
        if faults:
            raise InvalidEventError(faults)
        entries.append(entry)
    if not entries:
        note("There is no object in the input, so nothing was staged.")
    with given.journal() as journal:
        receipts = repository_named(journal, repository).branch(branch).write(entries, **said_by(actor))
        done = f"{many(len(entries), 'object')} staged on {branch}" if entries else None
        return tell_outcomes(receipts, as_json, done)


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.argument("paths", metavar="PATH...|-", nargs=-1, required=True)
@click.option(
    "--even-missing", is_flag=True, help="Send also the paths at which the branch has nothing, without looking them up."
)
@actor_option
@json_option
@options
def rm(
    given: Options,
    /,
    repository: str,
    branch: str,
    paths: tuple[str, ...],
    even_missing: bool,
    actor: str | None,
    as_json: bool,
) -> int:
    """Stage the deletion of paths; - reads them from standard input, one per line.

    Paths at which the branch has nothing are left out.
    """
    from .pieces import pieces_of_paths

    wanted = _paths(paths)
    with given.journal() as journal:
        of = repository_named(journal, repository).branch(branch)
        there = wanted if even_missing else [path for some in pieces_of_paths(wanted) for path in of.existing(some)]
        _note_left_out(branch, wanted, there)
        receipts = of.delete(there, only_existing=False, **said_by(actor))
        done = f"{many(len(there), 'deletion')} staged on {branch}" if there else None
        return tell_outcomes(receipts, as_json, done)


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.option("-m", "--message", metavar="TEXT", required=True, help="What was done.")
@click.option(
    "--metadata", "pairs", metavar="KEY=VALUE", multiple=True, help="Metadata of the commit; may be repeated."
)
@click.option("--allow-empty", is_flag=True, help="Commit even if nothing is staged.")
@expected_head_option
@actor_option
@json_option
@options
def commit(
    given: Options,
    /,
    repository: str,
    branch: str,
    message: str,
    pairs: tuple[str, ...],
    allow_empty: bool,
    expected_head: str | None,
    actor: str | None,
    as_json: bool,
) -> int:
    """Commit what is staged on a branch."""
    from ...terminal.parsing import pairs as read_pairs
    from .values import commit_json

    metadata = dict(read_pairs(pairs))
    with given.journal() as journal:
        made = repository_named(journal, repository).branch(branch).commit(
            message, metadata, expected_head=expected_head, allow_empty=allow_empty, **said_by(actor)
        )  # fmt: skip
    if as_json:
        print_json(commit_json(made))
    else:
        print_line(f"{branch} is at {made.id}")
    return FINE


@repo.command()
@click.argument("repository")
@click.argument("ref", required=False)
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, metavar="N",
              help="Maximum number of commits.")  # fmt: skip
@click.option("--before", type=int, metavar="N", help="Continue where an earlier answer ended.")
@as_at_option
@json_option
@options
def log(
    given: Options,
    /,
    repository: str,
    ref: str | None,
    limit: int,
    before: int | None,
    as_at: str | None,
    as_json: bool,
) -> int:
    """List the commits that a ref has in its history, the newest first.

    Without REF, those of the default branch.
    """
    from ...values import point
    from .values import log_json, with_final

    at = None if as_at is None else point(as_at)
    asked = asks_then(at, *([] if ref is None else [ref]))
    with given.journal() as journal:
        repo = repository_named(journal, repository)
        page = repo.log(ref or repo.info(as_at=at).default_branch, limit=limit, before=before, as_at=at)
    shown = with_final(log_json(page), page.final, asked=asked)
    if as_json:
        print_json(shown)
        return FINE
    note_if_not_final(page.final, asked=asked)
    rows = [
        (one["id"][:SHORT], time_text(one["event_time"]), one["actor"] or "-", shortened(_subject(one["message"]), 60))
        for one in shown["commits"]
    ]
    show_table(table(["commit", "time", "actor", "message"], rows) if rows else None, "no earlier commits")
    if page.before is not None:
        print_line(f"more: --before {page.before}", "dim")
    return FINE


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.option("--path", metavar="PATH", help="Drop only what is staged of this path.")
@click.option("--prefix", metavar="TEXT", help="Drop only what is staged of paths that begin with this text.")
@expected_head_option
@actor_option
@json_option
@options
def reset(
    given: Options,
    /,
    repository: str,
    branch: str,
    path: str | None,
    prefix: str | None,
    expected_head: str | None,
    actor: str | None,
    as_json: bool,
) -> int:
    """Drop what is staged on a branch: everything, one path, or all paths with a prefix.

    The branch stays at its commit; to move it to another one is `revert`.
    """
    with given.journal() as journal:
        of = repository_named(journal, repository).branch(branch)
        sent = of.reset(path=path, prefix=prefix, expected_head=expected_head, **said_by(actor))
        return tell_outcomes([sent], as_json)


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.argument("ref")
@expected_head_option
@actor_option
@json_option
@options
def revert(
    given: Options, /, repository: str, branch: str, ref: str, expected_head: str | None, actor: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Move a branch to another commit of the repository, which REF names.

    What the branch has committed since is no longer in its history, as after git's `reset --hard`; the commits stay,
    and another revert brings them back. It makes no commit that undoes another one.
    """
    with given.journal() as journal:
        of = repository_named(journal, repository)
        sent = of.branch(branch).revert(of.commit(ref).id, expected_head=expected_head, **said_by(actor))
        return tell_outcomes([sent], as_json)


@repo.command()
@click.argument("repository")
@click.argument("paths", metavar="PATH...|-", nargs=-1, required=True)
@actor_option
@json_option
@options
def register(given: Options, /, repository: str, paths: tuple[str, ...], actor: str | None, as_json: bool) -> int:
    """Make objects entities, which search finds and which take tags; - reads paths from standard input."""
    with given.journal() as journal:
        return tell_outcomes(repository_named(journal, repository).register(_paths(paths), **said_by(actor)), as_json)


@repo.command()
@click.argument("repository")
@click.argument("paths", metavar="PATH...|-", nargs=-1, required=True)
@actor_option
@json_option
@options
def unregister(given: Options, /, repository: str, paths: tuple[str, ...], actor: str | None, as_json: bool) -> int:
    """Make objects entities no longer; their tags go with them."""
    with given.journal() as journal:
        return tell_outcomes(repository_named(journal, repository).unregister(_paths(paths), **said_by(actor)), as_json)


def _paths(given: tuple[str, ...]) -> list[str]:
    """Paths as arguments or as lines of standard input, each once; all are checked before one is sent."""
    from ...schemas.errors import Fault, InvalidEventError
    from .urns import path_fault

    typed = given != ("-",)
    if typed and "-" in given:
        raise click.UsageError("Give paths, or - alone.")
    named = enumerate(given if typed else (line.rstrip("\n") for line in standard_input()), 1)
    paths: dict[str, None] = {}
    for number, path in named:
        if not path and not typed:
            continue
        if why := path_fault(path):
            raise InvalidEventError([Fault(f"path {number}" if typed else f"line {number}", why)])
        paths[path] = None
    if not paths:
        note("There is no path in the input, so nothing was sent.")
    return [*paths]


def _note_left_out(branch: str, wanted: Sequence[str], there: Sequence[str]) -> None:
    """Say at which paths a branch has nothing."""
    if wanted and not there:
        note(safe(f"{branch} has nothing there, so nothing was staged."))
        return
    known = {*there}
    left = [path for path in wanted if path not in known]
    for path in left[:_MOST_NAMED]:
        note(safe(f"{branch} has nothing at {path}: left out."))
    if len(left) > _MOST_NAMED:
        note(f"Left out, too: {many(len(left) - _MOST_NAMED, 'other path')}.")


def _entries(file: str) -> Iterator[tuple[int, Any]]:
    """The objects of JSON lines, with the number of each line."""
    from ...schemas.errors import InputError
    from ...values import json_lines
    from .events import as_entry

    if file == "-":
        yield from ((number, as_entry(value)) for number, value in json_lines(standard_input(), _ENTRY))
        return
    try:
        with open(file, encoding="utf-8") as lines:  # noqa: PTH123  (what click gives is text)
            yield from ((number, as_entry(value)) for number, value in json_lines(lines, _ENTRY))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"{file} cannot be read: {why}.", code="unreadable-file") from error


def _subject(message: str) -> str:
    """The first line of a commit's message."""
    return message.strip().partition("\n")[0]


def _staged(branch: dict[str, Any]) -> str:
    if not branch["dirty"]:
        return "-"
    return f"{many(branch['staged_rows'], 'path')} in {many(branch['staged_events'], 'event')}"


for _command in (*READING, *MERGING, import_git, gc, tail):
    repo.add_command(_command)
COMMANDS: tuple[click.Command, ...] = (repo,)
