"""The journal of a command's options, as users hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..client import Journal
    from ..terminal.options import Options


def journal_of(given: Options) -> Journal:
    """The journal of these settings, connected: `program` gives the options what makes it."""
    return cast("Journal", given.journal())
