"""Kafka and Elasticsearch together, in one folder: `with Stack(home) as s: s.bootstrap_servers, s.elasticsearch_url`.

What a Stack starts ends with the block, and with this process however it ends. Leaving them running is
`supervisor`'s job.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from .elasticsearch import start_elasticsearch
from .jars import ensure_parts
from .kafka import HEAP_MIB, start_kafka
from .parts import Parts
from .progress import Report
from .server import Server

SERVERS: Final = ("kafka", "elasticsearch")


def start_servers(
    parts: Parts, home: Path, *, names: Collection[str] = SERVERS, ports: dict[str, tuple[int, ...]] | None = None,
    lasting: bool = False, broker_heap_mib: int = HEAP_MIB,
) -> dict[str, Server]:  # fmt: skip
    """Start both at the same time; when one fails, or this is interrupted, what came up is stopped again.

    Args:
        home: each has its own folder in it.
        names: those to start.
        ports: those of an earlier run by name, used again when they are free.
        lasting: they will be released to outlive this process.
        broker_heap_mib: as of `start_kafka`.
    Raises:
        ServerStartError, JavaMissingError, JavaVersionError, PrivilegeError: whichever came first.
    """
    known = ports or {}
    starts: dict[str, Callable[[], Server]] = {
        "kafka": partial(
            start_kafka, parts, home / "kafka", ports=known.get("kafka", ()), lasting=lasting, heap_mib=broker_heap_mib
        ),
        "elasticsearch": partial(
            start_elasticsearch, parts, home / "elasticsearch", ports=known.get("elasticsearch", ())
        ),
    }
    up: dict[str, Server] = {}

    def start(name: str) -> None:  # notes it in a thread that no signal interrupts: what is up is always known
        up[name] = starts[name]()

    pool = ThreadPoolExecutor(2)
    try:
        coming = [pool.submit(start, name) for name in SERVERS if name in names]
        wait(coming)
        for future in coming:
            future.result()
    except BaseException:  # whoever is interrupted removes the folder next: nobody may write to it any more
        pool.shutdown()
        for server in up.values():
            server.stop()
        raise
    finally:
        pool.shutdown()
    return {name: up[name] for name in SERVERS if name in up}


class Stack:
    """Both services, for as long as the `with` block lasts.

    Args:
        home: folder of their data; the same folder gives the same data again.
        report: told about downloads, when there are any (see `progress.shown`).
        lasting: they will be released to outlive this process.
        broker_heap_mib: as of `start_kafka`.
    """

    def __init__(
        self, home: Path | str, *, report: Report | None = None, lasting: bool = False, broker_heap_mib: int = HEAP_MIB
    ) -> None:
        self._broker_heap_mib = broker_heap_mib
        self.home = Path(home).absolute()
        self._lasting = lasting
        self._report = report
        self._servers: dict[str, Server] = {}

    def __enter__(self) -> Self:
        parts = ensure_parts(SERVERS, report=self._report)
        self._servers = start_servers(parts, self.home, lasting=self._lasting, broker_heap_mib=self._broker_heap_mib)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in ("elasticsearch", "kafka"):
            server = self._servers.pop(name, None)
            if server is not None:
                server.stop()

    @property
    def servers(self) -> dict[str, Server]:
        """Both, by name."""
        return dict(self._servers)

    @property
    def kafka(self) -> Server:
        return self._servers["kafka"]

    @property
    def elasticsearch(self) -> Server:
        return self._servers["elasticsearch"]

    @property
    def bootstrap_servers(self) -> str:
        """For `bootstrap.servers`."""
        return self.kafka.endpoint

    @property
    def elasticsearch_url(self) -> str:
        return self.elasticsearch.endpoint
