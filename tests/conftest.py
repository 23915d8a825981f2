"""Fixtures for everybody: the services (started once, when a test first asks) and settings of each test's own.

Every test gets its own topic prefix, index and lake folder, so tests share the services and nothing else. Tests of what
users type share one installation, and keep to entities of their own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as properties

from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, LakeSettings, Settings, StackSettings
from tests.demonstration import Demonstration, demonstrated
from tests.installation import Installation, installed
from tests.properties import examples
from tests.services import Services, docker_answers, planned_source, shared

properties.register_profile(
    "metajournal", deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow]
)
properties.load_profile("metajournal")
"""How long an example takes says how busy the machine is, and decides nothing."""

_told = pytest.StashKey[list[str]]()
_SHARED = ("installation", "demonstration")
"""Set-ups of the whole run that take a while: of several processes, one has each."""


def pytest_report_header() -> str:
    return f"services: from {planned_source()}, started when a test needs them"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for a service is a service test, whether it says so or not; docker's need an engine.

    Long tests come first. Tests on the installation come last: its stream would take time from all others. (Of several
    processes, one has it.)
    """
    items.sort(key=_turn)
    for item in items:
        if {"services", "kafka", "elasticsearch", *_SHARED}.intersection(_fixtures(item)):
            item.add_marker(pytest.mark.services)
        if item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.services)
            if not docker_answers():
                item.add_marker(pytest.mark.skip(reason="no docker engine answers"))


def _turn(item: pytest.Item) -> int:
    if "installation" in _fixtures(item):
        return 2
    return 0 if item.get_closest_marker("long") else 1


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of several processes, one gets all tests of a set-up that a file or the run shares; others go one by one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByWhatIsShared(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _shared_by(config.rootpath / nodeid.partition("::")[0]) or nodeid

    return ByWhatIsShared(config, log)


@cache
def _shared_by(file: Path) -> str | None:
    """Name of the set-up that a file's tests share; this process knows their files alone, and not their fixtures."""
    text = file.read_text("utf-8")
    if any(f"{name}: {name.title()}" in text for name in _SHARED):
        return " and ".join(_SHARED)  # some files use both
    return str(file) if 'scope="module"' in text else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hand what a process of its own says of its services to the one that prints."""
    node.config.stash.setdefault(_told, []).extend(node.workeroutput.get("services", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines: list[str] = config.stash.get(_told, [])
    for line in dict.fromkeys(lines):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Services]:
    """Kafka and Elasticsearch, one of each for the whole run, however many processes it has."""
    own = tmp_path_factory.getbasetemp()
    with shared(own.parent if hasattr(pytestconfig, "workerinput") else own) as running:
        said = f"services: Kafka {running.bootstrap_servers}, Elasticsearch {running.elasticsearch_url}"
        told = getattr(pytestconfig, "workeroutput", None)
        lines = pytestconfig.stash.setdefault(_told, []) if told is None else told.setdefault("services", [])
        lines.append(f"{said}, from {running.source}")
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


@pytest.fixture(scope="session")
def demonstration() -> Iterator[Demonstration]:
    """The whole demo, run once for all who look at what it says."""
    with demonstrated() as run:
        yield run


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
