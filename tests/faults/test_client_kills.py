"""An emitting client, killed with -9 at any moment and started again: nothing that it was told is untrue."""

from __future__ import annotations

from pathlib import Path

import pytest

from metajournal.schemas.settings import Settings
from tests.faults.checking import assert_kept
from tests.faults.clients import Life, register
from tests.faults.journalist import Book
from tests.faults.scale import seeded, times

pytestmark = pytest.mark.services


def test_a_client_killed_at_any_moment_loses_doubles_and_tears_nothing(settings: Settings, tmp_path: Path) -> None:
    draw = seeded("client kills")
    path = tmp_path / "book"
    register(settings)
    for _ in range(times(5, 50)):
        life = Life(settings, path, draw.randrange(1 << 32))
        written = path.stat().st_size if path.exists() else 0
        life.has_written(written + draw.randrange(200, 60_000))
        life.kill()
    assert Book(path).intents
    Life(settings, path, 0, count=0).ended()
    book = Book(path)
    assert book.open == []
    print(assert_kept(settings, [book], tmp_path / "lake"))  # noqa: T201  (what the run was)


def test_two_clients_on_the_same_aggregates_keep_each_its_order_and_lose_nothing(
    settings: Settings, tmp_path: Path
) -> None:
    draw = seeded("two clients")
    paths = [tmp_path / "one", tmp_path / "other"]
    register(settings)
    lives = [Life(settings, path, draw.randrange(1 << 32), count=times(150, 1500)) for path in paths]
    for life in lives:
        life.ended()
    for path in paths:
        assert Book(path).open == []
    print(assert_kept(settings, [Book(path) for path in paths], tmp_path / "lake"))  # noqa: T201  (what the run was)
