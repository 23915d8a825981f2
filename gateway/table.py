"""The one table of endpoints: the gateway's own rows and those of every served domain.

Router, rights check, OpenAPI, labels of metrics and the tests of rights are made of it; what is not in it is not
served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from ..schemas.endpoints import Endpoint, Need
from ..schemas.registry import domains_in, role
from .own.changes import CHANGES
from .own.entities import ENTITIES
from .own.events import EVENTS
from .own.searching import SEARCHING

NeedsOf: TypeAlias = Callable[[Any], Sequence[Need]]
"""The rights that an event needs."""


class HttpFile(Protocol):
    """The file `http` of a domain: its rows of the table of endpoints, and what rights its events need."""

    @property
    def ENDPOINTS(self) -> Sequence[Endpoint]:  # noqa: N802  (a constant of the module)
        """Its rows."""

    @property
    def NEEDS(self) -> Mapping[str, NeedsOf]:  # noqa: N802
        """What gives the rights that an event needs, by event type; an event of another type cannot be sent."""


class Table:
    """Every endpoint that is served.

    Args:
        topic_domains: the domains that have a journal topic.
    Attributes:
        endpoints: the rows, in the order of the reference.
    """

    def __init__(self, topic_domains: Iterable[str]) -> None:
        files = _files(topic_domains)
        self._needs: dict[str, NeedsOf] = {}
        for file in files:
            self._needs |= file.NEEDS
        own = (*EVENTS, *ENTITIES, *SEARCHING, *CHANGES)
        self.endpoints: tuple[Endpoint, ...] = (*(row for file in files for row in file.ENDPOINTS), *own)

    def needs_of(self, event: Any) -> Sequence[Need] | None:
        """The rights that an event needs; None where no domain says, so that it cannot be sent."""
        needs = self._needs.get(event.TYPE)
        return None if needs is None else needs(event)


def _files(topic_domains: Iterable[str]) -> list[HttpFile]:
    names = dict.fromkeys(domain.name for topic in topic_domains for domain in domains_in(topic))
    return [cast(HttpFile, module) for name in names if (module := role(name, "http")) is not None]
