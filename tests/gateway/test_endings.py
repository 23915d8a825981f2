"""Gateways that are killed or ended while they write, and ones with thousands of idle connections.

A request that is sent again with its key counts once, whichever process answers; what was answered is there; what a
server that ends has taken is answered.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

import pytest

from metajournal import EntityRegistered, dataset
from metajournal.gateway.server import _listening
from metajournal.producers.ids import EventIds
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import ConfigError
from metajournal.schemas.ids import id_text
from metajournal.schemas.settings import Settings
from tests.faults.scale import seeded, times
from tests.gateway.browsing import member
from tests.gateway.serving import Served, served
from tests.processes import Running, running
from tests.wait import eventually

pytestmark = pytest.mark.services
_GATEWAY = """
import pickle, sys
settings, *_ = pickle.load(sys.stdin.buffer)
from metajournal import Journal
from metajournal.commands.serving import principals_of
from metajournal.gateway.server import serve, serving_settings
with Journal.connect(serving_settings(settings)) as journal:
    principals = principals_of(journal, 30)
    try:
        serve(journal, principals, settings.gateway, lambda address: print("SERVING", address, flush=True))
    finally:
        principals.close()
"""
_WRITERS: Final = 4
_CONNECTIONS: Final = 2000
_BUSY: Final = (401, 503)
"""Answers of a process that has not heard of rights yet."""


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A server that sees it all from beside, and whose stream folds when it is asked to."""
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as found:
        yield found


@pytest.fixture(scope="module")
def key(server: Served) -> str:
    return member(server.journal, "writer", ("admin", "*"))


@contextmanager
def process(settings: Settings, folder: Path, key: str) -> Iterator[tuple[Running, str]]:
    """A gateway in a process of its own that knows the key, and its address."""
    log = folder / f"gateway-{time.monotonic_ns()}.log"
    with running(_GATEWAY, settings, log) as found:
        told = "SERVING http://"
        eventually(lambda: told in log.read_text() or found.process.poll() is not None, 60, "an address")
        assert found.process.poll() is None, found.tail()
        address = log.read_text().partition(told)[2].split()[0]
        eventually(lambda: ask(address, key, "GET", "/api/v1/access/me")[0] == 200, 30, "its rights")
        yield found, address


