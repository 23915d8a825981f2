"""Refused decisions on repositories, each with the data to act on.

The rules refuse an event that is in the log; what the client knows to be refused it does not send: then `position` is
None. Either way the class is the same, so one `except` serves both: also of a receipt's outcome, whose
`raise_if_rejected` asks `refusal` here. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from ...schemas.errors import (
    InvalidEventError,
    MetajournalError,
    OutcomeUnknownError,
    RejectedError,
    UnknownEntityError,
)
from ...schemas.wording import many
from .answers import Conflict

MOST_CONFLICTS: Final = 100
"""Conflicting paths that an error has; it tells how many there are."""


class InvalidQuestionError(InvalidEventError):
    """An argument that `emit` takes too cannot be; `faults` lists every one of them."""

    CODE = "invalid-question"
    HINT = "Correct the listed arguments; nothing was read."
    NAMED: ClassVar[str] = "question"


class RefusedError(RejectedError):
    """A decision on a repository was refused; `position` is None where the client refused it and sent nothing."""

    CODE = "refused"

    def __init__(self, message: str, *, detail: Any = None, position: Any = None, **data: Any) -> None:
        MetajournalError.__init__(
            self, message, reason=self.CODE, detail=data if detail is None else detail, position=position, **data
        )


class NotThereError(RefusedError, UnknownEntityError):
    """The repository, branch or commit that an event speaks of is not there: an `UnknownEntityError` in the log."""

    CODE = "unknown-entity"
    HINT = (
        "Check its name (`metajournal repo list`, `metajournal repo branches`): what does not exist must be created "
        "first, and need not be deleted."
    )
    urn: str

    def __init__(self, entity: str, position: Any = None) -> None:
        RefusedError.__init__(
            self, f"There is no entity {entity}.", detail={"entity": entity}, urn=entity, position=position
        )


class AlreadyThereError(RefusedError):
    """A repository or branch of that name exists."""

    CODE = "exists"
    HINT = "Choose another name, or use what is there."
    entity: str

    def __init__(self, entity: str, position: Any = None) -> None:
        super().__init__(f"{entity} exists already.", entity=entity, position=position)


class ProtectedBranchError(RefusedError):
    """The default branch of a repository cannot be deleted."""

    CODE = "protected"
    HINT = "The default branch stays as long as its repository."
    branch: str

    def __init__(self, branch: str, position: Any = None) -> None:
        super().__init__(f"{branch} is the default branch of its repository.", branch=branch, position=position)


class TooManyMembersError(RefusedError):
    """A repository would have more branches and registered objects than it may."""

    CODE = "too-many"
    HINT = "Delete branches, or unregister objects, first."
    repository: str
    members: int
    limit: int

    def __init__(self, repository: str, members: int, limit: int, position: Any = None) -> None:
        super().__init__(
            f"{repository} has {members:,} branches and registered objects; the limit is {limit:,}.",
            repository=repository, members=members, limit=limit, position=position,
        )  # fmt: skip


class StaleHeadError(RefusedError):
    """A branch is at another commit than was expected; `found` is where it is, the empty text stands for none."""

    CODE = "stale-head"
    HINT = "Look at what the branch has become, and decide again with its head."
    branch: str
    expected: str
    found: str

    def __init__(self, branch: str, expected: str, found: str, position: Any = None) -> None:
        super().__init__(
            f"{branch} is at {_shown(found)}, not at {_shown(expected)}.",
            branch=branch, expected=expected, found=found, position=position,
        )  # fmt: skip


class StaleStagingError(RefusedError):
    """Something else is staged on a branch than was expected; both are digests of staging areas."""

    CODE = "stale-staging"
    HINT = "Look at what is staged (`info().staging_digest`), and decide again."
    branch: str
    expected: str
    found: str

    def __init__(self, branch: str, expected: str, found: str, position: Any = None) -> None:
        super().__init__(
            f"Something else is staged on {branch} than was expected.",
            branch=branch, expected=expected, found=found, position=position,
        )  # fmt: skip


class DirtyBranchError(RefusedError):
    """Something is staged on a branch that has to be clean."""

    CODE = "dirty"
    HINT = 'Commit what is staged, or drop it (reset). A merge lays it over its result with staged="resolve".'
    branch: str
    staged_events: int
    staged_rows: int

    def __init__(self, branch: str, staged_events: int, staged_rows: int, position: Any = None) -> None:
        super().__init__(
            f"On {branch} {many(staged_rows, 'path')} {'is' if staged_rows == 1 else 'are'} staged, in "
            f"{many(staged_events, 'event')}.",
            branch=branch, staged_events=staged_events, staged_rows=staged_rows, position=position,
        )  # fmt: skip


class NothingStagedError(RefusedError):
    """Nothing is staged on a branch that was to be committed."""

    CODE = "nothing-staged"
    HINT = "Write or delete objects first, or allow an empty commit (`--allow-empty`, `allow_empty=True`)."
    branch: str

    def __init__(self, branch: str, position: Any = None) -> None:
        super().__init__(f"Nothing is staged on {branch}.", branch=branch, position=position)


class NothingToMergeError(RefusedError):
    """The destination has everything that the source has."""

    CODE = "nothing-to-merge"
    HINT = "Nothing is left to do; or commit something on the source first."
    source: str
    destination: str
    source_head: str
    destination_head: str

    def __init__(
        self, source: str, destination: str, source_head: str = "", destination_head: str = "", position: Any = None
    ) -> None:
        if source_head or position is not None:  # the rules' detail has no heads
            at = f", which is at {source_head[:12]}" if source_head else ""
            message = f"{destination} already contains all commits of {source}{at}."
        else:
            message = f"{source} has no commit that could be merged into {destination}."
        super().__init__(
            message,
            source=source, destination=destination, source_head=source_head, destination_head=destination_head,
            position=position,
        )  # fmt: skip


class UnrelatedHistoriesError(RefusedError):
    """The two heads of a merge have no common ancestor."""

    CODE = "unrelated-histories"
    HINT = (
        "Check that the branches belong together; to join them anyway, write the source's objects to the destination."
    )
    source: str
    destination: str
    source_head: str
    destination_head: str

    def __init__(self, source: str, destination: str, source_head: str, destination_head: str) -> None:
        super().__init__(
            f"{source} at {source_head[:12]} and {destination} at {destination_head[:12]} have no common ancestor.",
            source=source, destination=destination, source_head=source_head, destination_head=destination_head,
        )  # fmt: skip


class MergeConflictError(RefusedError):
    """Both sides of a merge changed the same paths, and differently; `conflicting` has the first 100 by path."""

    CODE = "merge-conflict"
    HINT = (
        'Write what is to be at these paths on the destination and merge with staged="resolve" (--resolve), or choose '
        "a side with the strategy source-wins or dest-wins. Of a path that is to be gone, and is gone there already, "
        "delete(…, only_existing=False) (`repo rm --even-missing`)."
    )
    source: str
    destination: str
    source_head: str
    destination_head: str
    conflicts: int
    conflicting: tuple[Conflict, ...]

    def __init__(
        self,
        source: str,
        destination: str,
        source_head: str,
        destination_head: str,
        conflicts: int,
        conflicting: Sequence[Conflict],
    ) -> None:
        first = ", ".join(repr(conflict.path) for conflict in conflicting[:3]) + (", …" if conflicts > 3 else "")
        super().__init__(
            f"{source} and {destination} have both changed {many(conflicts, 'path')} since their common ancestor, and"
            f" differently: {first}.",
            source=source, destination=destination, source_head=source_head, destination_head=destination_head,
            conflicts=conflicts, conflicting=tuple(conflicting),
        )  # fmt: skip


class TransactionUnknownError(OutcomeUnknownError):
    """It is not known whether a transaction's merge is in the journal."""

    CODE = "transaction-unknown"
    HINT: ClassVar[str] = (
        "Look at the log of the branch: the merge is there if one of its commits has `commit` among its parents. If it"
        " is not, merge the transaction's branch, which is kept, or delete it and run the transaction again."
    )
    branch: str
    transaction: str
    commit: str
    event_id: str


