"""Here kinds are emitted before the domain that declares them joins the journal, as a journal of old may have them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metajournal.schemas.settings import Settings


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The settings of a test, with the kinds of domains that are still to join."""
    return replace(settings, journal=replace(settings.journal, custom_kinds=("toy", "toybox", "game")))
