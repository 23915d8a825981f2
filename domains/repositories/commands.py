"""`metajournal repo`: create repositories, stage objects, commit, look at branches and logs.

A single command waits for the outcome of what it has sent. A table and its `--json` come from the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import click

from ...terminal.exits import FINE, PROBLEM
from ...terminal.inputs import standard_input
from ...terminal.options import Options, json_option, options
from ...terminal.rendering import console, note, print_json, print_line, shortened, table, time_text, verdict

if TYPE_CHECKING:
    from rich.text import Text

    from ...lake_client import ConnectedJournal
    from ...producers.receipts import Receipt
    from ...terminal.listing import Listing
    from .client import Repository, WithRepositories

_SHORT = 12
_ENTRY = '{"path": …, "size": …, "checksum": …, "address": …}'
_actor = click.option("--actor", metavar="NAME", help="Who is making the change.")
_as_at = click.option(
    "--as-at", metavar="POSITIONS|TIME", help="What the journal had recorded by then (system time), instead of now."
)
_expected_head = click.option(
    "--expected-head", metavar="ID", help="Apply only if the branch is at this commit; '' if it must have none."
)


@click.group()
def repo() -> None:
    """Keep git-like versions of objects: stage their metadata on branches, and commit it.

    A REF is a branch, a commit's id or the beginning of one, each also followed by ~2 or ^1.

    \b
    metajournal repo create sales --storage s3://sales-lake
    metajournal repo write sales main objects.jsonl
    metajournal repo commit sales main --message "First load"
    metajournal repo log sales main
    """


@repo.command()
@click.argument("name")
@click.option("--storage", metavar="URL", required=True, help="Where the objects' bytes lie, such as s3://bucket.")
@click.option(
    "--default-branch", metavar="BRANCH", default="main", show_default=True, help="Branch that it begins with."
)
@_actor
@json_option
@options
def create(
    given: Options, /, name: str, storage: str, default_branch: str, actor: str | None, as_json: bool
) -> int:  # fmt: skip
    """Create a repository with its default branch."""
    from .events import RepositoryCreated

    with given.journal() as journal:
        event = RepositoryCreated(_repository(journal, name).urn, default_branch, storage)
        return _told([journal.emit(event, **_said(actor))], as_json)


@repo.command()
@click.argument("name")
@_actor
@json_option
@options
def delete(given: Options, /, name: str, actor: str | None, as_json: bool) -> int:
    """Delete a repository, with its branches and registered objects. Its commits stay."""
    with given.journal() as journal:
        return _told([_repository(journal, name).delete(**_said(actor))], as_json)


@repo.command("list")
@_as_at
@json_option
@options
def list_(given: Options, /, as_at: str | None, as_json: bool) -> int:
    """List the repositories."""
    from ...values import point
    from .values import repository_json

    at = point(as_at) if as_at else None
    with given.journal() as journal:
        shown = [repository_json(one) for one in cast("WithRepositories", journal).repositories.list(as_at=at)]
    if as_json:
        print_json(shown)
        return FINE
    columns = ["repository", "default branch", "members", "storage"]
    rows = [(one["name"], one["default_branch"], f"{one['members']:,}", one["storage_namespace"]) for one in shown]
    return _shown(table(columns, rows, right=["members"]) if rows else None, "no repositories")


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.option("--at", "ref", metavar="REF", help="Create it at this commit (default: without a commit).")
@click.option("--delete", "drops", is_flag=True, help="Delete the branch, and what is staged on it, instead.")
@_expected_head
@_actor
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
        repo = _repository(journal, repository)
        if drops:
            sent = repo.branch(branch).drop(expected_head=expected_head, **_said(actor))
        else:
            sent = repo.branch(branch).create(None if ref is None else repo.commit(ref).id, **_said(actor))
        return _told([sent], as_json)


@repo.command()
@click.argument("repository")
@click.option("--transactions", is_flag=True, help="Also list branches of transactions (_tx/…).")
@_as_at
@json_option
@options
def branches(given: Options, /, repository: str, transactions: bool, as_at: str | None, as_json: bool) -> int:
    """List the branches of a repository, with their heads and what is staged on them."""
    from ...values import point
    from .values import branch_json

    at = point(as_at) if as_at else None
    with given.journal() as journal:
        found = _repository(journal, repository).branches(transactions=transactions, as_at=at)
    shown = [branch_json(one) for one in found]
    if as_json:
        print_json(shown)
        return FINE
    rows = [(one["name"], (one["head"] or "-")[:_SHORT], _staged(one)) for one in shown]
    return _shown(table(["branch", "head", "staged"], rows) if rows else None, "no branches")


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.argument("file", metavar="FILE|-")
@_actor
@json_option
@options
def write(given: Options, /, repository: str, branch: str, file: str, actor: str | None, as_json: bool) -> int:
    """Stage objects on a branch, from JSON lines of a file or of standard input (-).

    Each line is an object: {"path": …, "size": …, "checksum": …, "address": …}, and optionally "content_type",
    "metadata", "mtime"; "blocks" instead of "address". All lines are read and checked before the first one is sent.
    """
    from ...schemas.errors import InvalidEventError
    from .events import entry_faults

    entries = []
    for number, entry in _entries(file):
        if faults := entry_faults(f"line {number}", entry):
            raise InvalidEventError(faults)
        entries.append(entry)
    if not entries:
        note("There is no object in the input, so nothing was staged.")
    with given.journal() as journal:
        return _told(_repository(journal, repository).branch(branch).write(entries, **_said(actor)), as_json)


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.argument("paths", metavar="PATH...|-", nargs=-1, required=True)
@_actor
@json_option
@options
def rm(
    given: Options, /, repository: str, branch: str, paths: tuple[str, ...], actor: str | None, as_json: bool
) -> int:  # fmt: skip
    """Stage the deletion of paths; - reads them from standard input, one per line."""
    with given.journal() as journal:
        return _told(_repository(journal, repository).branch(branch).delete(_paths(paths), **_said(actor)), as_json)


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.option("-m", "--message", metavar="TEXT", required=True, help="What was done.")
@click.option(
    "--metadata", "pairs", metavar="KEY=VALUE", multiple=True, help="Metadata of the commit; may be repeated."
)
@click.option("--allow-empty", is_flag=True, help="Commit even if nothing is staged.")
@_expected_head
@_actor
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
        made = _repository(journal, repository).branch(branch).commit(
            message, metadata, expected_head=expected_head, allow_empty=allow_empty, **_said(actor)
        )  # fmt: skip
    if as_json:
        print_json(commit_json(made))
    else:
        print_line(f"{branch} is at {made.id}")
    return FINE


@repo.command()
@click.argument("repository")
@click.argument("ref")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, metavar="N",
              help="Maximum number of commits.")  # fmt: skip
@click.option("--before", type=int, metavar="N", help="Continue where an earlier answer ended.")
@_as_at
@json_option
@options
def log(
    given: Options, /, repository: str, ref: str, limit: int, before: int | None, as_at: str | None, as_json: bool
) -> int:  # fmt: skip
    """List the commits that a ref has in its history, the newest first."""
    from ...values import point
    from .values import log_json

    at = point(as_at) if as_at else None
    with given.journal() as journal:
        page = _repository(journal, repository).log(ref, limit=limit, before=before, as_at=at)
    shown = log_json(page)
    if as_json:
        print_json(shown)
        return FINE
    rows = [
        (one["id"][:_SHORT], time_text(one["event_time"]), one["actor"] or "-", shortened(one["message"], 60))
        for one in shown["commits"]
    ]
    _shown(table(["commit", "time", "actor", "message"], rows) if rows else None, "no earlier commits")
    if page.before is not None:
        print_line(f"more: --before {page.before}", "dim")
    return FINE


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.option("--path", metavar="PATH", help="Drop only what is staged of this path.")
@click.option("--prefix", metavar="TEXT", help="Drop only what is staged of paths that begin with this text.")
@_expected_head
@_actor
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
    """Drop what is staged on a branch: everything, one path, or all paths with a prefix."""
    with given.journal() as journal:
        of = _repository(journal, repository).branch(branch)
        sent = of.reset(path=path, prefix=prefix, expected_head=expected_head, **_said(actor))
        return _told([sent], as_json)


@repo.command()
@click.argument("repository")
@click.argument("branch")
@click.argument("ref")
@_expected_head
@_actor
@json_option
@options
def revert(
    given: Options, /, repository: str, branch: str, ref: str, expected_head: str | None, actor: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Have a branch be at another commit of the repository, which REF names."""
    with given.journal() as journal:
        of = _repository(journal, repository)
        sent = of.branch(branch).revert(of.commit(ref).id, expected_head=expected_head, **_said(actor))
        return _told([sent], as_json)


