"""`metajournal repo merge`: one branch into another, with the paths in conflict where there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ...terminal.exits import FINE
from ...terminal.options import Options, json_option, options
from ...terminal.rendering import console, named, print_json, print_line, table
from .command_parts import SHORT, actor_option, repository_named, said_by
from .events import NO_STRATEGY, REFUSE, RESOLVE, STRATEGIES

if TYPE_CHECKING:
    from .errors import MergeConflictError

_SHOWN: Final = 20
_NOT_THERE: Final = "-"


@click.command()
@click.argument("repository")
@click.argument("source")
@click.argument("destination")
@click.option("--strategy", type=click.Choice(STRATEGIES), default=NO_STRATEGY, show_default=True,
              help="Whose object a path gets that both have changed; none refuses the merge.")  # fmt: skip
@click.option(
    "-m", "--message", metavar="TEXT", help="What was done; 'Merge SOURCE into DESTINATION' if it is not given."
)
@click.option(
    "--metadata", "pairs", metavar="KEY=VALUE", multiple=True, help="Metadata of the commit; may be repeated."
)
@click.option("--resolve", is_flag=True, help="Lay what is staged on DESTINATION over the result, also in conflicts.")
@click.option("--source-head", metavar="ID", help="Merge only if SOURCE is at this commit.")
@click.option(
    "--destination-head", metavar="ID", help="Merge only if DESTINATION is at this commit; '' if it has none."
)
@actor_option
@json_option
@options
def merge(
    given: Options,
    /,
    repository: str,
    source: str,
    destination: str,
    strategy: str,
    message: str | None,
    pairs: tuple[str, ...],
    resolve: bool,
    source_head: str | None,
    destination_head: str | None,
    actor: str | None,
    as_json: bool,
) -> int:
    """Merge the branch SOURCE into the branch DESTINATION.

    Paths that both have changed differently are listed, and nothing is merged. To resolve them, write to DESTINATION
    what is to be there (of a path that is to be gone: `rm --even-missing`), and merge with --resolve.
    """
    from ...terminal.parsing import pairs as read_pairs
    from .errors import MergeConflictError
    from .values import commit_json

    metadata = dict(read_pairs(pairs))
    done = f"Merge {source} into {destination}" if message is None else message
    with given.journal() as journal:
        try:
            made = repository_named(journal, repository).branch(source).merge_into(
                destination, strategy=strategy, staged=RESOLVE if resolve else REFUSE, message=done,
                metadata=metadata, source_head=source_head, destination_head=destination_head, **said_by(actor),
            )  # fmt: skip
        except MergeConflictError as error:
            if not as_json:
                _show_conflicts(error)
            raise
    if as_json:
        print_json(commit_json(made))
    else:
        print_line(f"{destination} is at {made.id}")
    return FINE


def _show_conflicts(error: MergeConflictError) -> None:
    """The first paths in conflict, with what they are on each side."""
    shown = error.conflicting[:_SHOWN]
    rows = [(named(path), *((content or _NOT_THERE)[:SHORT] for content in sides)) for path, *sides in shown]
    console().print(table(["path", "base", "destination", "source"], rows), crop=False)
    if error.conflicts > len(shown):
        print_line(f"and {error.conflicts - len(shown):,} more", "dim")


MERGING: tuple[click.Command, ...] = (merge,)
"""The commands that merge."""
