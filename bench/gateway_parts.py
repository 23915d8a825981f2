"""Clients over kept connections, and what the figures of the gateway share."""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.serving import Server
from bench.steady import processes_of
from metajournal.client import Journal

_STREAM: Final = frozenset({"stream", "org.apache.spark", "streaming.derived"})


Figure = dict[str, Any]


class Answer(NamedTuple):
    """An answer and how long it took, milliseconds."""

    status: int
    body: bytes
    took_ms: float


class Client:
    """One connection that is kept.

    Args:
        address: host and port.
        key: of who asks.
    """

    def __init__(self, address: str, key: str) -> None:
        self._connection = HTTPConnection(address, timeout=120)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = {"Authorization": f"Bearer {key}"}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request, and read its answer to the end."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
        began = time.perf_counter()
        self._connection.request(method, path, data, sent)
        answer = self._connection.getresponse()
        read = answer.read()
        return Answer(answer.status, read, (time.perf_counter() - began) * 1000)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def client(address: str, key: str) -> Iterator[Client]:
    """A connection, until the block ends."""
    found = Client(address, key)
    try:
        yield found
    finally:
        found.close()


def key_for(journal: Journal, name: str, servers: Sequence[Server], *grants: tuple[str, str]) -> tuple[str, str]:
    """The text and id of a key of a new principal, once every server knows it; without grants it may do everything."""
    journal.access.register(name)
    journal.access.grant(name, *(grants or [("admin", "*")]))
    key, receipt = journal.access.issue_key(name)
    receipt.position  # noqa: B018  (acknowledged)
    for server in servers:
        with client(server.address, key.text) as one:
            wait_until(lambda one=one: one.ask("GET", "/api/v1/access/me").status == 200)  # type: ignore[misc]
    return key.text, key.id


def wait_until(check: Callable[[], Any], timeout_s: float = 60.0) -> None:
    """Return once something is so. Raises: TimeoutError."""
    until = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > until:
            raise TimeoutError("what is measured did not begin in time")
        time.sleep(0.01)


def stream_pids(home: Path) -> list[int]:
    """The processes that fold, of an installation that `up` has started."""
    return [pid for pid, name in processes_of(str(home)) if name in _STREAM]


def at_once(count: int, call: Callable[[int], None]) -> None:
    """Call something in so many threads, and wait for all."""
    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def p50(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """What one in a hundred exceeds."""
    return statistics.quantiles(values, n=100, method="inclusive")[98]


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        entities: datasets that the lake holds.
        probes: of each figure that is a median.
        rate: writes a second under load.
        connections: that share them.
        seconds: of that load.
        waiting: requests that wait at once.
        events: sent as lines.
        feeds: that are open at once.
        changes: that they are sent.
        keys: that are revoked.
    """

    entities: int = 100_000
    probes: int = 300
    rate: int = 200
    connections: int = 32
    seconds: int = 60
    waiting: int = 1_000
    events: int = 50_000
    feeds: int = 200
    changes: int = 100
    keys: int = 100


SMALL: Final = Sizes(200, 12, 20, 4, 3, 40, 2_000, 12, 6, 4)
"""Enough to see that each runs."""


class Bench:
    """What every figure needs.

    Attributes:
        journal: the same journal, in this process.
        servers: two processes.
        key: of who may do everything.
    """

    def __init__(self, home: Path, journal: Journal, served: list[Server], sizes: Sizes) -> None:
        self.home, self.journal, self.servers, self.sizes = home, journal, served, sizes
        self.key, _ = key_for(journal, "bench", served)

    def client(self, number: int = 0) -> Any:
        """A connection to one of the servers, as a context manager."""
        return client(self.servers[number].address, self.key)

    @contextmanager
    def halted(self) -> Iterator[None]:
        """The stream stands still until the block ends."""
        pids = stream_pids(self.home)
        if not pids:
            raise RuntimeError("no process of the stream is at work")
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


def ms(name: str, value: float, limit: float, **more: Any) -> Figure:
    """A figure in milliseconds with its limit."""
    return {"name": name, "value": value, "limit": limit, "ratio": value / limit, "unit": "ms", "most": 1.0, **more}


def expect(value: Any, wanted: Any) -> None:
    """Stop where an answer is not what it must be. Raises: AssertionError."""
    if value != wanted:
        raise AssertionError(f"the answer was {value!r}, not {wanted!r}")
