"""The functions of every derived table, by name: what the domains declare in their file `derived`."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from ...fold.derived import Derived, DerivedFile
from ...schemas.domain import Domain
from ...schemas.registry import for_each_domain, role


class Owned(NamedTuple):
    """A function with the domain that declares it, and the one whose journal topic it follows."""

    derived: Derived
    domain: str
    journal: str


DERIVED: Final[dict[str, Owned]] = {}
"""Every declared function by name."""


def _take(domain: Domain) -> None:
    module = role(domain.name, "derived") if domain.served else None
    for derived in () if module is None else cast(DerivedFile, module).DERIVED:
        DERIVED[derived.name] = Owned(derived, domain.name, domain.journal or domain.name)


for_each_domain(_take)
