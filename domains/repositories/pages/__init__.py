"""Pages of repositories: which there are, branches and log of one, objects of a ref, and two refs compared.

They ask as the API's rows do, so rights are asked of the same repositories, branches and commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from ....schemas.endpoints import READ, Need, Parameter, Request
from ....schemas.errors import UnknownEntityError
from ....schemas.pages import Page, Section, Shown
from ..http import (
    WAIT_S,
    branches_of,
    diff_of,
    log_of,
    may_see,
    named_repository,
    objects_of,
    repositories_of,
    repository_of,
)
from ..urns import branch_fault
from ..values import branch_json

_MOST_BRANCHES: Final = 1_000
"""Of a page."""
_ONE: Final = "/repositories/{r}"
_CURSOR: Final = Parameter("cursor", "Of the page before.")
_PREFIX: Final = Parameter("prefix", "Only paths that begin so.")


def _at(request: Request, below: str = "", **query: str) -> str:
    asked = {name: value for name, value in query.items() if value}
    address = f"/repositories/{quote(request.parts['r'], safe='')}{below}"
    return f"{address}?{urlencode(asked)}" if asked else address


def _following(request: Request, below: str, following: Any) -> str | None:
    return None if following is None else _at(request, below, **{**request.query, **following})


def _repositories(journal: Any, request: Request) -> Shown:
    answer = repositories_of(journal, request)
    more = None if answer.next is None else f"/repositories?{urlencode(answer.next)}"
    return Shown("repositories/repositories.html", {"repositories": answer.value, "next": more, "quote": _part})


def _part(text: str) -> str:
    return quote(text, safe="")


def _repository(journal: Any, request: Request) -> Shown:
    """Branches, and the log of a ref where one is asked for."""
    whole, ref, after = replace(request, query={}), request.query.get("ref"), request.query.get("after", "")
    limited = {"limit": str(_MOST_BRANCHES), **({"cursor": after} if after else {})}
    page = branches_of(journal, replace(request, query=limited))
    chosen = None if ref is None else _chosen(journal, request, ref, page.value)
    more = None if page.next is None else _at(request, ref=ref or "", after=page.next["cursor"])
    values: dict[str, Any] = {
        "repository": repository_of(journal, whole).value, "at": _at(request), "ref": ref, "after": after,
        "branches": page.value if chosen is None or chosen in page.value else [chosen, *page.value], "more": more,
        "live": f"{request.entity},branch:{request.entity.name}/*" if chosen is None else chosen["urn"],
        "log": None, "next": None, "to": lambda below, **query: _at(request, below, **query),
    }  # fmt: skip
    if ref is not None:
        answer = log_of(journal, request)
        values |= {"log": answer.value["commits"], "next": _following(request, "", answer.next)}
    return Shown("repositories/repository.html", values)


def _chosen(
    journal: Any, request: Request, ref: str, listed: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:  # fmt: skip
    """The branch that a ref names, looked up by itself where it is not among the listed ones; None: it names none."""
    found = next((one for one in listed if one["name"] == ref), None)
    if found is not None or branch_fault(ref) is not None:
        return found
    try:
        repository = journal.repositories[request.parts["r"]]
        return branch_json(repository.branch_info(ref, tenant=request.tenant, timeout_s=WAIT_S))
    except UnknownEntityError:
        return None


def _objects(journal: Any, request: Request) -> Shown:
    answer = objects_of(journal, replace(request, query={**_filled(request), "delimiter": "/"}))
    values = {
        "name": request.parts["r"], "at": _at(request), "ref": request.query["ref"], "items": answer.value["items"],
        "prefix": request.query.get("prefix", ""), "next": _following(request, "/objects", answer.next),
        "to": lambda below, **query: _at(request, below, **query),
    }  # fmt: skip
    return Shown("repositories/objects.html", values)


def _diff(journal: Any, request: Request) -> Shown:
    answer = diff_of(journal, replace(request, query=_filled(request)))
    values = {
        "name": request.parts["r"], "at": _at(request), "left": request.query["left"], "right": request.query["right"],
        "items": answer.value["items"], "next": _following(request, "/diff", answer.next),
    }  # fmt: skip
    return Shown("repositories/diff.html", values)


def _filled(request: Request) -> dict[str, str]:
    return {name: text for name, text in request.query.items() if text}


def _may_list(request: Request) -> Sequence[Need]:
    return (Need(READ),)


def _may_open(request: Request) -> Sequence[Need]:
    return may_see("ref")(request) if "ref" in request.query else may_see()(request)


PAGES: Final = (
    Page(
        "GET", "/repositories", "Repositories, by name.", show=_repositories, needs=_may_list, query=(_CURSOR,),
        menu="Repositories", waits_itself=True,
    ),
    Page(
        "GET", _ONE, "Branches of a repository, and the log of a ref.", show=_repository, urn=named_repository,
        needs=_may_open, waits_itself=True,
        query=(
            Parameter("ref", "Whose log is shown."), _CURSOR,
            Parameter("after", "Only branches behind this one, by name."),
        ),
    ),
    Page(
        "GET", f"{_ONE}/objects", "Objects of a ref, folder by folder.", show=_objects, urn=named_repository,
        needs=may_see("ref"), waits_itself=True,
        query=(Parameter("ref", "A branch or commit."), _PREFIX, _CURSOR),
    ),
    Page(
        "GET", f"{_ONE}/diff", "Paths that two refs do not have alike.", show=_diff, urn=named_repository,
        needs=may_see("left", "right"), waits_itself=True,
        query=(Parameter("left", "A branch or commit."), Parameter("right", "Another one."), _PREFIX, _CURSOR),
    ),
)  # fmt: skip
"""The rows of repositories."""
SECTIONS: Final[tuple[Section, ...]] = ()
