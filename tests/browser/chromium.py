"""The Chromium that tests drive: found on this machine, never downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserType, sync_playwright

VARIABLE: Final = "METAJOURNAL_TEST_BROWSER"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
ABSENT: Final = (
    "no browser: install Chromium (apt-get install chromium, or playwright install chromium), "
    f"or name one in {VARIABLE}"
)


class AbsentError(Exception):
    """This machine has no Chromium."""


@contextmanager
def launched() -> Iterator[Chromium]:
    """A Chromium without windows, until the block ends. Raises: AbsentError: there is none."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_program(playwright.chromium))
        try:
            yield browser
        finally:
            browser.close()


def _program(known: BrowserType) -> str:
    """The one that the variable names, that is on PATH, or that Playwright has, in this order."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return named
    on_path = filter(None, map(shutil.which, NAMES))
    found = next(on_path, None) or known.executable_path
    if not Path(found).is_file():
        raise AbsentError(ABSENT)
    return found
