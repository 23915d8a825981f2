"""The root of the command line: the options before every command, and the list of commands.

What the commands do stands beside this module, how they end in `exits.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, cast

import click

from ..schemas.errors import DomainError, MetajournalError
from ..schemas.outside import file_of, installed
from ..schemas.registry import role, served
from ..terminal.completion import COMPLETING
from ..terminal.exits import Commands
from ..terminal.lean import leave_pandas_out
from ..terminal.logs import keep_quiet
from ..terminal.options import Options
from .configuration import CONFIGURATION
from .domains import DOMAINS
from .ingesting import INGESTING
from .reading import READING
from .rebuild import REBUILDING
from .refolding import REFOLDING
from .restoring import RESTORING
from .services import SERVICES
from .serving import SERVING
from .tracing import TRACING
from .writing import WRITING

if TYPE_CHECKING:
    from ..client import Journal
    from ..schemas.settings import Settings


class CommandsFile(Protocol):
    """The file `commands` of a domain."""

    @property
    def COMMANDS(self) -> Sequence[click.Command]:  # noqa: N802  (a constant of the module)
        """Its commands, as click has them."""


PROGRAM = "program"
"""What the context holds where a command has its process to itself (a test or a host program may run several)."""
OF_DOMAINS = tuple(
    command
    for domain in served()
    if (module := role(domain.name, "commands")) is not None
    for command in cast(CommandsFile, module).COMMANDS
)
_WITHOUT_PANDAS = frozenset(command.name for command in (*READING, *TRACING, *OF_DOMAINS, *WRITING, *SERVING)) | {
    "index"
}


class _Program(Commands):
    """The root group; a word that is no command of ours may be one of a domain from outside."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _from_outside(cmd_name)

    def advise(self, error: MetajournalError) -> str:
        from .meant import advice

        return advice(error)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Not indented, as a command of the list above would be."""
        formatter.write_paragraph()
        formatter.write_text(self.epilog or "")


def _from_outside(word: str) -> click.Command | None:
    """The command of that name of an installed domain; its help, and completion, are its own."""
    for brought in installed():
        with suppress(DomainError):  # `metajournal domains` tells what is wrong with it
            module = file_of(brought.name, "commands")
            for command in () if module is None else cast(CommandsFile, module).COMMANDS:
                if command.name == word:
                    return command
    return None


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`metajournal domains` lists external domains and their commands.",
)
@click.version_option(package_name="metajournal")
@click.option("--config", "file", metavar="FILE", help="Settings file (default: metajournal.toml, if it exists).")
@click.option("--set", "overrides", metavar="SECTION.KEY=VALUE", multiple=True, help="Set one setting.")
@click.option("-v", "--verbose", is_flag=True, help="Show the log on standard error.")
@click.pass_context
def main(context: click.Context, file: str | None, overrides: tuple[str, ...], verbose: bool) -> None:
    """Metadata as a journal: every change is an event in Kafka, kept in Delta tables, found in Elasticsearch."""
    if context.obj is PROGRAM and context.invoked_subcommand in _WITHOUT_PANDAS:
        leave_pandas_out()
    context.obj = Options(file, overrides, _connect)
    if verbose:
        context.obj.start_logging()
    else:
        keep_quiet()


def _connect(settings: Settings) -> Journal:
    from ..client import Journal

    return Journal.connect(settings)


for _command in (
    *WRITING, *INGESTING, *READING, *TRACING, *OF_DOMAINS, *SERVICES, *SERVING, *REBUILDING, *REFOLDING, *RESTORING,
    *DOMAINS, *CONFIGURATION, *COMPLETING,
):  # fmt: skip
    main.add_command(_command)
