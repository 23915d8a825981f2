"""An event that was made before its kind was known is held against the kind before it is sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metajournal import TagsAdded
from metajournal.producers import emitter
from metajournal.producers.emitter import Emitter
from metajournal.producers.recorded.late import late_faults
from metajournal.producers.recorded.served import Served
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.domain import Domain, Kind
from metajournal.schemas.errors import InvalidEventError, InvalidUnitError
from metajournal.schemas.settings import Settings
from tests.outside.taking_in import taken_in

KINDS = (Kind("late-site", "lates", 1, 1), Kind("late-sensor", "lates", 2, 2, "late-site", 1))


def emitter_of(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Emitter:
    """An emitter of a journal that serves the kinds, on a Kafka that is not there."""
    monkeypatch.setattr(emitter, "wait_for_broker", lambda *_, **__: None)
    names = settings.journal.topics
    served = Served("lates", "metajournal-lates", KINDS, False, 2, {})
    topics = {names.journal(one): TopicEpoch(names.journal(one), 1, "id", 1) for one in ("catalog", "files", "lineage")}
    topics[names.journal("lates")] = TopicEpoch(names.journal("lates"), 2, "id", 1, served)
    return Emitter(settings, Epochs(topics))


def test_a_urn_that_was_made_before_its_kind_was_known_is_checked_before_sending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = replace(Settings(), kafka={"bootstrap.servers": "127.0.0.1:1"})
    wrong, right = TagsAdded("late-sensor:alps", ["x"]), TagsAdded("late-sensor:alps/one", ["x"])
    with taken_in(Domain("lates", "", KINDS)):
        client = emitter_of(settings, monkeypatch)
        with pytest.raises(InvalidEventError, match=r"entity: .*a late-sensor has 2 parts, this has 1"):
            client.emit(wrong)
        unit = client.unit(tenant=None, actor=None, event_time=None, cause=None, unit_id=None, repeat=False)
        unit.emit(wrong)
        with pytest.raises(InvalidUnitError, match=r"events\[0\]\.entity: .*a late-sensor has 2 parts"):
            unit.commit()
        assert late_faults(right) == []
        client.close(1)
    assert late_faults(wrong) == []  # of no domain that is served here
