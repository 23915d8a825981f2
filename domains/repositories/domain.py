"""Repositories: their kinds are reserved, no event is served yet."""

from __future__ import annotations

from typing import Final

from ...schemas.domain import MANY, Domain, Kind

DOMAIN: Final = Domain(
    "repositories",
    __package__,
    kinds=(
        Kind("repo", "repositories", 1, 1),
        Kind("branch", "repositories", 2, 2, "repo", 1),
        Kind("commit", "repositories", 2, 2, "repo", 1),
        Kind("object", "repositories", 2, MANY, "repo", 1),
    ),
    served=False,
)
