"""What the commands share: the options before the command, the settings that come of them, and `--json`."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from ..config import Loaded
    from ..lake_client import ConnectedJournal
    from ..schemas.settings import Settings


class Options:
    """What stands before the command; settings are read when a command asks for them.

    Args:
        file: the settings file that was named; None: `metajournal.toml`, where it exists.
        overrides: single settings, `section.key=value`.
        connect: makes the journal of some settings: what it is made of stands above this room.
    """

    def __init__(
        self,
        file: str | None,
        overrides: tuple[str, ...],
        connect: Callable[[Settings], ConnectedJournal] | None = None,
    ) -> None:
        self.file = file
        self.overrides = overrides
        self._connect = connect
        self.logs_json = False
        """Whether the command's log, and so the error that ends it, are JSON lines."""
        self.hidden: tuple[str, ...] = ()
        """Texts that the settings hide, once they were read."""

    def start_logging(self) -> None:
        """Show the log on standard error, as `[log]` says."""
        from .logs import start_logging

        self.logs_json = start_logging(self.settings.log, self.hidden)

    @property
    def loaded(self) -> Loaded:
        """The settings, and where each comes from."""
        from ..config import load
        from ..schemas.setting_keys import hidden_texts

        loaded = load(self.file, self.overrides)
        self.hidden = hidden_texts(loaded.settings)
        return loaded

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def home(self) -> Path:
        """Folder of the services that `up` starts."""
        from ..config import home

        own = self.settings.stack.home
        return Path(own) if own else home()

    def journal(self, settings: Settings | None = None) -> ConnectedJournal:
        """The journal of these settings, connected; of others, where a command changes some."""
        assert self._connect is not None  # only a completion, which asks for settings alone, has none
        return self._connect(self.settings if settings is None else settings)


class _Seconds(click.FloatRange):
    """A number of seconds that can be waited; a range alone lets nan through, which is on neither side of it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if isnan(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


def no_options_before(context: click.Context) -> None:
    """Refuse options that a group was given although a command of it follows: only the command's own have an effect.

    Raises: UsageError: one was given.
    """
    given = [
        param.opts[0]
        for param in context.command.params
        if param.name is not None and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            f"{', '.join(given)} before {context.invoked_subcommand} would have no effect: put it after "
            f"{context.invoked_subcommand}.",
            ctx=context,
        )


class _Filled(click.ParamType[str]):
    """Text that is not empty, where a variable that is not set must not pass for an option that was not given."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail("It is empty: give a value, or omit the option.", param, ctx)
        return value


SECONDS = _Seconds(0, 1e9)
FILLED = _Filled()
options = click.make_pass_decorator(Options)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
