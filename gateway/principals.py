"""Who asks, and what they may: the port behind which principals, keys and rights stand.

The gateway serves nobody whom this port does not name. What implements it follows the journal of rights by itself and
refuses by itself where it has not heard of it for too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from ..producers.waiting.futures import AwaitableFuture
from ..schemas.endpoints import Need, Rights
from ..schemas.errors import ForbiddenError
from ..schemas.positions import Position

_LOOK_S: Final = 1.0
"""Seconds until whoever has an unknown key is told that it cannot be told now."""
KEY: Final = "key"
SESSION: Final = "session"
CODE: Final = "code"
_ANYWHERE: Final = {
    "Read": "the right to read anything (ReadEntity, ReadFile and so on)",
    "Write": "the right to write anything (WriteEntity, WriteFile and so on)",
}
"""Rights by a verb alone, of requests that are about no entity."""
_OF_SESSION: Final = {"hint": "Ask somebody who looks after the rights of this journal for it."}


class Principal(NamedTuple):
    """Who asks.

    Args:
        tenant: whose journal.
        actor: who does it, as events say.
        key_id: which key, for logs and limits; never its secret.
        rights: what they may.
        use: what the key is good for: `KEY` as a bearer's, `SESSION` as a cookie, `CODE` for one login.
        not_after: milliseconds UTC after which the key is refused; None: never.
        issued: position at which the key was issued, for `expected`.
    """

    tenant: str
    actor: str
    key_id: str
    rights: Rights
    use: str = KEY
    not_after: int | None = None
    issued: int = 0


class Principals(Protocol):
    """Everybody who may ask."""

    def who(self, key: str) -> Principal | None:
        """Who a key belongs to; None where nobody has it, or it ended.

        Raises:
            UnavailableError: nothing was heard of rights for too long.
        """

    async def newest(self, key: str) -> Principal | None:
        """As `who`, of all that was in the journal when this was asked: a key that nobody has may be a new one."""

    def named(self, tenant: str, name: str) -> Principal | None:
        """A principal that is enabled, whom somebody else vouches for. Raises: as `who`."""

    def heard(self) -> bool:
        """Whether rights are known as they are now."""

    def held(self, position: Position) -> AwaitableFuture[None]:
        """Resolved once what an event changed about rights is known; of any other event it is. Cancelled by whoever
        does not wait any longer."""

    def close(self) -> None:
        """Stop following rights."""


class Directory(Protocol):
    """What follows the journal of rights (`Journal.access`)."""

    def who(self, key: str) -> Any: ...
    def is_key(self, text: str) -> bool: ...
    def wait(self, timeout_s: float) -> None: ...
    def principal(self, tenant: str, name: str) -> Any: ...
    @property
    def is_heard(self) -> bool: ...
    def held(self, position: Position) -> AwaitableFuture[None]: ...
    def close(self) -> None: ...


class Followed:
    """Principals as the journal of rights has them.

    Args:
        directory: what follows it; closed with this.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._look: asyncio.Task[None] | None = None
        self._next_look: asyncio.Task[None] | None = None

    def who(self, key: str) -> Principal | None:
        """As `Principals.who`."""
        return _principal(self._directory.who(key))

    async def newest(self, key: str) -> Principal | None:
        """As `Principals.newest`. All who ask while a look is under way share the next one: whoever guesses keys costs
        no more than one look at a time."""
        if not self._directory.is_key(key):
            return None
        if self._next_look is None:
            self._next_look = asyncio.ensure_future(self._looked(self._look))
            self._next_look.add_done_callback(lambda look: look.cancelled() or look.exception())  # all may have left
        await asyncio.shield(self._next_look)
        return self.who(key)

    async def _looked(self, before: asyncio.Task[None] | None) -> None:
        """One look, behind the one before it. Raises: UnavailableError: the topic's end was not reached in time."""
        if before is not None:
            await asyncio.wait({before})
        self._look, self._next_look = self._next_look, None
        await asyncio.to_thread(self._directory.wait, _LOOK_S)

    def named(self, tenant: str, name: str) -> Principal | None:
        """As `Principals.named`."""
        return _principal(self._directory.principal(tenant, name))

    def heard(self) -> bool:
        """As `Principals.heard`."""
        return self._directory.is_heard

    def held(self, position: Position) -> AwaitableFuture[None]:
        """As `Principals.held`."""
        return self._directory.held(position)

    def close(self) -> None:
        """As `Principals.close`."""
        self._directory.close()


def _principal(who: Any) -> Principal | None:
    if who is None:
        return None
    key = who.key
    if key is None:
        return Principal(who.tenant, who.principal, "", who.rights)
    return Principal(who.tenant, who.principal, key.id, who.rights, key.use, key.not_after, key.logical_timestamp)


def allows(rights: Rights, action: str, urn: Any) -> bool:
    """Whether an action is allowed: on an entity or, of no entity (None), on anything."""
    if urn is not None:
        return rights.may(action, urn)
    return rights.anywhere(action) or bool(rights.within(action))


def check_needs(principal: Principal, needs: Sequence[Need]) -> None:
    """Refuse what a principal may not do. Raises: ForbiddenError: the same whether or not the entity exists."""
    for action, urn in needs:
        if not allows(principal.rights, action, urn):
            who, more = ("You do", _OF_SESSION) if principal.use == SESSION else ("This key does", {})
            if urn is not None:
                action, more = principal.rights.whole(action, urn), {**more, "urn": str(urn)}
            what = f"the right {action} on {urn}" if urn is not None else _ANYWHERE.get(action, f"the right {action}")
            raise ForbiddenError(f"{who} not have {what}.", action=action, **more)
