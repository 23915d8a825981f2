"""A stream whose lake another one took over, as a store allows after a while without an answer: it folds no further."""

from __future__ import annotations

from pathlib import Path

import pytest

from metajournal.lake.tables import Lake
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.stack.supervisor import read_told
from tests.processes import running
from tests.streaming.test_stream_kills import generated
from tests.topics import write

pytestmark = [pytest.mark.services, pytest.mark.long]

LOSING = """
import pickle, sys
settings, jars, spark = pickle.load(sys.stdin.buffer)
from metajournal.streaming import runner

class Losing(runner.Stream):
    def _check(self, *given):
        self._lose_lake()
        return super()._check(*given)

runner.Stream = Losing
runner.run_stream(settings, jars, spark)
"""


def test_a_stream_that_loses_its_lake_while_it_starts_folds_nothing_and_says_why(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    write(settings, generated(40))
    with running(LOSING, settings, tmp_path / "stream.log") as process:
        assert process.ended(90) == 1, process.tail()
    told = read_told(Path(settings.stack.home or "") / "stream.json")
    assert (told["state"], "Another stream took over" in told["message"]) == ("failed", True)
    lake = Lake(settings.lake.path)
    topic = settings.journal.topics.journal("catalog")
    assert not any(lake.journal.mark((topic, partition)) for partition in range(settings.journal.partitions))
