"""Which entities somebody may see, as conditions that any reader can apply: values, and a test of one entity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .urn import Urn


class Within(NamedTuple):
    """Entities of some kinds of which one of the conditions is true; of several values, one must be.

    Attributes:
        kinds: their kinds; None: all but `others`.
        others: kinds that are not among them, where `kinds` is None.
        every: every entity of these kinds.
        starts: how their URNs begin: `dataset:`, or up to the slash behind a part.
        urns: their URNs.
        namespaces: decoded; of kinds but `unspaced`.
        unspaced: kinds whose first part is no namespace.
    """

    kinds: frozenset[str] | None
    others: frozenset[str] = frozenset()
    every: bool = False
    starts: tuple[str, ...] = ()
    urns: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    unspaced: frozenset[str] = frozenset()

    def holds(self, urn: Urn) -> bool:
        """Whether an entity is one of them."""
        if urn.kind in self.others if self.kinds is None else urn.kind not in self.kinds:
            return False
        of_namespace = urn.kind not in self.unspaced and urn.namespace in self.namespaces
        return self.every or of_namespace or urn in self.urns or urn.startswith(self.starts)


def is_within(urn: Urn, conditions: Iterable[Within]) -> bool:
    """Whether one of several conditions holds for an entity; none: no entity is within."""
    return any(condition.holds(urn) for condition in conditions)
