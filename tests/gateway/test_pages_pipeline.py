"""The pipeline's page tells of rebuilds and of what to do about rejected events; over a real lake and index."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from metajournal import TagsAdded, dataset
from metajournal.indexer.fill.patience import Stopped
from metajournal.indexer.fill.rebuild import rebuild_index
from metajournal.lake.declared import SPECS
from metajournal.lake.tables import Lake
from metajournal.producers.topics import ensure_topics
from metajournal.rules.admission import REASONS
from metajournal.schemas.registry import domains
from metajournal.schemas.rejections import STEPS, detail_in_words, next_step
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, logged_in, member
from tests.gateway.indexed import index
from tests.gateway.serving import Served, served
from tests.wait import eventually

ROOT = Path(__file__).parents[2]


def test_every_reason_of_a_rejection_has_its_next_step() -> None:
    assert set(REASONS) == set(STEPS)
    for domain in domains():
        assert sorted(dict(domain.next_steps)) == sorted(domain.reasons), domain.name
        for reason, step in domain.next_steps:
            assert next_step(reason, f"metajournal.journal.{domain.journal or domain.name}") == step
    assert next_step("of-another-domain", "metajournal.journal.catalog").startswith("Read the reason")


def test_a_detail_is_told_in_words() -> None:
    assert detail_in_words({"entity": "dataset:a/b", "found": 3}) == "entity dataset:a/b, found 3"
    assert detail_in_words([{"field": "tags", "message": "is empty"}, "odd"]) == "tags: is empty; odd"
    assert (detail_in_words("late"), detail_in_words(None)) == ("late", "")


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: Served) -> Browser:
    return logged_in(server, member(server.journal, "root", ("admin", "*")))


@pytest.mark.services
def test_a_rejected_event_has_its_reason_and_the_next_step(server: Served, root: Browser) -> None:
    server.journal.emit(TagsAdded(dataset("pipeline", "absent"), ["x"])).position  # noqa: B018
    server.fold()
    page = eventually(lambda: found if "dataset:pipeline/absent" in (found := root.page("/pipeline")).text else None)
    row = next(row for row in page.all("tr") if "dataset:pipeline/absent" in row.text)
    assert "unknown-entity" in row.text
    assert next_step("unknown-entity", "x.catalog") in row.text
    event = root.page(str(row.all("a")[0].attributes["href"]))
    assert next_step("unknown-entity", "x.catalog") in event.text
    for text in (row.text, event.text):
        assert "entity dataset:pipeline/absent" in text
        assert "{'entity'" not in text


@pytest.mark.services
def test_who_grants_to_nobody_reads_the_next_step_of_access(server: Served, root: Browser) -> None:
    server.journal.access.grant("biling", ("emitter", "dataset:*")).position  # noqa: B018  (refused)
    server.fold()
    page = eventually(lambda: found if "access-principal:biling" in (found := root.page("/pipeline")).text else None)
    row = next(row for row in page.all("tr") if "access-principal:biling" in row.text)
    assert "Register the principal, or define the role, first." in row.text


@pytest.mark.services
def test_a_rejection_that_names_who_may_not_be_seen_is_not_shown(server: Served, root: Browser) -> None:
    access = server.journal.access
    access.define_role("sees-keys", ["ReadAccess", "ReadPipeline"])
    for name in ("shown", "hidden"):
        access.register(name)
        access.disable(name)
        access.issue_key(name)[1].position  # noqa: B018  (refused: disabled)
    grants = ("sees-keys", "access-key:*"), ("sees-keys", "access-principal:shown")
    some = logged_in(server, member(server.journal, "some", *grants))
    server.fold()
    page = eventually(lambda: found if "access-key:hidden" in (found := root.page("/pipeline")).text else None)
    assert "access-principal:hidden" in page.text
    seen = some.page("/pipeline").text
    assert "access-principal:shown" in seen
    assert "hidden" not in seen
    access.define_role("sees-none", ["ReadPipeline"])
    none = logged_in(server, member(server.journal, "none", ("sees-none", "*")))
    assert "are about entities that you may not see" in " ".join(none.page("/pipeline").text.split())


@pytest.mark.services
def test_rebuilds_are_shown_until_they_are_done(server: Served, root: Browser, gateway_settings: Settings) -> None:
    assert "Nothing is being rebuilt." in root.page("/pipeline").text
    lake = Lake(gateway_settings.lake.path)
    names = [name for name in lake.tables if not SPECS[name].version and name != lake.journal.name]
    number = lake.begin_generation(names).generation
    shown = root.page("/pipeline")
    assert "0 of " in shown.text
    assert "metajournal rebuild lake" in shown.text
    lake.drop_generation(number)
    index(server, gateway_settings)
    stop = threading.Event()
    with pytest.raises(Stopped):
        rebuild_index(gateway_settings, tell=lambda stage: stop.set(), stop=stop)
    shown = root.page("/pipeline")
    assert "takes entities from the lake" in shown.text or "catches up" in shown.text
    assert "metajournal rebuild index" in shown.text
    rebuild_index(gateway_settings)
    assert "Nothing is being rebuilt." in root.page("/pipeline").text
