"""The operator's own port: whether a restart would help, whether requests can be answered, and what is counted.

Source: the page of the gateway, "Server".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..client import Journal
from ..metrics import Endpoint as Shown
from ..metrics import Figures
from ..schemas.errors import MetajournalError
from .pages.pipeline import Stage, freshness
from .principals import Principals
from .replies import encoded

_log = logging.getLogger("metajournal.gateway")
_ASKED_S: Final = 2.0
_KEPT_S: Final = 1.0


_NOT_KNOWN: Final = "not known yet"


class Readiness:
    """Whether requests can be answered: rights are heard, Kafka and the lake answer, and the server is not ending.

    How far stream and index are is told beside that and decides nothing: writes and reads of entities need neither.

    Args:
        journal: what is served.
        principals: who may ask.
    Attributes:
        ending: the server takes no more connections soon.
    """

    def __init__(self, journal: Journal, principals: Principals) -> None:
        self._journal = journal
        self._principals = principals
        self.ending = False
        self._kept: tuple[float, dict[str, str]] | None = None
        self._stages: dict[str, str] = {}
        self._asking: asyncio.Task[None] | None = None

    def lost(self) -> str | None:
        """Why only a restart helps; None while the server can work."""
        ended = self._journal.emitter.ended
        return ended and f"Kafka's client has failed and sends nothing more ({ended}): restart this process"

    async def parts(self) -> dict[str, str]:
        """What each part says: "ok", or why not; Kafka and the lake are asked at most once a second."""
        if self._kept is None or time.monotonic() - self._kept[0] > _KEPT_S:
            checks: dict[str, Callable[[], object]] = {"kafka": self._ask_kafka, "lake": self._ask_lake}
            answers = await asyncio.gather(*(_said(check) for check in checks.values()))
            self._kept = time.monotonic(), dict(zip(checks, answers, strict=True))
        rights = "ok" if self._principals.heard() else "rights were not heard of for too long"
        return {"server": "ending" if self.ending else "ok", "rights": rights, **self._kept[1]}

    def stages(self) -> dict[str, str]:
        """How far lake and index are: "ok" where they hold all of the journal, seconds, or why that is not known.

        As it was known when somebody asked last, nothing the first time; they are asked anew beside this, and nobody
        waits for them.
        """
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask_stages())
        return self._stages

    async def _ask_stages(self) -> None:
        try:
            known = await asyncio.to_thread(freshness, self._journal)
        except Exception:  # as of any part
            _log.exception("How far stream and index are could not be asked.")
            return
        self._stages = {one.name: _how_far(one) for one in known.stages}
        if known.problem is not None:
            self._stages = {"journal": known.problem}

    def _ask_kafka(self) -> None:
        self._journal.emitter.check_broker(_ASKED_S)

    def _ask_lake(self) -> None:
        self._journal.lake.views.take(())


class Operator:
    """An ASGI application: `/healthz`, `/readyz`, `/metrics`.

    Args:
        readiness: what `/readyz` and `/healthz` tell.
        figures: what `/metrics` shows.
    """

    def __init__(self, readiness: Readiness, figures: Figures) -> None:
        self._readiness = readiness
        self._registry = CollectorRegistry()
        self._registry.register(Shown(None, figures))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await (await self._answer(Request(scope, receive)))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path: Any = request.scope["path"]
        if request.method not in ("GET", "HEAD"):
            return Response(status_code=405, headers={"Allow": "GET, HEAD"})
        if path == "/healthz":
            lost = self._readiness.lost()
            return Response(f"{lost or 'ok'}\n", 503 if lost else 200, media_type="text/plain")
        if path == "/readyz":
            parts = await self._readiness.parts()
            ready = all(said == "ok" for said in parts.values())
            told = {"ready": ready, **parts, "stages": self._readiness.stages()}
            return Response(encoded(told), 200 if ready else 503, media_type="application/json")
        if path == "/metrics":
            return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
        return Response(status_code=404)


def _how_far(stage: Stage) -> str:
    if stage.behind_s is None:
        return stage.problem or _NOT_KNOWN
    return f"{stage.behind_s:.1f} s behind" if any(stage.lags.values()) else "ok"


async def _said(check: Callable[[], object]) -> str:
    try:
        await asyncio.wait_for(asyncio.to_thread(check), 2 * _ASKED_S)
    except MetajournalError as error:
        return f"{error.code}: {error.message}"
    except TimeoutError:
        return "no answer in time"
    except Exception:  # what asks is told that it is not ready, whatever the reason
        _log.exception("A part could not be asked whether it is ready.")
        return "it failed; see the server's log"
    return "ok"
