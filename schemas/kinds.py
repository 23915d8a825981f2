"""The table of entity kinds: which domain owns each, what its aggregate is, how many parts its path has.

The journal topic of an event follows from its entity's kind alone. The domains declare their kinds; one that none of
them declares belongs to the domain that owns undeclared kinds, and is its own aggregate.
"""

from __future__ import annotations

import re
from typing import Final

from .domain import Domain, Kind
from .registry import for_each_domain, owner_of_undeclared

KIND_PATTERN: Final = re.compile(r"[a-z][a-z0-9-]*")

KINDS: Final[dict[str, Kind]] = {}
"""Every declared kind by name."""


def _take(domain: Domain) -> None:
    KINDS.update({kind.name: kind for kind in domain.kinds})


for_each_domain(_take)


def kind_of(name: str) -> Kind:
    """Row of a kind; a name outside the table is a custom kind.

    Raises:
        ValueError: the name is not `[a-z][a-z0-9-]*`.
    """
    known = KINDS.get(name)
    if known is not None:
        return known
    if not KIND_PATTERN.fullmatch(name):
        raise ValueError("the kind must match [a-z][a-z0-9-]*")
    return Kind(name, owner_of_undeclared())


def domain_of_kind(name: str) -> str:
    """Domain that owns a kind, declared or not."""
    known = KINDS.get(name)
    return owner_of_undeclared() if known is None else known.domain
