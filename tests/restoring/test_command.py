"""`metajournal restore topics` as it is typed: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from metajournal import EntityRegistered, Journal, TagsAdded, dataset
from metajournal.commands.program import main
from metajournal.lake.storage.locks import only_one
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.restoring.losing import fold_here, lose
from tests.shapes import check_json

pytestmark = [pytest.mark.services]


@pytest.fixture
def file(settings: Settings, tmp_path: Path) -> Path:
    """The settings as a file."""
    written = tmp_path / "settings.toml"
    written.write_text(
        f'[journal]\nprefix = "{settings.journal.prefix}"\n'
        f'[kafka]\n"bootstrap.servers" = "{settings.kafka["bootstrap.servers"]}"\n'
        f'[lake]\npath = "{settings.lake.path}"\n[stack]\nhome = "{settings.stack.home}"\n'
    )
    return written


def typed(monkeypatch: pytest.MonkeyPatch, file: Path, *words: str) -> Result:
    monkeypatch.setenv("METAJOURNAL_HOME", str(file.parent / "home"))
    done = CliRunner().invoke(main, ["--config", str(file), "restore", "topics", *words])
    if "--json" in words:
        check_json(("restore", "topics", *words), done.stdout)
    return done


def test_it_says_what_is_lost_restores_it_and_says_what_is_not_restored(
    settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_topics(settings)
    orders = dataset("shop", "orders")
    with Journal.connect(settings) as journal:
        journal.emit(EntityRegistered(orders))
        journal.flush()
        fold_here(settings)
        journal.emit(TagsAdded(orders, ["lost"]))
    assert "Nothing is lost" in typed(monkeypatch, file).stdout
    lose(settings)
    dry: dict[str, Any] = json.loads(typed(monkeypatch, file, "--dry-run", "--json").stdout)
    catalog = next(topic for topic in dry["topics"] if topic["topic"].endswith("catalog"))
    assert catalog == {"topic": catalog["topic"], "state": "missing", "epoch": 2, "records": 1, "offsets": 1}
    assert (dry["dry_run"], dry["epochs"], dry["schemas"], dry["records"]) == (True, True, True, 1)
    planned = typed(monkeypatch, file, "--dry-run")
    assert "Nothing was changed" in planned.stdout
    assert planned.exit_code == 0
    with only_one(settings.lake.path, "stream", hint=""):
        refused = typed(monkeypatch, file)
    assert (refused.exit_code, "error[stream-runs]" in refused.stderr) == (1, True)
    assert "metajournal up --servers" in refused.stderr
    done = typed(monkeypatch, file)
    assert done.exit_code == 0, done.output
    assert "1 event restored" in done.stdout
    assert "Whatever Kafka acknowledged above the marks of the journal table is lost" in " ".join(done.stdout.split())
    assert "write the records: 1 of 1" in done.stderr
    assert "metajournal rebuild index" in done.stdout
    with Journal.connect(settings) as journal:
        assert journal.show(orders).user_tags == ()
