"""docker-compose.yml and the Dockerfile say the same as the code (they cannot be run where there is no engine)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from metajournal.config import load_settings
from metajournal.gateway.sessions import Cookies
from metajournal.stack import elasticsearch, kafka, versions

ROOT = Path(__file__).parents[2]
OWN = ("stream", "indexer", "gateway")
OWN_LISTENERS = {"listener.security.protocol.map"}  # the containers have one listener more
FOLDERS_AND_HOST = {"network.host", "node.name"}  # the image's own


@pytest.fixture(scope="module")
def composed() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    return services


def test_it_has_the_components_in_our_versions(composed: dict[str, Any]) -> None:
    assert set(composed) == {"kafka", "elasticsearch", *OWN}
    assert composed["kafka"]["image"] == versions.KAFKA_IMAGE
    assert composed["elasticsearch"]["image"] == versions.ELASTICSEARCH_IMAGE
    assert [composed[name]["command"] for name in OWN] == [["stream"], ["index"], ["serve"]]
    assert {composed[name]["build"]["dockerfile"] for name in OWN} == {"docker/Dockerfile"}


def test_kafka_has_the_settings_that_the_stack_gives_it(composed: dict[str, Any]) -> None:
    given = composed["kafka"]["environment"]
    for key in kafka.SETTINGS.keys() - OWN_LISTENERS:
        assert given["KAFKA_" + key.replace(".", "_").upper()] == kafka.SETTINGS[key], key
    assert set(given["KAFKA_HEAP_OPTS"].split()) <= {*kafka.JVM, f"-Xmx{kafka.HEAP_MIB}m"}


def test_elasticsearch_has_the_settings_that_the_stack_gives_it(composed: dict[str, Any]) -> None:
    given = composed["elasticsearch"]["environment"]
    for key in elasticsearch.SETTINGS.keys() - FOLDERS_AND_HOST:
        assert given[key] == elasticsearch.SETTINGS[key], key
    assert set(given["ES_JAVA_OPTS"].split()) <= set(elasticsearch.JVM_OPTIONS.split())


def test_every_service_is_checked_and_only_on_this_machine(composed: dict[str, Any]) -> None:
    for name, service in composed.items():
        assert service["healthcheck"]["test"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_our_own_services_get_settings_that_we_accept(composed: dict[str, Any]) -> None:
    for name in OWN:
        settings = load_settings(environ=composed[name]["environment"], folder=ROOT / "docker").settings
        assert settings.kafka["bootstrap.servers"] in composed["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
        assert settings.elasticsearch.url == "http://elasticsearch:9200"
        folders = [settings.lake.path, settings.stack.home or ""]
        assert all(folder.startswith("/data/") for folder in folders)
        assert composed[name]["volumes"] == ["data:/data"]
        if name == "gateway":
            assert settings.gateway.is_local
            assert not Cookies(settings.gateway).is_secure, "a browser keeps no secure cookie of a server without TLS"
            assert set(settings.gateway.hosts) == {"localhost", "127.0.0.1"}
            assert composed[name]["ports"] == [f"127.0.0.1:{settings.gateway.port}:{settings.gateway.port}"]
        assert f"{settings.stack.home}/{name}.json" in composed[name]["healthcheck"]["test"][-1]


def test_the_dockerfile_starts_from_the_versions_of_the_code() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    assert f"FROM {versions.PYTHON_IMAGE}\n" in text
    assert f"openjdk-{versions.JAVA_MINIMUM}-jre-headless" in text
