"""Logging in and out: a key or a one-time code becomes a session, by events whose verdicts are waited for.

A code is revoked as the row that its buyer saw, and then the session is issued; so of two buyers, in whichever
processes, one gets a session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, cast

from ..client import Journal
from ..schemas.endpoints import Endpoint, Request
from ..schemas.errors import OperatorError, RejectedError, UnauthenticatedError, UnavailableError
from ..schemas.registry import domains_in, role
from .conditions import Wish
from .limits import Buckets, Failures
from .principals import CODE, SESSION, Principal, Principals
from .sessions import SessionsFile
from .writing import PENDING, Writer

WRITTEN: Final = Endpoint("POST", "/", "An event of a page.")
"""By which an answer to it is made."""
_FAILURES: Final = 10
_FORGOTTEN_S: Final = 6.0
_HEARD_S: Final = 10.0
_ASKED_AGAIN_S: Final = 0.01


class LoginFailedError(UnauthenticatedError):
    """Nobody is logged in by what was given."""

    CODE = "login-failed"
    HINT = "Use a key that is issued and not revoked, or a one-time code that nobody has used yet."


class Logins:
    """Begins and ends sessions; of one loop.

    Args:
        journal: one of whose domains has sessions.
        principals: who may ask.
        writer: emits the events.
        wait_s: seconds to wait for a verdict.
        buckets: how much one key may ask: each session that is opened counts as a request.
    """

    def __init__(
        self, journal: Journal, principals: Principals, writer: Writer, wait_s: float, buckets: Buckets
    ) -> None:  # fmt: skip
        self._journal = journal
        self._principals = principals
        self._writer = writer
        self._file = _sessions_file(journal.epochs.domains)
        self._wait_s = wait_s
        self._buckets = buckets
        self._failures = Failures(_FAILURES, _FORGOTTEN_S)

    @property
    def lasts_s(self) -> int:
        """Seconds that a session lasts."""
        return self._events.LASTS_S

    async def by_key(self, text: str, sender: str) -> str:
        """A session's key, for a key or a one-time code.

        Args:
            sender: the address by which failures are counted.
        Raises:
            LoginFailedError: it is neither, has ended, or was used before.
            HttpError: 429: too much from this address failed, or the key asks for too much.
            UnavailableError: it cannot be told now.
        """
        self._failures.check(sender)
        given = text.strip()
        principal = self._principals.who(given) or await self._principals.newest(given)
        if principal is None or principal.use == SESSION:
            self._failures.add(sender)
            raise LoginFailedError("This is not a key or a code that is valid now.")
        self._buckets.take(principal.key_id)
        if principal.use == CODE:
            await self._use(principal, sender)
        return await self._opened(principal)

    async def by_name(self, tenant: str, name: str) -> str:
        """A session's key, for somebody whom a trusted proxy names.

        Raises:
            LoginFailedError: there is no such principal.
            HttpError: 429: too many sessions in their name are opened at once.
            UnavailableError: it cannot be told now.
        """
        principal = self.named(tenant, name)
        if principal is None:
            raise LoginFailedError(
                f"The proxy in front of this server says that you are {name!r:.140}, and there is no such principal.",
                hint=f"Ask an administrator for it: `metajournal access register {name:.130}`.",
            )
        self._buckets.take(f"{tenant}/{name}")
        return await self._opened(principal)

    def named(self, tenant: str, name: str) -> Principal | None:
        """A principal of a name. Raises: UnavailableError."""
        return self._principals.named(tenant, name)

    async def end(self, principal: Principal) -> None:
        """End a session; one that has ended meanwhile stays so. Raises: UnavailableError, OutcomeUnknownError."""
        with suppress(RejectedError):
            await self._emit(principal, self._events.ended(principal.actor, principal.key_id), None)

    async def _use(self, code: Principal, sender: str) -> None:
        try:
            await self._emit(code, self._events.ended(code.actor, code.key_id), code.issued)
        except RejectedError as error:
            self._failures.add(sender)
            raise LoginFailedError("This code was used already.", hint="Ask for another one.") from error

    async def _opened(self, principal: Principal) -> str:
        """A new session, once this process takes its key."""
        key, event = self._events.issued(principal.actor, _now_ms())
        for stale in self._events.stale(self._journal, principal.tenant, principal.actor, _now_ms()):
            await self._emit(principal, stale, None, wait_s=0.0)
        await self._emit(principal, event, None)
        if not await self.is_heard(key, _HEARD_S):
            raise UnavailableError("The new session was not heard of in time.", hint="Log in again.")
        return key

    async def is_heard(self, key: str, timeout_s: float) -> bool:
        """Whether a session's key is taken in this process, within some seconds."""
        until = time.monotonic() + timeout_s
        while self._principals.who(key) is None:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(_ASKED_AGAIN_S)
        return True

    async def _emit(
        self, principal: Principal, event: Any, expected: int | None, wait_s: float | None = None
    ) -> None:  # fmt: skip
        now_ms = _now_ms()
        asked = Request({}, {}, None, principal.tenant, principal.actor, now_ms)
        answer = await self._writer.write(
            WRITTEN, asked, event, Wish(expected, None, now_ms, self._wait_s if wait_s is None else wait_s)
        )
        if answer.value["outcome"] == PENDING and wait_s is None:
            raise UnavailableError("The verdict did not come in time.", hint="Log in again in a moment.")

    @property
    def _events(self) -> SessionsFile:
        if self._file is None:
            raise OperatorError("This journal has no sessions.", hint="Serve a journal that has principals and keys.")
        return self._file


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _sessions_file(topic_domains: Iterable[str]) -> SessionsFile | None:
    names = dict.fromkeys(domain.name for topic in topic_domains for domain in domains_in(topic))
    files = (role(name, "sessions") for name in names)
    return next((cast(SessionsFile, file) for file in files if file is not None), None)
