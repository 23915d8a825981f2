"""Who asks, and what they may: the port behind which principals, keys and rights stand.

The gateway serves nobody whom this port does not name. What implements it follows the journal of rights by itself and
refuses by itself where it has not heard of it for too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ..schemas.urn import Urn

EVERYTHING: Final = "*"
"""The pattern that takes in every entity."""


class Rights(Protocol):
    """What somebody may do."""

    def may(self, action: str, urn: Urn) -> bool:
        """Whether an action (`schemas.endpoints.ACTIONS`) is allowed on an entity."""

    def within(self, action: str) -> Sequence[str]:
        """The patterns of entities on which an action is allowed: `*` for all of them, nothing for none."""


class Principal(NamedTuple):
    """Who asks.

    Args:
        tenant: whose journal.
        actor: who does it, as events say.
        key_id: which key, for logs and limits; never its secret.
        rights: what they may.
    """

    tenant: str
    actor: str
    key_id: str
    rights: Rights


class Principals(Protocol):
    """Everybody who may ask."""

    def who(self, key: str) -> Principal | None:
        """Who a key belongs to; None where nobody has it, or it ended.

        Raises:
            UnavailableError: nothing was heard of rights for too long.
        """

    def heard(self) -> bool:
        """Whether rights are known as they are now."""

    def close(self) -> None:
        """Stop following rights."""
