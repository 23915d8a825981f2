"""The process: sockets, TLS, the operator's port, and how it ends.

SIGTERM: `/readyz` says no at once, so balancers look elsewhere; after `drain_s` no connection is taken; whoever waits
for a verdict is answered without it, and then the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import uvicorn
import uvloop
from starlette.middleware.cors import CORSMiddleware

from ..client import Journal
from ..cycles import rarely_sought
from ..schemas.errors import ConfigError
from ..schemas.settings import GatewaySettings, Settings
from .app import Gateway
from .bulk import publish_schemas
from .health import Operator, Readiness
from .principals import Principals
from .protocol import DeadlinedProtocol

_log = logging.getLogger("metajournal.gateway")
_BACKLOG: Final = 2048
_MOST_PORT: Final = 65_535
_KEEP_ALIVE_S: Final = 75
_ANSWERED_S: Final = 30
"""Seconds for those who are being answered when the server ends."""
_EXPOSED: Final = (
    "ETag", "Link", "Location", "Retry-After", "X-Request-Id", "Metajournal-Position", "Metajournal-Event-Id",
    "Metajournal-Outcome", "Metajournal-Withheld", "Metajournal-Final", "Idempotency-Replayed",
)  # fmt: skip


def serve(
    journal: Journal, principals: Principals, settings: GatewaySettings, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Answer requests until SIGTERM or SIGINT.

    Args:
        journal: what is served.
        principals: who may ask.
        settings: the section `[gateway]`.
        ready: called with the address, once requests are answered.
    Raises:
        ConfigError: it would be reached from other machines without TLS, or an address cannot be had.
    """
    check_reach(settings)
    with rarely_sought(), uvloop_runner() as runner:
        runner.run(Serving(journal, principals, settings).run(ready))


@contextmanager
def uvloop_runner() -> Iterator[asyncio.Runner]:
    """An event loop of uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


def serving_settings(settings: Settings) -> Settings:
    """The settings of the journal that a process serves: less stays in memory, and any process takes its cursors."""
    client = replace(settings.client, kept_bytes=settings.gateway.kept_bytes, short_cursors=False)
    return replace(settings, client=client)


def check_reach(settings: GatewaySettings) -> None:
    """Refuse to be reached from other machines without TLS. Raises: ConfigError."""
    if (settings.certificate is None) != (settings.private_key is None):
        raise ConfigError("gateway.certificate and gateway.private_key belong together.", hint="Set both, or neither.")
    if not settings.is_local and settings.certificate is None and not settings.behind_proxy:
        raise ConfigError(
            f"gateway.host is {settings.host}, which other machines reach, but there is no TLS: keys would be sent "
            "in the clear.",
            hint="Set gateway.certificate and gateway.private_key, or gateway.behind_proxy = true if a proxy does TLS. "
            "If the port is published on this machine alone, set gateway.loopback_only = true.",
            key="gateway.host",
        )


class Serving:
    """One process that serves.

    Args:
        journal, principals, settings: as of `serve`.
    """

    def __init__(self, journal: Journal, principals: Principals, settings: GatewaySettings) -> None:
        self._journal = journal
        self._principals = principals
        self._settings = settings
        self._ending = asyncio.Event()

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve until told to end."""
        settings = self._settings
        with ThreadPoolExecutor(1) as once:  # whose thread is not kept
            emitter, domains = self._journal.emitter, self._journal.epochs.domains
            await asyncio.get_running_loop().run_in_executor(once, publish_schemas, emitter, domains)
        gateway = Gateway(self._journal, self._principals, settings)
        readiness = Readiness(self._journal, self._principals)
        app: Any = gateway
        if settings.cors_origins:
            app = CORSMiddleware(
                gateway, allow_origins=settings.cors_origins, allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["*"], expose_headers=_EXPOSED,
            )  # fmt: skip
        public = _Server(_config(app, settings, tls=True))
        sockets = [_listening(settings.host, settings.port, "gateway.port", reuse=settings.reuse_port)]
        operator, operator_sockets = self._operator(readiness, gateway)
        self._take_signals()
        serving = [asyncio.ensure_future(public.serve(sockets))]
        if operator is not None:
            serving.append(asyncio.ensure_future(operator.serve(operator_sockets)))
        await _started(public)
        address = f"{'https' if settings.certificate else 'http'}://{_address_of(sockets[0])}"
        _log.info("Serving at %s", address, extra={"data": {"address": address}})
        ready(address)
        await self._until_end(gateway, readiness, serving[0])
        await _end(public, serving[0])
        await gateway.close()
        if operator is not None:
            await _end(operator, serving[1])

    def _operator(self, readiness: Readiness, gateway: Gateway) -> tuple[_Server | None, list[socket.socket]]:
        if not self._settings.operator:
            return None, []
        host, _, port = self._settings.operator.rpartition(":")
        if not host or not port.isdecimal() or int(port) > _MOST_PORT:
            raise ConfigError(
                f"gateway.operator must be HOST:PORT, with a port of at most {_MOST_PORT}, "
                f"not {self._settings.operator!r}.",
                key="gateway.operator",
            )
        app = Operator(readiness, gateway.figures.figures)
        return _Server(_config(app, self._settings, tls=False)), [
            _listening(host, int(port), "gateway.operator", reuse=False)
        ]

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(ValueError, RuntimeError):  # not in the main thread: whoever runs it there calls `end`
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._ending.set)

    def end(self) -> None:
        """Begin to end; on the loop."""
        self._ending.set()

    async def _until_end(self, gateway: Gateway, readiness: Readiness, serving: asyncio.Future[None]) -> None:
        ending = asyncio.ensure_future(self._ending.wait())
        waited: set[asyncio.Future[Any]] = {ending, serving}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        readiness.ending = True
        _log.info("Ending: no new connection after %g s.", self._settings.drain_s)
        if not serving.done():
            await asyncio.sleep(self._settings.drain_s)
        gateway.writer.leaving.set()


class _Server(uvicorn.Server):
    """A server whose signals are the process's own affair."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: Any, settings: GatewaySettings, *, tls: bool) -> uvicorn.Config:
    return uvicorn.Config(
        app, http=DeadlinedProtocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        proxy_headers=False, timeout_keep_alive=_KEEP_ALIVE_S, timeout_graceful_shutdown=_ANSWERED_S,
        ssl_certfile=settings.certificate if tls else None, ssl_keyfile=settings.private_key if tls else None,
    )  # fmt: skip


def _listening(host: str, port: int, key: str, *, reuse: bool) -> socket.socket:
    """A socket that takes connections. Raises: ConfigError: the address, which a setting names, cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        why = error.strerror or str(error)
        raise ConfigError(
            f"{host}:{port} cannot be listened on: {why}.", hint=f"Set another {key}.", key=key
        ) from error
    listening.setblocking(False)
    return listening


def _address_of(listening: socket.socket) -> str:
    host, port, *_ = listening.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _started(server: uvicorn.Server) -> None:
    while not server.started:
        await asyncio.sleep(0.01)


async def _end(server: uvicorn.Server, serving: asyncio.Future[None]) -> None:
    server.should_exit = True
    await serving
