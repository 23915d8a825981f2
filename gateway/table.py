"""The one table of endpoints: the gateway's own rows and those of every served domain.

Router, rights check, OpenAPI, labels of metrics and the tests of rights are made of it; what is not in it is not
served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol, TypeAlias, cast

from ..schemas.endpoints import Endpoint, Need
from ..schemas.pages import Page, Section
from ..schemas.registry import domains_in, role
from .own.changes import CHANGES
from .own.entities import ENTITIES
from .own.events import EVENTS
from .own.searching import SEARCHING
from .pages.rows import PAGES

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


class PagesFile(Protocol):
    """The file `pages` of a domain, a folder with templates: its rows of pages, and what it adds to entities' pages."""

    @property
    def PAGES(self) -> Sequence[Page]:  # noqa: N802  (a constant of the module)
        """Its rows."""

    @property
    def SECTIONS(self) -> Sequence[Section]:  # noqa: N802
        """What shows a part of an entity's page, in the order of the page."""


class Table:
    """Every endpoint that is served.

    Args:
        topic_domains: the domains that have a journal topic.
    Attributes:
        endpoints: the rows, in the order of the reference.
        pages: the rows of pages.
        sections: what domains add to an entity's page.
    """

    def __init__(self, topic_domains: Iterable[str]) -> None:
        topic_domains = tuple(topic_domains)
        files = [cast(HttpFile, module) for module in _roles(topic_domains, "http")]
        self._needs: dict[str, NeedsOf] = {}
        for file in files:
            self._needs |= file.NEEDS
        own = (*EVENTS, *ENTITIES, *SEARCHING, *CHANGES)
        self.endpoints: tuple[Endpoint, ...] = (*(row for file in files for row in file.ENDPOINTS), *own)

        shown = [cast(PagesFile, module) for module in _roles(topic_domains, "pages")]
        self.pages: tuple[Page, ...] = (*PAGES, *(row for file in shown for row in file.PAGES))
        self.sections: tuple[Section, ...] = tuple(section for file in shown for section in file.SECTIONS)

    def needs_of(self, event: Any) -> Sequence[Need] | None:
        """The rights that an event needs; None where no domain says, so that it cannot be sent."""
        needs = self._needs.get(event.TYPE)
        return None if needs is None else needs(event)


def _roles(topic_domains: Iterable[str], name: str) -> list[ModuleType]:
    names = dict.fromkeys(domain.name for topic in topic_domains for domain in domains_in(topic))
    return [module for domain in names if (module := role(domain, name)) is not None]
