"""What commands do without: they start sooner."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from metajournal.domains.catalog.events import EntityRegistered
from metajournal.domains.catalog.urns import dataset
from tests.builders import record_of
from tests.streaming.harness import Fold

ABSENT = "http://127.0.0.1:1"


@pytest.mark.thorough
def test_a_command_that_reads_loads_no_pandas_and_says_the_same(tmp_path: Path) -> None:
    fold = Fold(tmp_path, 1)
    fold.batch([record_of(EntityRegistered(dataset("default", "a")), 0)._replace(partition=0)])
    asked = ["--set", f"lake.path={tmp_path}", "--set", f"elasticsearch.url={ABSENT}"]
    command = [*asked, "why", fold.journal()[0]["event_id"], "--json"]
    program, within = (
        subprocess.run([sys.executable, "-X", "importtime", *way, *command], capture_output=True, text=True, check=True)
        for way in (("-m", "metajournal.cli"), ("-c", "from metajournal.cli import main; main()"))
    )
    assert '"outcome":"accepted"' in program.stdout
    assert program.stdout == within.stdout
    assert [_has_loaded("pandas", one) for one in (program, within)] == [False, True]


@pytest.mark.thorough
def test_a_process_that_serves_loads_no_pandas() -> None:
    serve = ["-m", "metajournal.cli", "--set", "gateway.host=0.0.0.0", "serve"]
    ended = subprocess.run([sys.executable, "-X", "importtime", *serve], capture_output=True, text=True, check=False)
    assert "gateway.host is 0.0.0.0" in ended.stderr, "it ends where it would be reached without TLS"
    assert _has_loaded("pyarrow", ended), "what looks for pandas was loaded"
    assert not _has_loaded("pandas", ended)


def _has_loaded(package: str, ended: subprocess.CompletedProcess[str]) -> bool:
    return re.search(rf"\| +{package}\.", ended.stderr) is not None
