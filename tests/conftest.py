"""Fixtures for everybody: the services (started once, when a test first asks) and settings of each test's own.

Every test gets its own topic prefix, index and lake folder, so tests share the services and nothing else. Tests of what
users type share one installation, and keep to entities of their own.
"""

from __future__ import annotations

import ast
import gc
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as properties

from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, LakeSettings, Settings, StackSettings
from tests.demonstration import Demonstration, demonstrated
from tests.installation import Installation, installed
from tests.kept import Kept
from tests.leaving import leave
from tests.properties import examples
from tests.services import Services, docker_answers, planned_source, shared

properties.register_profile(
    "metajournal", deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow]
)
properties.load_profile("metajournal")
"""How long an example takes says how busy the machine is, and decides nothing."""

T = TypeVar("T")
_told = pytest.StashKey[list[str]]()
_SHARED = ("demonstration", "installation")
"""Set-ups that take a while, in the order in which one process has them; of several processes, one has each."""
_BROWSER = "browser"
"""The folder whose files share one browser and one gateway."""
_READ_ONCE = ("tests/test_rooms.py", "tests/test_words.py")
"""Files whose tests look at all modules, which a process reads once, in seconds."""
_kept = pytest.StashKey[dict[str, Kept[Any]]]()


def pytest_report_header() -> str:
    return f"services: from {planned_source()}, started when a test needs them"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for a service is a service test, whether it says so or not; docker's need an engine.

    Long tests come first. Tests of one set-up stand in a row, and come last: its stream takes time from all others. (Of
    several processes, one has it.)
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
    shared = [2 + number for number, name in enumerate(_SHARED) if name in _fixtures(item)]
    return max(shared, default=0 if item.get_closest_marker("long") else 1)


def _fixtures(item: pytest.Item | None) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


def pytest_collection_finish() -> None:
    """Seven thousand collected tests stay: the collector need not visit them again and again (a sixth of a run)."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A set-up ends with the last of the tests in a row that use it: idle, it takes a quarter of a core."""
    kept = item.config.stash.get(_kept, {})
    for name in set(kept).difference(_fixtures(nextitem)):
        kept.pop(name).close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of several processes, one gets all tests of a set-up that a file or the run shares; others go one by one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByWhatIsShared(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            name, _, test = nodeid.partition("::")
            file = config.rootpath / name
            shared = _shared_in(file)
            if file.parent.name == _BROWSER:
                return _BROWSER
            if name in _READ_ONCE:
                return name
            if _has_module_fixture(file):  # its tests stay together, beside the others of a set-up that they share
                return min(shared.values(), default=name)
            return shared.get(test.partition("[")[0], nodeid)

    return ByWhatIsShared(config, log)


@cache
def _shared_in(file: Path) -> dict[str, str]:
    """Set-up that each test of a file shares, by the test's name; this process knows files alone, and no fixtures."""
    text = file.read_text("utf-8")
    if not any(f"{name}: {name.title()}" in text for name in _SHARED):
        return {}
    functions = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)]
    return {one.name: given.arg for one in functions for given in one.args.args if given.arg in _SHARED}


@cache
def _has_module_fixture(file: Path) -> bool:
    return 'scope="module"' in file.read_text("utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hand what a process of its own says of its services to the one that prints."""
    said = getattr(node, "workeroutput", {})  # nothing of a process that ended in a test
    node.config.stash.setdefault(_told, []).extend(said.get("services", []))


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


@pytest.fixture
def installation(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A running installation, made by `metajournal up` with services of its own; one for all who ask for it."""
    made = _keep(pytestconfig, "installation", lambda: installed(tmp_path_factory.mktemp("an installation, größer")))
    return made.get()


@pytest.fixture
def demonstration(pytestconfig: pytest.Config) -> Demonstration:
    """The whole demo, run once for all who look at what it says."""
    return _keep(pytestconfig, "demonstration", demonstrated).get()


def _keep(config: pytest.Config, name: str, make: Callable[[], AbstractContextManager[T]]) -> Kept[T]:
    """The set-up of this name; it ends with the run if no test in between is the last one to use it."""
    kept = config.stash.setdefault(_kept, {})
    if name not in kept:
        kept[name] = Kept(make)
        config.add_cleanup(kept[name].close)
    return kept[name]


@pytest.fixture
def settings(services: Services, tmp_path: Path) -> Iterator[Settings]:
    """Settings with a topic prefix, an index and a lake that no other test has."""
    name = f"t{uuid.uuid4().hex[:10]}"
    own = Settings(
        journal=JournalSettings(prefix=name, actor="tests"),
        kafka={"bootstrap.servers": services.bootstrap_servers},
        lake=LakeSettings(path=str(tmp_path / "lake")),
        elasticsearch=ElasticsearchSettings(url=services.elasticsearch_url, index=name),
        stack=StackSettings(home=str(tmp_path / "home")),
    )
    yield own
    leave(own)
