"""The page of archived files: of a time, of a server or a program, of a work_id, and the newest one.

It asks as the API's rows do, so a question that could find what may not be read is refused here as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ....schemas.endpoints import READ, Need, Parameter, Request
from ....schemas.errors import InputError, MetajournalError, UnknownEntityError
from ....schemas.pages import Page, Section, Shown
from ..http import check_question, files_of, latest_of

_ASKED: Final = ("where", "what", "start", "end", "work_id", "as_at")
_LATEST: Final = "latest"


def _files(journal: Any, request: Request) -> Shown:
    asked = {name: request.query.get(name, "") for name in _ASKED}
    values: dict[str, Any] = {
        "asked": asked, "is_latest": _LATEST in request.query, "files": None, "next": None, "problem": None,
    }  # fmt: skip
    if not _is_asked(request):
        return Shown("files/files.html", values)
    try:
        return Shown("files/files.html", {**values, **_found(journal, request)})
    except UnknownEntityError:
        return Shown("files/files.html", {**values, "files": []})
    except InputError as error:
        return Shown("files/files.html", {**values, "problem": _told(error)}, 400)


def _found(journal: Any, request: Request) -> dict[str, Any]:
    question = _question(request)
    if _LATEST in request.query:
        named = {name: question.query[name] for name in ("where", "what", "as_at") if name in question.query}
        return {"files": [latest_of(journal, replace(question, query=named)).value]}
    answer = files_of(journal, question)
    return {"files": answer.value["files"], "next": answer.next}


def _question(request: Request) -> Request:
    """The question without its empty fields."""
    query = {name: text for name, text in request.query.items() if text and name != _LATEST}
    return replace(request, query=query)


def _is_asked(request: Request) -> bool:
    return any(request.query.get(name) for name in _ASKED) or _LATEST in request.query


def _told(error: MetajournalError) -> dict[str, str]:
    return {"detail": error.message, "hint": error.hint}


def _check(journal: Any, request: Request) -> None:
    """Refuse a question that could find what may not be read; the page without one shows nothing."""
    if _is_asked(request):
        check_question(journal, _question(request))


def _may_read(request: Request) -> Sequence[Need]:
    return (Need(READ),)


PAGES: Final = (
    Page(
        "GET", "/files", "Archived files: of a time, a server, a program, a work_id, and the newest.", show=_files,
        needs=_may_read, check=_check, menu="Files",
        query=(
            *(Parameter(name, "As /api/v1/files has it.") for name in _ASKED),
            Parameter("cursor", "Of the page before."), Parameter(_LATEST, "The newest one alone."),
        ),
    ),
)  # fmt: skip
"""The rows of files."""
SECTIONS: Final[tuple[Section, ...]] = ()
