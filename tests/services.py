"""Where the tests' Kafka and Elasticsearch come from: environment, docker, or the project's own `stack/`.

An engine that is there but cannot run the images is an error, not a reason to take another way quietly.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from metajournal.stack.kafka import SETTINGS as KAFKA_SETTINGS
from metajournal.stack.ports import free_ports
from metajournal.stack.progress import shown
from metajournal.stack.services import Stack
from metajournal.stack.versions import ELASTICSEARCH_IMAGE, KAFKA_IMAGE
from tests.wait import eventually

KAFKA = "METAJOURNAL_TEST_KAFKA"
ELASTICSEARCH = "METAJOURNAL_TEST_ELASTICSEARCH"


@dataclass(frozen=True)
class Services:
    """Endpoints, and a sentence on where they come from."""

    bootstrap_servers: str
    elasticsearch_url: str
    source: str


def planned_source() -> str:
    """What `provide` will do, said before anything is started."""
    if given():
        return f"{KAFKA}, {ELASTICSEARCH}"
    return "testcontainers" if docker_answers() else "stack/ (no docker engine answers)"


def given() -> bool:
    """Whether the environment names both services.

    Raises:
        RuntimeError: it names only one of them.
    """
    named = [bool(os.environ.get(name)) for name in (KAFKA, ELASTICSEARCH)]
    if any(named) and not all(named):
        raise RuntimeError(f"Set both {KAFKA} and {ELASTICSEARCH}, or neither.")
    return all(named)


@lru_cache(maxsize=1)
def docker_answers() -> bool:
    """Whether a docker engine answers a ping (asked by hand: docker's client leaves sockets open when none does)."""
    place = urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
    local = place.scheme == "unix"
    try:
        with socket.socket(socket.AF_UNIX if local else socket.AF_INET) as engine:
            engine.settimeout(3)
            engine.connect(place.path if local else (place.hostname or "127.0.0.1", place.port or 2375))
            engine.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 " in engine.recv(256)
    except OSError:
        return False


@contextmanager
def provide(folder: Path) -> Iterator[Services]:
    """The services for a whole run."""
    if given():
        yield Services(os.environ[KAFKA], os.environ[ELASTICSEARCH], "environment")
    elif docker_answers():
        with in_containers() as services:
            yield services
    else:
        with shown() as report, Stack(folder, report=report, broker_heap_mib=1_536) as stack:
            yield Services(stack.bootstrap_servers, stack.elasticsearch_url, f"stack/ in {folder}")


@contextmanager
def shared(folder: Path) -> Iterator[Services]:
    """The services of all processes of a run: the first that asks starts them, and ends them when the last is done.

    Args:
        folder: the run's own, the same one for each of its processes.
    """
    place = folder / "services.json"
    with (folder / "services.lock").open("a") as lock, (folder / "services.users").open("a") as users:
        flock(lock, LOCK_EX)
        if place.exists():
            flock(users, LOCK_SH)
            flock(lock, LOCK_UN)
            yield Services(**json.loads(place.read_text()))
            return
        with provide(folder / "services") as running:
            place.write_text(json.dumps(asdict(running)))
            flock(lock, LOCK_UN)
            try:
                yield running
            finally:
                flock(lock, LOCK_EX)
                place.unlink()  # who asks from now on starts others
                flock(lock, LOCK_UN)
                flock(users, LOCK_EX)  # nobody uses these any more


@contextmanager
def in_containers() -> Iterator[Services]:
    """The official images in the versions that stack/versions.py names, with the settings that stack/ gives its own."""
    from testcontainers.core.container import DockerContainer

    (port,) = free_ports(1)
    kafka = DockerContainer(KAFKA_IMAGE).with_bind_ports(9092, port)
    host = kafka.get_container_host_ip()
    for key, value in kafka_environment(f"{host}:{port}").items():
        kafka.with_env(key, value)
    search = DockerContainer(ELASTICSEARCH_IMAGE).with_exposed_ports(9200)
    for key, value in ELASTICSEARCH_ENVIRONMENT.items():
        search.with_env(key, value)
    with kafka, search:
        services = Services(f"{host}:{port}", f"http://{host}:{search.get_exposed_port(9200)}", "testcontainers")
        eventually(lambda: both_answer(services), 180, "an answer of both containers")
        yield services


ELASTICSEARCH_ENVIRONMENT = {
    "discovery.type": "single-node",
    "xpack.security.enabled": "false",
    "cluster.routing.allocation.disk.threshold_enabled": "false",
    "ES_JAVA_OPTS": "-Xms512m -Xmx512m",
}


def kafka_environment(advertised: str) -> dict[str, str]:
    """The broker's settings as the image takes them: KAFKA_ and the key in capitals, dots as underscores."""
    own = {
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "listeners": "CLIENT://:9092,CONTROLLER://127.0.0.1:9093",
        "advertised.listeners": f"CLIENT://{advertised}",
    }
    return {f"KAFKA_{key.replace('.', '_').upper()}": value for key, value in {**KAFKA_SETTINGS, **own}.items()}


def both_answer(services: Services) -> bool:
    """Whether both tell something about themselves."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from elasticsearch import ApiError, Elasticsearch, TransportError

    try:
        AdminClient({"bootstrap.servers": services.bootstrap_servers, "log_level": 0}).list_topics(timeout=2)
        with Elasticsearch(services.elasticsearch_url) as search:
            search.cluster.health(wait_for_status="yellow", timeout="2s")
    except (KafkaException, ApiError, TransportError):
        return False
    return True
