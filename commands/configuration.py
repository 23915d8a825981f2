"""Commands about settings: `config show`, `config init`."""

from __future__ import annotations

from pathlib import Path

import click

from ..config import FILE_NAME
from ..schemas.errors import InputError
from ..terminal.options import Options, json_option, options
from ..terminal.rendering import console, print_json, print_line


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


@config.command("init")
@click.argument("file", type=click.Path(path_type=Path), default=FILE_NAME, required=False)
@json_option
@options
def config_init(given: Options, /, file: Path, as_json: bool) -> None:
    """Write a settings file to start from: every key with its meaning and its default.

    FILE is metajournal.toml in the working folder by default. An existing file is never overwritten.
    """
    from ..terminal.settings_file import settings_file

    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(settings_file())
    except FileExistsError as error:
        raise InputError(
            f"{file} already exists.", code="file-exists", hint="Name another file, or move this one first."
        ) from error
    except OSError as error:
        raise InputError(
            f"{file} cannot be written: {error.strerror}.",
            code="file-not-written",
            hint="Name a file in a folder that you may write to.",
        ) from error
    print_json({"ok": True, "file": str(file)}) if as_json else print_line(f"wrote {file}")


CONFIGURATION: tuple[click.Command, ...] = (config,)
