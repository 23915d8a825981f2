"""Archived files over HTTP: the client's questions.

A question names the server, and the program, whose files it asks for; all that it could find must be allowed, so that
neither pages nor their number tell of anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...schemas.endpoints import READ, WRITE, Answer, Endpoint, Need, Parameter, Request, number
from ...schemas.errors import FilesQueryError, ForbiddenError, UnknownEntityError
from ...schemas.urn import urn
from ...schemas.within import are_all_within
from ...values import point, points_of
from .client import WithFiles
from .events import FilesRecorded
from .urns import file_urn
from .values import FILE, FILES, file_json, page_json

_PAGE: Final = 100
_MOST_PAGE: Final = 10_000
_ASKED: Final = ("where", "what", "start", "end", "work_id")


def files_of(journal: WithFiles, request: Request) -> Answer:
    """A page of the files of a time or of a work_id."""
    asked: dict[str, Any] = {name: request.query.get(name) for name in _ASKED}
    page = journal.files.page(
        **asked, limit=request.whole("limit", _PAGE, _MOST_PAGE), cursor=request.query.get("cursor"),
        **points_of(request.query, of_facts=False), tenant=request.tenant,
    )  # fmt: skip
    return Answer(page_json(page), next=None if page.cursor is None else {"cursor": page.cursor})


def latest_of(journal: WithFiles, request: Request) -> Answer:
    """The newest file of a program on a server. Raises: UnknownEntityError: there is none."""
    what, where = _named(request, "what"), _named(request, "where")
    file = journal.files.latest(what, where, **points_of(request.query, of_facts=False), tenant=request.tenant)
    if file is None:
        raise UnknownEntityError(str(urn("files", where, what)), hint="No file of this program and server is recorded.")
    return Answer(file_json(file))


def _named(request: Request, name: str) -> str:
    text = request.query.get(name)
    if not text:
        raise FilesQueryError(f"The query names no {name}.", code="bad-name", hint=f"Give ?{name}=NAME.")
    return text


def check_question(journal: Any, request: Request) -> None:
    """Refuse a question that could find what may not be read. Raises: ForbiddenError, InvalidUrnError."""
    where, what = request.query.get("where"), request.query.get("what")
    if not are_all_within(_beginning(where, what), request.within):
        raise ForbiddenError(
            "This key may not read all files that the question could find.", action=READ,
            hint="Name the server with where and, where you may read some of its programs only, the program with what.",
        )  # fmt: skip


def _beginning(where: str | None, what: str | None) -> str:
    """How the URNs of all files begin that a question could find."""
    if not where:
        return "file:"
    last = 1 if what else 3  # of `x`, or `x/x`
    return str(file_urn(where, what or "x", "x"))[:-last]


def _may_read(request: Request) -> Sequence[Need]:
    return (Need(READ),)


_WHERE: Final = Parameter("where", "Of this server.")
_WHAT: Final = Parameter("what", "Of this program.")
_AS_AT: Final = Parameter(
    "as_at", "What the journal had recorded by a position, several of them, or a time.", read=point
)

ENDPOINTS: Final = (
    Endpoint(
        "GET", "/api/v1/files", "Archived files of a time, or of a work_id.", read=files_of, needs=_may_read,
        check=check_question, answer=FILES,
        query=(
            _WHERE, _WHAT, Parameter("start", "With end: files that cover any time between, both included."),
            Parameter("end", "With start."), Parameter("work_id", "Instead of times."),
            number("limit", "Most files of a page.", _MOST_PAGE), Parameter("cursor", "Of the page before."), _AS_AT,
        ),
    ),
    Endpoint(
        "GET", "/api/v1/files/latest", "The newest file of a program on a server.", read=latest_of, needs=_may_read,
        check=check_question, answer=FILE, query=(_WHAT, _WHERE, _AS_AT),
    ),
)  # fmt: skip
"""The rows of files."""


def _write_need(event: Any) -> Sequence[Need]:
    return tuple(Need(WRITE, entity) for entity in event.entities)


NEEDS: Final[Mapping[str, Callable[[Any], Sequence[Need]]]] = {FilesRecorded.TYPE: _write_need}
"""The rights that the events of files need."""
