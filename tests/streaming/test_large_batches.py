"""A backlog of large events is folded in batches that fit into the driver's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.lake.tables import Lake
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.builders import header_for, record_of
from tests.processes import running_stream
from tests.topics import folded_to_the_end, write
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]


def test_records_that_do_not_fit_into_one_batch_are_folded_in_several(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    large = "v" * 400_000
    entities = [dataset("default", f"large{number}") for number in range(40)]
    events = [EntityRegistered(one) for one in entities]
    events += [PropertiesSet(one, {"text": large}) for one in entities]  # type: ignore[misc]
    write(settings, [record_of(one, n, header=header_for(one, n + 1)) for n, one in enumerate(events)])
    with running_stream(settings, tmp_path / "stream.log", {"spark.driver.maxResultSize": "12m"}) as stream:
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({stream.log})")
        assert "The records are large" in stream.tail()
    outcomes = Lake(settings.lake.path).journal.query("outcome", "true")
    assert [one["outcome"] for one in outcomes] == ["accepted"] * 80
