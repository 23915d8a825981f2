"""What comes into a command as text: its arguments and standard input.

Bytes that are no text in the encoding at hand reach Python as halves of surrogate pairs, which no service takes.
Invariant: they are refused before anything is done, as arguments here for all commands, as a line by who reads it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import click

from ..values import is_text


def check_arguments(words: Sequence[str]) -> None:
    """Refuse arguments that are no text.

    Raises:
        UsageError: names the first of them.
    """
    for number, word in enumerate(words, 1):
        if not is_text(word):
            encoding = sys.getfilesystemencoding().upper()
            raise click.UsageError(f"Argument {number} cannot be read as {encoding}: {word!a}.")


class LineFile(click.File):
    """A file of lines in UTF-8, or standard input where it is "-"; a line that is not UTF-8 is left to its reader."""

    def __init__(self) -> None:
        super().__init__("r", encoding="utf-8", errors="surrogateescape")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return standard_input() if value == "-" else super().convert(value, param, ctx)


def standard_input() -> TextIO:
    """Standard input as UTF-8 in every locale; a line that is none is left to its reader, who knows its number.

    Raises:
        UsageError: it is closed.
    """
    if sys.stdin is None:
        raise click.UsageError("Standard input is closed.")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    return sys.stdin
