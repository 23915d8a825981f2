"""Access joins a journal of an earlier version unless an entity of one of its kinds lives in that journal's catalog."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metajournal.producers.topics import read_epochs
from metajournal.schemas.settings import Settings
from tests.outside.installation import Beside

pytestmark = [pytest.mark.services]
BEGIN = """
from metajournal import EntityDeleted, EntityRegistered, Journal, urn
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, ensure_topics, read_epochs
from metajournal.streaming.between.joining import join_ours, told
from tests.consumers.stream import BrokerStream
kinds = {"access-role": ["admin", "loader"], "access-principal": ["ada"], "access-key": [["ada", "k1"]]}
entities = [urn(kind, *(one if isinstance(one, list) else [one])) for kind, names in kinds.items() for one in names]
def sent(event):
    with Journal.connect(settings) as journal:
        for entity in entities:
            journal.emit(event(entity))
        journal.flush()
    stream = BrokerStream(settings)
    stream.fold()
    return stream
"""
MADE = """
Epochs.waiting = property(lambda self: ())  # what an earlier version knows of domains that join
tell(ensure_topics(settings).domains)
"""
JOIN = """
stream = sent({event})
epochs, refusals = join_ours(settings, stream.epochs, stream.lake)
with Journal.connect(settings) as journal:
    shown = {{}} if "access" in epochs.domains else {{one: journal.show(one).urn for one in entities}}
tell([sorted(epochs.domains), told(refusals), shown])
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The settings of a test whose journal has entities of such kinds, as custom ones."""
    kinds = ("access-role", "access-principal", "access-key")
    return replace(settings, journal=replace(settings.journal, custom_kinds=kinds))


def test_a_kind_that_a_catalog_has_in_use_keeps_access_out_until_its_entities_are_deleted(
    settings: Settings, tmp_path: Path
) -> None:
    beside = Beside(settings, tmp_path)
    assert beside.python(BEGIN + MADE) == ["catalog", "files"]
    domains, refusals, shown = joined(beside, "EntityRegistered")
    assert domains == ["catalog", "files", "repositories"]
    (refused,) = refusals
    assert refused["name"] == "access"
    assert refused["why"].startswith("kind-in-use: 4 entities of kinds of access exist in the catalog: ")
    assert "access-key:ada/k1, access-principal:ada, access-role:admin, …" in refused["why"]
    assert refused["mend"].startswith("Delete them (EntityDeleted); their history is kept.")
    assert settings.journal.topics.journal("access") not in read_epochs(settings)
    assert shown == {one: one for one in shown}, "they are the catalog's, as they were"
    assert len(shown) == 4
    assert joined(beside, "EntityDeleted") == [["access", "catalog", "files", "repositories"], [], {}]


def joined(beside: Beside, event: str) -> Any:
    """What joins once all entities have had an event: domains, refusals, and what is shown of the entities."""
    return beside.python(BEGIN + JOIN.format(event=event))
