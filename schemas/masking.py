"""What is shown in the place of what nobody shall see. Light: every command loads it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MASK: Final = "********"


def scrubbed(text: str, hidden: Iterable[str]) -> str:
    """A text of somebody else's (a library's error, a line of a log) without what the settings hide."""
    for secret in hidden:
        text = text.replace(secret, MASK)
    return text
