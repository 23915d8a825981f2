"""What pages are, as values: a page, what it shows, what a form of it sends. The gateway serves them; domains declare
theirs.

Every page is a row, as every endpoint is: rights are checked by what it declares, before anything is read. A domain's
folder `pages` holds its rows, its sections of an entity's page and its templates.
Invariant: a function of a row sees a checked request and gives values; HTML, cookies and headers are the gateway's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlencode

from .endpoints import READ, Need, Parameter, Request, Wanted
from .errors import InputError
from .urn import Urn


class Shown(NamedTuple):
    """What a page shows.

    Args:
        template: name of a template; of a domain's own one `<domain>/<file>`.
        values: what the template names.
        status: of HTTP.
    """

    template: str
    values: Mapping[str, Any]
    status: int = 200


class Sent(NamedTuple):
    """What a form asks for.

    Args:
        event: what is emitted.
        expected: logical timestamp of the entity's row that its sender saw; 0: it must not exist; None: no condition.
        back: the address of the page that shows what came of it.
        tells: what is shown instead once it is accepted: a secret that is shown once.
    """

    event: Any
    expected: int | None
    back: str
    tells: Shown | None = None


Again: TypeAlias = Callable[[Request, Any], Sent | Shown]
"""What becomes of a form whose entity changed since it was seen, by the row as it is now (None: there is none): it is
sent again where the change was elsewhere, or both are shown."""
Section: TypeAlias = Callable[[Any, Request, Any], Shown | None]
"""What a domain adds to an entity's page, of journal, request and row; None: nothing."""


@dataclass(frozen=True, slots=True)
class Page:
    """One row. Exactly one of `show`, `of_row`, `form`, `data` and `feed` is given.

    Args:
        method: GET, or POST of a form.
        path: a template, as an endpoint has it.
        about: one sentence.
        action: what the request does to the entity that it names.
        show: what it shows, of journal and request; in a thread that reads.
        of_row: the same of an entity, whose row includes every acknowledged event; or, where an earlier state is asked
            for, is of then: None where it was not there.
        form: what its fields, the request's body, ask for.
        data: a value that scripts of pages get as JSON, of journal and request; in a thread that reads.
        feed: answers scripts of pages with changes as they come; gives what tells whether one is asked for.
        check: gets journal and request, and raises ForbiddenError where rights on entities do not tell.
        again: what is done where the entity has changed since.
        refill: shows the form again as it was filled, with what is wrong with it; None: what is wrong has a page.
        urn: the entity that the parts of the path name, where the template does not end with one.
        needs: the rights that it needs, where they are others than `action` to the entity; of a form, of its fields.
        query: names of the query.
        audited: what an audit calls it; empty: nothing is recorded but refusals and, if asked, reads.
        is_public: needs no session.
        waits_itself: `show` waits for the index or for what the journal holds, so it has threads of its own.
        includes_own: what the session has written of late is in it, or it says that it is not: where `show` waits
            itself, for the request's `at_least`; else that names what did not come.
        has_sections: whether domains add to it.
        menu: its name among the pages that every page leads to; None: it is not among them.
    """

    method: str
    path: str
    about: str
    action: str = READ
    show: Callable[[Any, Request], Shown] | None = None
    of_row: Callable[[Any, Request, Any], Shown] | None = None
    form: Callable[[Request], Sent] | None = None
    data: Callable[[Any, Request], Any] | None = None
    feed: Callable[[Request], Wanted] | None = None
    check: Callable[[Any, Request], object] | None = None
    again: Again | None = None
    refill: Callable[[Request, InputError], Shown] | None = None
    urn: Callable[[Mapping[str, str]], Urn] | None = None
    needs: Callable[[Request], Sequence[Need]] | None = None
    query: tuple[Parameter, ...] = ()
    audited: str = ""
    is_public: bool = False
    waits_itself: bool = False
    includes_own: bool = False
    has_sections: bool = False
    menu: str | None = None
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How the table, metrics and logs call it."""
        return f"{self.method} {self.path}"

    @property
    def is_for_scripts(self) -> bool:
        """Whether scripts of pages ask for it, who are refused where others are led to the login."""
        return self.data is not None or self.feed is not None

    @property
    def event(self) -> Callable[[Request], Sent] | None:
        """What makes an event: its form, as an endpoint's `event`."""
        return self.form

    @property
    def lines(self) -> bool:
        """No page takes lines of events."""
        return False

    def needed(self, request: Request) -> Sequence[Need]:
        """The rights that a request needs."""
        if self.needs is not None:
            return self.needs(request)
        return (Need(self.action, request.urn),)


def seen_state(request: Request) -> int:
    """The logical timestamp of the row that a form's sender saw. Raises: InputError: the form does not say it."""
    text = request.body.get("expected", "")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InputError("The form does not say which state it is of.", code="bad-form", hint="Open the page again.")
    return int(text)


def address_of(base: str, urn: Urn | str, **query: str) -> str:
    """The address of a page about an entity.

    Args:
        base: of its template, without the part that names the entity: `/entity`.
        query: further values.
    Returns:
        A path; one whose URN a proxy could decode twice, or drop parts of, names it in the query.
    """
    text = str(urn)
    if "%" not in text and not _DOTS & set(text.partition(":")[2].split("/")):
        return f"{base}/{text}{_query(query)}"
    return f"{base}{_query({'urn': text, **query})}"


def _query(values: Mapping[str, str]) -> str:
    return f"?{urlencode(values)}" if values else ""


_DOTS: Final = frozenset({".", ".."})
