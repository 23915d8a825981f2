"""Commands about settings: `config show`."""

from __future__ import annotations

import click

from ..terminal.options import Options, json_option, options
from ..terminal.rendering import console, print_json


@click.group()
def config() -> None:
    """Settings: what they are and where they come from."""


@config.command("show")
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@json_option
@options
def config_show(given: Options, /, origin: bool, as_json: bool) -> None:
    """Show every setting; a value is masked unless its key is known not to hold a secret."""
    from ..terminal.views import config_json, config_view

    shown = config_json(given.loaded.shown(), origin=origin)
    print_json(shown) if as_json else console().print(config_view(shown))


CONFIGURATION: tuple[click.Command, ...] = (config,)
