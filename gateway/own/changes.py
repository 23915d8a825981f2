"""The feed of changes: what may be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...consumers.filters import SCOPES, Filter
from ...schemas.endpoints import READ, Endpoint, Need, Parameter, Request, in_namespace
from ...schemas.errors import InputError

AFTER: Final = "after"
"""The query's name of the last event's id, for those who cannot send `Last-Event-ID`."""


@dataclass(frozen=True, slots=True)
class WantedChanges:
    """Whether a change is asked for.

    Args:
        filter: by subject, tenant, type and scope.
        domains: whose changes; none: of all.
    """

    filter: Filter
    domains: tuple[str, ...]

    @property
    def keys(self) -> frozenset[str] | None:
        """As `Wanted` has them: URNs where they are named whole, else namespaces."""
        if self.filter.urns and not self.filter.prefixes:
            return self.filter.urns
        return frozenset(map(in_namespace, self.filter.namespaces)) or None

    def __call__(self, change: Any) -> bool:
        if self.domains and change.domain not in self.domains:
            return False
        if self.filter.scopes and change.scope not in self.filter.scopes:
            return False
        return self.filter.wants(change.subject, change.tenant, change.type)


def wanted_changes(request: Request) -> WantedChanges:
    """Whether a change is asked for. Raises: InputError: a condition cannot be met."""
    domains = _listed(request, "domain")
    if scope := request.query.get("scope"):
        request.choice("scope", SCOPES, scope)
    filter_ = Filter.of(
        kinds=_listed(request, "kind"), urn=_listed(request, "urn"), namespace=request.query.get("namespace"),
        scope=scope, tenant=request.tenant,
    )  # fmt: skip
    return WantedChanges(filter_, domains)


def _listed(request: Request, name: str) -> tuple[str, ...]:
    """Several values of the query, separated by commas, which no URN and no kind has."""
    if name not in request.query:
        return ()
    values = tuple(request.query[name].split(","))
    if not all(values):
        raise InputError(f"{name} has an empty value.", hint="Separate several values with one comma each.")
    return values


def needs_of_changes(request: Request) -> tuple[Need, ...]:
    """Reading something; each change is held against what may be read."""
    return (Need(READ),)


CHANGES: Final = (
    Endpoint(
        "GET", "/api/v1/changes", "Changes as they come, as server-sent events; `Last-Event-ID` resumes anywhere.",
        feed=wanted_changes, needs=needs_of_changes, answer=str,
        query=(
            Parameter("kind", "Only entities of these kinds, separated by commas."),
            Parameter("namespace", "Only entities of this namespace."),
            Parameter("urn", "Only these entities, or those whose URNs begin so: `branch:r/main,dataset:default/*`."),
            Parameter("domain", "Only changes of these domains: `catalog` has those of properties and tags."),
            Parameter("scope", "Only changes of this scope, USER or SYSTEM."),
            Parameter(AFTER, "The id of the last event, as the header Last-Event-ID."),
        ),
    ),
)  # fmt: skip
