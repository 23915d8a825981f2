"""What an import that was refused says of what it had staged: pure."""

from __future__ import annotations

from collections.abc import Sequence

from ....schemas.errors import MetajournalError, RejectedError
from ....schemas.urn import Urn
from ..errors import StaleHeadError
from .importing import Withdrawn

_SHOWN = 3


def advice(repository: str, refused: RejectedError, done: Withdrawn) -> str:
    """The next step after a refusal, behind what became of what was staged."""
    return " ".join((*_became(repository, done), *_next(repository, refused)))


def not_withdrawn(repository: str, problem: MetajournalError) -> str:
    """The next step where what was staged could not be looked at."""
    return (
        f"Something else changes the repository, and what the import has staged is still there ({problem.message}): "
        f"look at `metajournal repo branches {repository}` before anybody commits, and drop it (`repo reset`)."
    )


def _became(repository: str, done: Withdrawn) -> list[str]:
    said = ["Something else changed the repository during the import, which has stopped."]
    if done.dropped:
        said.append(f"What it had staged on {_named(done.dropped)} is dropped.")
    if done.left:
        first = done.left[0]
        said.append(
            f"On {_named(done.left)} others have staged something too, so all of it is left there: see "
            f"`metajournal repo diff {repository} {first}@ {first}` before anybody commits. The next import drops it."
        )
    return said


def _next(repository: str, refused: RejectedError) -> list[str]:
    if not isinstance(refused, StaleHeadError) or not refused.expected:
        return ["Run the import again: it goes on from there."]
    branch = Urn.parse(refused.branch).parts[-1]
    return [
        f"To go on, set the branch back (`metajournal repo branch {repository} NAME --at {branch}@` keeps the other "
        f"commits) and run the import again: metajournal repo revert {repository} {branch} {refused.expected}"
    ]


def _named(branches: Sequence[str]) -> str:
    more = f" and {len(branches) - _SHOWN:,} more" if len(branches) > _SHOWN else ""
    return ", ".join(branches[:_SHOWN]) + more