def refusal(rejected: RejectedError) -> RejectedError:
    """The error of a decision that the rules refused, by its reason; any other error as it is.

    Args:
        rejected: as `raise_if_rejected` raises it.
    """
    make, names = _BY_REASON.get(rejected.reason, (None, ()))
    detail: Any = rejected.detail
    if make is None or not isinstance(detail, Mapping) or not detail.keys() >= {*names}:
        return rejected
    return make(*(detail[name] for name in names), position=rejected.position)


def _shown(commit: str) -> str:
    return commit[:12] or "no commit"


_BY_REASON: Final[Mapping[str, tuple[Callable[..., RefusedError], tuple[str, ...]]]] = {
    NotThereError.CODE: (NotThereError, ("entity",)),
    AlreadyThereError.CODE: (AlreadyThereError, ("entity",)),
    ProtectedBranchError.CODE: (ProtectedBranchError, ("branch",)),
    TooManyMembersError.CODE: (TooManyMembersError, ("repository", "members", "limit")),
    StaleHeadError.CODE: (StaleHeadError, ("branch", "expected", "found")),
    StaleStagingError.CODE: (StaleStagingError, ("branch", "expected", "found")),
    DirtyBranchError.CODE: (DirtyBranchError, ("branch", "staged_events", "staged_rows")),
    NothingStagedError.CODE: (NothingStagedError, ("branch",)),
    NothingToMergeError.CODE: (NothingToMergeError, ("source", "destination")),
}
"""For each reason the error, and what of the rules' detail it takes."""
