"""Commands set logging up for their process; here that is the process of the tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from metajournal.terminal.logs import OWN


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """What a command that ran in this process did to logging ends with its test."""
    own, root = logging.getLogger(OWN), logging.root
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])
