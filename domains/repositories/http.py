"""Repositories over HTTP: the client's questions.

Who asks about a repository must be allowed to read it and, of what is asked of a ref, the branch that the ref names;
of what a list has, what may not be read is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ...schemas.endpoints import CREATE, DELETE, READ, WRITE, Answer, Endpoint, Need, Parameter, Request, number
from ...schemas.errors import InputError
from ...schemas.shapes import TEXT, WHOLE
from ...schemas.urn import Urn
from ...schemas.within import are_all_within
from ...values import point, points_of
from .client import WithRepositories
from .events import EVENTS, RepositoryCreated, RepositoryDeleted
from .questions import MOST_PAGE, PAGE, Ref, check_repository
from .reads import RepositoryReads, queries_of
from .urns import branch_urn, commit_urn, repository_urn
from .values import (
    BRANCH,
    COMMIT,
    DIFF,
    LISTED,
    LOG,
    REPOSITORY,
    branch_json,
    commit_json,
    diff_json,
    list_json,
    repository_json,
    with_final,
)

if TYPE_CHECKING:
    from .answers import RepositoryInfo

WAIT_S: Final = 5.0
"""Seconds that a thread waits until all can be seen that the journal holds; longer ones are asked for again."""
_AT: Final = "/api/v1/repositories"
_TOLD: Final = {**REPOSITORY, "members": WHOLE, "default_branch": TEXT}
_REFS: Final = ("ref", "left", "right")
_MEMBERS: Final = ("branch", "object")
"""Kinds of what a repository has by name."""


class _Named(Protocol):
    @property
    def urn(self) -> str: ...
    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


def repositories_of(journal: WithRepositories, request: Request) -> Answer:
    """Repositories that may be read, by name; what must be seen of the lake is waited for by request."""
    as_at = points_of(request.query, of_facts=False).get("as_at")
    found = queries_of(journal).repositories(request.tenant, as_at=as_at)
    page, following = _page_of(found, request)
    return _answered([_told(one, request) for one in page], found.final, request, following)


def repository_of(journal: WithRepositories, request: Request) -> Answer:
    found = _asked(journal, request).info(**_point(journal, request))
    return _answered(_told(found, request), found.final, request)


def _told(repository: RepositoryInfo, request: Request) -> dict[str, Any]:
    """A repository; how many members it has only to whoever may read all that it can have, its default branch only to
    whoever may read that."""
    within = request.within
    may_count = all(are_all_within(f"{kind}:{repository.name}/", within) for kind in _MEMBERS)
    default = branch_urn(repository.name, repository.default_branch)
    return {
        **repository_json(repository),
        "members": repository.members if may_count else None,
        "default_branch": repository.default_branch if request.may(READ, default) else None,
    }


def branches_of(journal: WithRepositories, request: Request) -> Answer:
    """Branches that may be read, by name."""
    transactions = request.choice("transactions", ("true", "false"), "false") == "true"
    found = _asked(journal, request).branches(transactions=transactions, **_point(journal, request))
    page, following = _page_of(found, request)
    return _answered([branch_json(one) for one in page], found.final, request, following)


def log_of(journal: WithRepositories, request: Request) -> Answer:
    """Commits, the newest first, as the client tells them but for names of branches that may not be read."""
    before = request.whole("cursor", 0, (1 << 63) - 1) if "cursor" in request.query else None
    page = _asked(journal, request).log(
        _text(request, "ref"), limit=_limit(request), before=before, **_point(journal, request)
    )  # fmt: skip
    commits = [{**commit_json(one), "branch": _shown(one.urn, one.branch, request)} for one in page.items]
    following = None if page.before is None else {"cursor": str(page.before)}
    return _answered({"commits": commits, "before": page.before}, page.final, request, following)


def objects_of(journal: WithRepositories, request: Request) -> Answer:
    query = request.query
    page = _asked(journal, request).list(
        _text(request, "ref"), prefix=query.get("prefix", ""), delimiter=query.get("delimiter"),
        after=query.get("cursor"), limit=_limit(request), **_point(journal, request),
    )  # fmt: skip
    return _answered(list_json(page), page.final, request, _following(page.after))


def diff_of(journal: WithRepositories, request: Request) -> Answer:
    query = request.query
    page = _asked(journal, request).diff(
        _text(request, "left"), _text(request, "right"), prefix=query.get("prefix", ""), after=query.get("cursor"),
        limit=_limit(request), **_point(journal, request),
    )  # fmt: skip
    return _answered(diff_json(page), page.final, request, _following(page.after))


def _answered(
    value: Any, final: bool, request: Request, following: Mapping[str, str] | None = None
) -> Answer:  # fmt: skip
    """An answer; of a point or a time it says whether later events can change it, in a header and where it has room."""
    refs = (Ref.of(request.query[name]) for name in _REFS if request.query.get(name))
    if "as_at" not in request.query and all(ref.until_ms is None for ref in refs):
        return Answer(value, next=following)
    shown = with_final(value, final, asked=True) if isinstance(value, dict) else value
    return Answer(shown, headers={"Metajournal-Final": str(final).lower()}, next=following)


# --- what a request asks


def _asked(journal: WithRepositories, request: Request) -> RepositoryReads:
    """The repository that a request names. Raises: InputError: it names something else."""
    return journal.repositories[_name(request)]


def _name(request: Request) -> str:
    if request.entity.kind != "repo":
        raise InputError(f"{request.entity} is not a repository.", hint="Its URN looks like repo:sales-lake.")
    return request.entity.name


def _point(journal: WithRepositories, request: Request) -> dict[str, Any]:
    """The point and tenant of a question. Without a point it sees all that the journal holds, so also what must be
    included; as at one, that is waited for here."""
    asked = points_of(request.query, of_facts=False)
    if asked and request.at_least:
        journal.wait(request.at_least, timeout_s=WAIT_S)
    return {**asked, "tenant": request.tenant, "timeout_s": WAIT_S}


def _text(request: Request, name: str) -> str:
    text = request.query.get(name)
    if not text:
        raise InputError(f"The query names no {name}.", code="bad-ref", hint=f"Give a branch or commit: ?{name}=main.")
    return text


def _limit(request: Request) -> int:
    return request.whole("limit", PAGE, MOST_PAGE)


def _following(after: str | None) -> dict[str, str] | None:
    return None if after is None else {"cursor": after}


def _page_of(found: Sequence[_N], request: Request) -> tuple[list[_N], dict[str, str] | None]:
    """A page of what may be read, by name, and the query of the next one."""
    limit, after = _limit(request), request.query.get("cursor")
    seen = sorted((one for one in found if request.may(READ, Urn.parse(one.urn))), key=attrgetter("name"))
    seen = [one for one in seen if after is None or one.name > after]
    return seen[:limit], _following(seen[limit - 1].name if len(seen) > limit else None)


def _shown(commit: str, branch: str, request: Request) -> str | None:
    """The name of the branch that a commit was made on; None where it may not be read."""
    repository = Urn.parse(commit).parts[0]
    return branch if request.may(READ, branch_urn(repository, branch)) else None


def _may_list(request: Request) -> Sequence[Need]:
    return (Need(READ),)


def may_see(*refs: str) -> Callable[[Request], Sequence[Need]]:
    """The rights on a repository and on what some refs of the query name. A ref that may be a commit's id needs both,
    since it may be a branch of that name."""

    def needs(request: Request) -> Sequence[Need]:
        name = _name(request)
        found = [Need(READ, request.entity)]
        for ref in [Ref.of(_text(request, one)) for one in refs]:
            found.append(Need(READ, branch_urn(name, ref.named)))
            if ref.may_be_id:
                found.append(Need(READ, commit_urn(name, ref.named.lower())))
        return found

    return needs


def named_repository(parts: Mapping[str, str]) -> Urn:
    return repository_urn(check_repository(parts["r"]))


_REF: Final = "a branch, `branch@` without what is staged, `branch@TIME`, a commit's id or the beginning of one, ~n, ^n"
_PREFIX: Final = Parameter("prefix", "Only paths that begin so.")
_LIST: Final = (
    number("limit", "Most entries of a page.", MOST_PAGE),
    Parameter("cursor", "Of the page before."),
    Parameter("as_at", "What the journal had recorded by a position, several of them, or a time.", read=point),
)
_ONE: Final = f"{_AT}/{{r}}"

ENDPOINTS: Final = (
    Endpoint(
        "GET", _AT, "Repositories, by name.", read=repositories_of, needs=_may_list, answer=[_TOLD],
        query=_LIST,
    ),
    Endpoint(
        "GET", _ONE, "A repository.", read=repository_of, urn=named_repository, needs=may_see(),
        answer={**_TOLD, "final?": bool}, waits_itself=True, query=_LIST[-1:],
    ),
    Endpoint(
        "GET", f"{_ONE}/branches", "Branches of a repository, by name.", read=branches_of, urn=named_repository,
        needs=may_see(),
        answer=[BRANCH], waits_itself=True,
        query=(Parameter("transactions", "Also those of transactions.", bool), *_LIST),
    ),
    Endpoint(
        "GET", f"{_ONE}/log", "Commits of a ref's history, the newest first.", read=log_of, urn=named_repository,
        needs=may_see("ref"), answer={**LOG, "commits": [{**COMMIT, "branch": TEXT}]}, waits_itself=True,
        query=(Parameter("ref", f"Of {_REF}."), *_LIST),
    ),
    Endpoint(
        "GET", f"{_ONE}/objects", "Objects of a ref, by path.", read=objects_of, urn=named_repository,
        needs=may_see("ref"),
        answer=LISTED, waits_itself=True,
        query=(
            Parameter("ref", f"Of {_REF}."), _PREFIX,
            Parameter("delimiter", "Most often /: paths that have it behind the prefix come as one."), *_LIST,
        ),
    ),
    Endpoint(
        "GET", f"{_ONE}/diff", "Paths that two refs do not have alike.", read=diff_of, urn=named_repository,
        needs=may_see("left", "right"), answer=DIFF, waits_itself=True,
        query=(Parameter("left", f"From {_REF}."), Parameter("right", "To another one."), _PREFIX, *_LIST),
    ),
)  # fmt: skip
"""The rows of repositories."""


def _needs_of(action: str) -> Callable[[Any], Sequence[Need]]:
    return lambda event: tuple(Need(action, entity) for entity in event.entities)


NEEDS: Final[Mapping[str, Callable[[Any], Sequence[Need]]]] = {
    **{kind.TYPE: _needs_of(WRITE) for kind in EVENTS},
    RepositoryCreated.TYPE: _needs_of(CREATE),
    RepositoryDeleted.TYPE: _needs_of(DELETE),
}
"""The rights that the events of repositories need, on every entity that they name."""