@repo.command()
@click.argument("repository")
@click.argument("paths", metavar="PATH...|-", nargs=-1, required=True)
@_actor
@json_option
@options
def register(given: Options, /, repository: str, paths: tuple[str, ...], actor: str | None, as_json: bool) -> int:
    """Make objects entities, which search finds and which take tags; - reads paths from standard input."""
    with given.journal() as journal:
        return _told(_repository(journal, repository).register(_paths(paths), **_said(actor)), as_json)


@repo.command()
@click.argument("repository")
@click.argument("paths", metavar="PATH...|-", nargs=-1, required=True)
@_actor
@json_option
@options
def unregister(given: Options, /, repository: str, paths: tuple[str, ...], actor: str | None, as_json: bool) -> int:
    """Make objects entities no longer; their tags go with them."""
    with given.journal() as journal:
        return _told(_repository(journal, repository).unregister(_paths(paths), **_said(actor)), as_json)


def _repository(journal: ConnectedJournal, name: str) -> Repository:
    return cast("WithRepositories", journal).repositories[name]


def _said(actor: str | None) -> dict[str, Any]:
    return {} if actor is None else {"actor": actor}


def _paths(given: tuple[str, ...]) -> Iterable[str]:
    if given == ("-",):
        return [line.rstrip("\n") for line in standard_input() if line.rstrip("\n")]
    if "-" in given:
        raise click.UsageError("Give paths, or - alone.")
    return given


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


def _told(receipts: Iterable[Receipt], as_json: bool) -> int:
    """Say what became of events; fails where one was refused."""
    from ...values import outcome_json

    fine = True
    for receipt in receipts:
        said = outcome_json(receipt.outcome())
        ok = said["outcome"] not in ("rejected", "shelved")
        fine = fine and ok
        result = {"ok": ok, "event_id": receipt.event_id, "position": str(receipt.position), **said}
        print_json(result) if as_json else console().print(_line(result), soft_wrap=True)
    return FINE if fine else PROBLEM


def _line(result: dict[str, Any]) -> Text:
    from rich.text import Text

    text = Text.assemble(verdict(str(result["outcome"])), f"  {result['position']}")
    if "reason" in result:
        text.append(f"  {result['reason']}: {shortened(result.get('detail'), 160)}")
    return text


def _staged(branch: dict[str, Any]) -> str:
    if not branch["dirty"]:
        return "-"
    return f"{_many(branch['staged_rows'], 'path')} in {_many(branch['staged_events'], 'event')}"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _shown(listing: Listing | None, empty: str) -> int:
    console().print(listing, crop=False) if listing is not None else print_line(empty)
    return FINE


COMMANDS: tuple[click.Command, ...] = (repo,)