def ask(address: str, key: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    """A request on a connection of its own. Raises: OSError, HTTPException: it was not answered."""
    connection = HTTPConnection(address, timeout=60)
    try:
        return sent(connection, key, method, path, body, **headers)
    finally:
        connection.close()


def sent(
    connection: HTTPConnection, key: str, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, bytes]:  # fmt: skip
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(
        method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {key}", **named}
    )
    answer = connection.getresponse()
    return answer.status, answer.read()


@dataclass
class Writer:
    """Adds a tag after another to an entity of its own, each by a request with a key of its own.

    Attributes:
        answered: the tags whose requests were answered, each with its event and status.
        open: the tag and key of the request that has no answer.
    """

    name: str
    key: str
    answered: dict[str, tuple[str, int]] = field(default_factory=dict)
    open: tuple[str, str] | None = None
    ids: EventIds = field(default_factory=EventIds)

    @property
    def path(self) -> str:
        return f"/v3/namespaces/ends/datasets/{self.name}/metadata/tags"

    def write(self, address: str, *, retries: bool) -> None:
        """Send requests on one connection until the server is gone; first the one that has no answer, if so wished."""
        connection = HTTPConnection(address, timeout=60)
        try:
            while True:
                if self.open is None or not retries:
                    number = len(self.answered) + (self.open is not None)
                    self.open = f"t{number}", id_text(self.ids(time.time_ns() // 1_000_000))
                tag, own = self.open
                status, body = sent(connection, self.key, "POST", self.path, [tag], Idempotency_Key=own)
                if status in _BUSY:
                    continue
                assert status in (200, 202), body
                self.answered[tag] = own, status
                self.open = None
        except (OSError, HTTPException):
            return
        finally:
            connection.close()


@contextmanager
def writing(writers: list[Writer], address: str, *, retries: bool) -> Iterator[None]:
    """All of them write until their server is gone, which the block sees to."""
    threads = [threading.Thread(target=one.write, args=(address,), kwargs={"retries": retries}) for one in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def writers_of(server: Served, key: str, of: str) -> list[Writer]:
    found = [Writer(f"{of}{number}", key) for number in range(_WRITERS)]
    for one in found:
        server.journal.emit(EntityRegistered(dataset("ends", one.name)))
    server.journal.flush()
    return found


def more(writers: list[Writer], count: int) -> Callable[[], bool]:
    """Whether so many more requests were answered since now."""
    before = sum(len(one.answered) for one in writers)
    return lambda: sum(len(one.answered) for one in writers) >= before + count


def assert_each_once(server: Served, writer: Writer) -> None:
    """What was answered is there, and the rules accepted each event once."""
    shown = server.get(writer.path, key=writer.key).json
    assert set(writer.answered) <= set(shown) <= {*writer.answered, writer.open and writer.open[0]}
    for own, _ in writer.answered.values():
        places = server.get(f"/api/v1/events/{own}", key=writer.key).json["places"]
        assert sorted(one["outcome"] for one in places) == ["accepted"] + ["duplicate"] * (len(places) - 1)


def test_gateways_that_are_killed_while_they_write_lose_and_double_nothing(
    server: Served, key: str, gateway_settings: Settings, tmp_path: Path
) -> None:
    draw = seeded("gateway kills")
    writers = writers_of(server, key, "killed")
    repeated = 0
    for _ in range(times(3, 30)):
        repeated += sum(one.open is not None for one in writers)
        with process(gateway_settings, tmp_path, key) as (found, address), writing(writers, address, retries=True):
            eventually(more(writers, draw.randrange(5, 80)), 60, "answers")
            found.kill()
    assert repeated, "nothing was under way at any kill"
    server.fold()
    for one in writers:
        assert_each_once(server, one)


def test_what_a_server_that_ends_has_taken_is_answered(
    server: Served, key: str, gateway_settings: Settings, tmp_path: Path
) -> None:
    writers = writers_of(server, key, "ended")
    for _ in range(times(2, 20)):
        with process(gateway_settings, tmp_path, key) as (found, address), writing(writers, address, retries=False):
            eventually(more(writers, 40), 60, "answers")
            found.process.send_signal(signal.SIGTERM)
            assert found.ended(30) == 0, found.tail()
        server.fold()
        for one in writers:
            if one.open is not None:
                assert server.get(f"/api/v1/events/{one.open[1]}", key=key).status == 404, "taken and not answered"
            one.open = None
    for one in writers:
        assert_each_once(server, one)


def free_port() -> int:
    """A port of this machine that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_two_processes_share_a_port_and_one_goes_on_where_the_other_ends(
    server: Served, key: str, gateway_settings: Settings, tmp_path: Path
) -> None:
    port, operators = free_port(), [f"127.0.0.1:{free_port()}" for _ in range(2)]
    shared = replace(gateway_settings.gateway, port=port, reuse_port=True)
    first, second = (replace(gateway_settings, gateway=replace(shared, operator=one)) for one in operators)

    def answered(operator: str) -> bool:
        """Whether a process has answered what is asked here; each connection is one process's or the other's."""
        assert ask(address, key, "GET", "/api/v1/access/roles")[0] == 200
        return b'endpoint="GET /api/v1/access/roles"' in ask(operator, key, "GET", "/metrics")[1]

    with process(first, tmp_path, key) as (one, address), process(second, tmp_path, key) as (_, same):
        assert address == same == f"127.0.0.1:{port}"
        with pytest.raises(ConfigError, match="cannot be listened on") as refused:
            _listening("127.0.0.1", port, "gateway.operator", reuse=False)
        assert refused.value.hint == "Set another gateway.operator."
        for operator in operators:
            eventually(partial(answered, operator), 30, f"an answer of the process at {operator}")
        one.process.send_signal(signal.SIGTERM)
        assert one.ended(30) == 0, one.tail()
        assert {ask(address, key, "GET", "/api/v1/access/me")[0] for _ in range(20)} == {200}


def test_thousands_of_idle_connections_cost_little_and_keep_nobody_waiting(
    server: Served, key: str, gateway_settings: Settings, tmp_path: Path
) -> None:
    with process(gateway_settings, tmp_path, key) as (found, address), ExitStack() as stack:
        host, _, port = address.partition(":")
        before = pss_mib(found)
        for _ in range(_CONNECTIONS):
            one = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            one.sendall(b"GET /openapi")
        began = time.monotonic()
        assert ask(address, key, "GET", "/api/v1/access/me")[0] == 200
        assert time.monotonic() - began < 5
        eventually(lambda: connections(found) >= _CONNECTIONS, 30, "all of them are taken")
        assert pss_mib(found) - before < 60
        stack.close()
        eventually(lambda: connections(found) < 100, 30, "none of them is kept")


def pss_mib(one: Running) -> float:
    lines = Path(f"/proc/{one.process.pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def connections(one: Running) -> int:
    """Descriptors that are sockets."""
    found = 0
    for descriptor in Path(f"/proc/{one.process.pid}/fd").iterdir():
        with suppress(OSError):
            found += str(descriptor.readlink()).startswith("socket:")
    return found
