"""A real server in this process, and what tests send to it over a socket: paths go as they are written."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from metajournal import EntityRegistered, Journal, dataset
from metajournal.commands.serving import principals_of
from metajournal.domains.access.rights import Rights
from metajournal.gateway.principals import Principal, Principals
from metajournal.gateway.server import Serving, serving_settings, uvloop_runner
from metajournal.producers.waiting.futures import AwaitableFuture
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import (
    ElasticsearchSettings,
    GatewaySettings,
    JournalSettings,
    LakeSettings,
    Settings,
)
from tests.consumers.stream import BrokerStream
from tests.gateway.shapes import check_answer
from tests.services import Services
from tests.wait import eventually

ADMIN, READER, TEAM_A, OTHER = "admin", "reader", "team-a", "other"


class PlainPrincipals:
    """Keys that are their principals' names."""

    def __init__(self) -> None:
        self.by_key = {
            key: Principal(tenant, key, key, Rights([(role, pattern)], {}))
            for key, tenant, role, pattern in (
                (ADMIN, "default", "admin", "*"), (READER, "default", "analyst", "*"),
                (TEAM_A, "default", "developer", "dataset:team-a/*"), (OTHER, "another", "admin", "*"),
            )
        }  # fmt: skip
        self.is_heard = True
        self.knows = True
        """Whether it knows what an event changed, as soon as it is judged."""
        self.awaited: list[AwaitableFuture[None]] = []

    def who(self, key: str) -> Principal | None:
        return self.by_key.get(key)

    async def newest(self, key: str) -> Principal | None:
        return self.who(key)

    def named(self, tenant: str, name: str) -> Principal | None:
        return next((one for one in self.by_key.values() if (one.tenant, one.actor) == (tenant, name)), None)

    def heard(self) -> bool:
        return self.is_heard

    def held(self, position: Position) -> AwaitableFuture[None]:
        future: AwaitableFuture[None] = AwaitableFuture()
        if self.knows:
            future.set_result(None)
        else:
            self.awaited.append(future)
        return future

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class Got:
    """An answer; names of headers in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Asked:
    """A server that answers.

    Args:
        address: host and port.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(
        self, method: str, path: str, body: Any = None, *, key: str | None = ADMIN, address: str | None = None,
        **headers: str,
    ) -> Got:  # fmt: skip
        """Send a request on a connection of its own; names of headers have `_` for `-`."""
        connection = HTTPConnection(address or self.address, timeout=60)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if key is not None:
                sent.setdefault("Authorization", f"Bearer {key}")
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            got = Got(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read())
        finally:
            connection.close()
        check_answer(method, path, got.status, got.body)
        return got

    def get(self, path: str, **more: Any) -> Got:
        return self.ask("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Got:
        return self.ask("POST", path, body, **more)

    def delete(self, path: str, **more: Any) -> Got:
        return self.ask("DELETE", path, **more)


class Served(Asked):
    """A server that runs in this process.

    Attributes:
        journal: what it serves, as another process would hold it.
        stream: folds when it is told.
        principals: who may ask.
    """

    def __init__(self, journal: Journal, stream: BrokerStream, principals: PlainPrincipals, address: str) -> None:
        super().__init__(address)
        self.journal = journal
        self.stream = stream
        self.principals = principals

    def fold(self) -> None:
        """Have the stream fold everything."""
        self.stream.fold()


def settings_of_server(services: Services, folder: Path) -> Settings:
    """Settings of a new installation, whose lake is in a folder."""
    name = f"t{uuid.uuid4().hex[:10]}"
    return Settings(
        journal=JournalSettings(prefix=name, actor="tests", partitions=2),
        kafka={"bootstrap.servers": services.bootstrap_servers},
        lake=LakeSettings(path=str(folder / "lake")),
        elasticsearch=ElasticsearchSettings(url=services.elasticsearch_url, index=name),
        gateway=GatewaySettings(port=0, operator="127.0.0.1:0", drain_s=0, requests_per_s=0),
    )


@contextmanager
def served(settings: Settings, *, real: bool = False, topics: Any = None) -> Iterator[Served]:
    """A server over a journal of some settings, until the block ends; with a lake that holds one event of each
    partition.

    Args:
        real: its principals are those of the journal, where `ADMIN` is one already.
        topics: what the stream publishes to; topics in memory where None.
    """
    with Journal.connect(serving_settings(settings)) as journal, Journal.connect(settings) as other:
        stream = BrokerStream(settings, topics)
        for number in range(8):
            journal.emit(EntityRegistered(dataset("lake", f"d{number}")))
        journal.flush()
        stream.fold()
        principals = PlainPrincipals()
        asked: Principals = principals
        if real:
            asked = principals_of(journal, 30)
        with closing(asked), running(journal, asked, settings) as address:
            yield Served(other, stream, principals, address)


@contextmanager
def beside(settings: Settings) -> Iterator[str]:
    """One more server before a journal, with principals of its own; gives its address."""
    with Journal.connect(settings) as journal, closing(principals_of(journal, 30)) as principals:
        eventually(principals.heard)
        with running(journal, principals, settings) as address:
            yield address


@contextmanager
def running(journal: Journal, principals: Principals, settings: Settings) -> Iterator[str]:
    """A server in a thread of its own; gives its address, and ends it as SIGTERM would."""
    address: Future[str] = Future()
    handles: Future[tuple[asyncio.AbstractEventLoop, Serving]] = Future()

    async def serve() -> None:
        serving = Serving(journal, principals, settings.gateway)
        handles.set_result((asyncio.get_running_loop(), serving))
        await serving.run(address.set_result)

    def run() -> None:
        try:
            with uvloop_runner() as runner:
                runner.run(serve())
        except BaseException as error:
            if not address.done():
                address.set_exception(error)
            raise

    thread = threading.Thread(target=run, name="server")
    thread.start()
    try:
        yield address.result(60).partition("//")[2]
    finally:
        loop, serving = handles.result(60)
        loop.call_soon_threadsafe(serving.end)
        thread.join(60)
        assert not thread.is_alive()
