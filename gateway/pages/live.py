"""Changes as they come, for the scripts of pages: the feed of the API, read by a session."""

from __future__ import annotations

from typing import Final

from ...schemas.pages import Page
from ..own.changes import CHANGES, needs_of_changes, wanted_changes

FEED: Final = Page(
    "GET", "/feed", "Changes as they come, as server-sent events.", feed=wanted_changes, needs=needs_of_changes,
    query=CHANGES[0].query,
)  # fmt: skip
