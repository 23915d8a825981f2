"""Which entities somebody may see, as conditions that any reader can apply: values, and a test of one entity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote

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
        if not self._has(urn.kind):
            return False
        of_namespace = urn.kind not in self.unspaced and urn.namespace in self.namespaces
        return self.every or of_namespace or urn in self.urns or urn.startswith(self.starts)

    def holds_all(self, beginning: str) -> bool:
        """Whether every entity is one of them whose URN begins so.

        Args:
            beginning: a kind with its colon, then whole parts with their slashes: `file:`, `file:web01/`.
        """
        kind, _, path = beginning.partition(":")
        if not self._has(kind):
            return False
        first, slash, _ = path.partition("/")
        of_namespace = bool(slash) and kind not in self.unspaced and unquote(first) in self.namespaces
        return self.every or of_namespace or beginning.startswith(self.starts)

    def _has(self, kind: str) -> bool:
        return kind not in self.others if self.kinds is None else kind in self.kinds


def is_within(urn: Urn, conditions: Iterable[Within]) -> bool:
    """Whether one of several conditions holds for an entity; none: no entity is within."""
    return any(condition.holds(urn) for condition in conditions)


def are_all_within(beginning: str, conditions: Iterable[Within]) -> bool:
    """Whether one of several conditions holds for every entity whose URN begins so (see `Within.holds_all`)."""
    return any(condition.holds_all(beginning) for condition in conditions)
