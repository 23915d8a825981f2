"""Fixtures for everybody: the services (started once, when a test first asks) and settings of each test's own.

Every test gets its own topic prefix, index and lake folder, so tests share the services and nothing else. Tests of what
users type share one installation, and keep to entities of their own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, LakeSettings, Settings, StackSettings
from tests.installation import Installation, installed
from tests.services import Services, docker_answers, planned_source, provide

_used = pytest.StashKey[Services]()


def pytest_report_header() -> str:
    return f"services: from {planned_source()}, started when a test needs them"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for a service is a service test, whether it says so or not; docker's need an engine.

    Tests on the installation come last: its stream would take time from all others.
    """
    items.sort(key=lambda item: "installation" in getattr(item, "fixturenames", ()))
    for item in items:
        if {"services", "kafka", "elasticsearch", "installation"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.services)
        if item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.services)
            if not docker_answers():
                item.add_marker(pytest.mark.skip(reason="no docker engine answers"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    used = config.stash.get(_used, None)
    if used is not None:
        where = f"Kafka {used.bootstrap_servers}, Elasticsearch {used.elasticsearch_url}"
        terminalreporter.write_line(f"services: {where}, from {used.source}")


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Services]:
    """Kafka and Elasticsearch, one of each for the whole run."""
    with provide(tmp_path_factory.mktemp("services")) as running:
        pytestconfig.stash[_used] = running
        yield running


@pytest.fixture(scope="session")
def kafka(services: Services) -> str:
    """bootstrap.servers of the run's broker."""
    return services.bootstrap_servers


@pytest.fixture(scope="session")
def elasticsearch(services: Services) -> str:
    """URL of the run's Elasticsearch."""
    return services.elasticsearch_url


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A running installation, made by `metajournal up` with services of its own; one for the whole run."""
    with installed(tmp_path_factory.mktemp("an installation, größer")) as running:
        yield running


@pytest.fixture
def settings(services: Services, tmp_path: Path) -> Settings:
    """Settings with a topic prefix, an index and a lake that no other test has."""
    name = f"t{uuid.uuid4().hex[:10]}"
    return Settings(
        journal=JournalSettings(prefix=name, actor="tests"),
        kafka={"bootstrap.servers": services.bootstrap_servers},
        lake=LakeSettings(path=str(tmp_path / "lake")),
        elasticsearch=ElasticsearchSettings(url=services.elasticsearch_url, index=name),
        stack=StackSettings(home=str(tmp_path / "home")),
    )
