"""`metajournal repo tail`: the changes of one repository, or of a branch of it, as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ...terminal.following import (
    ended_by_signals,
    follow,
    limit_option,
    placed_line,
    since_option,
    since_point,
    timeout_option,
)
from ...terminal.options import Options, json_option, options
from .command_parts import repository_named

if TYPE_CHECKING:
    from .client import Repository

_ASKED_S: Final = 2.0


@click.command(short_help="Print the changes of a repository as they happen.")
@click.argument("repository")
@click.argument("branch", required=False)
@since_option("repositories", "default")
@click.option(
    "--group", metavar="NAME", help="Share the changes with other members of this group, and resume where it stopped."
)
@limit_option
@timeout_option
@json_option
@options
def tail(
    given: Options, /, repository: str, branch: str | None, since: str | None, group: str | None, limit: int | None,
    timeout: float | None, as_json: bool,
) -> None:  # fmt: skip
    """Print the changes of a repository, or of one BRANCH, as they happen, until Ctrl-C or SIGTERM.

    There is one change for each accepted event, whatever number of objects it has. Those of a branch are without the
    creation and end of its repository.

    \b
    metajournal repo tail sales
    metajournal repo tail sales main --since 2026-01-31T12:00:00Z --json
    """
    from ...values import change_json
    from .lines import changed

    with ended_by_signals():
        start = since_point(since)
        with given.journal() as journal:
            own = journal.settings.journal.tenant
            followed = repository_named(journal, repository)
            if since is None and group is None:
                _say_if_absent(followed, branch)
            changes = followed.changes(branch, since=start, group=group, limit=limit, timeout_s=timeout)
            follow(
                changes, group=group, since=start,
                line=lambda change: placed_line(change, own, *changed(change.record)),
                shape=change_json if as_json else None,
            )  # fmt: skip


def _say_if_absent(repository: Repository, branch: str | None) -> None:
    """A name that is mistyped would be waited for without a word; what is deleted or not made yet may be followed."""
    from ...schemas.errors import MetajournalError, UnknownEntityError
    from ...terminal.rendering import note

    try:
        repository.info(timeout_s=_ASKED_S) if branch is None else repository.branch_info(branch, timeout_s=_ASKED_S)
    except UnknownEntityError as error:
        note(f"{error.message} Waiting for its first change.")
    except MetajournalError:
        return  # nobody folds at the moment, so nobody knows
