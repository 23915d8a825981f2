"""The journal of a command's options, as users hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..client import Journal
    from ..schemas.settings import Settings
    from ..terminal.options import Options


def journal_of(given: Options, settings: Settings | None = None) -> Journal:
    """The journal of these settings, or of others, connected: `program` gives the options what makes it."""
    return cast("Journal", given.journal() if settings is None else given.journal(settings))
