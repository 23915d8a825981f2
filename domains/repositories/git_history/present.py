"""What the lake has of an import: the branches of a repository, and its commits that have an id of git's."""

from __future__ import annotations

from typing import Final

import orjson

from ....lake.selecting import select_rows
from ....lake.table import quoted
from ....lake.views.views import asked_anew
from ....schemas.errors import UnknownEntityError
from ....schemas.urn import Urn
from ..queries import RepositoryQueries
from .known import GIT_ID, NOTHING, Present, PresentBranch, PresentCommit

_COMMITS: Final = """
    select commit, parents, metadata from (
        select *, row_number() over (partition by commit order by logical_timestamp desc) as age
        from rows where {bounds} and aggregate = {repository} and logical_timestamp >= {created}
            and contains(metadata, {key}))
    where age = 1 order by logical_timestamp"""


class PresentQueries(RepositoryQueries):
    """Reads a repository as an import finds it."""

    @asked_anew
    def present(self, tenant: str, name: str) -> Present:
        """Branches and commits; nothing where there is no such repository. Raises: as `branches`."""
        try:
            found = self.branches(tenant, name)
            seen = self._seen(None)  # the later one of the two, so that no head is of a commit that it does not have
            repository = self._repository(tenant, name, seen)
        except UnknownEntityError:
            return NOTHING
        statement = _COMMITS.format(
            bounds=seen.bounds.sql(),
            repository=quoted(repository.urn),
            created=repository.created,
            key=quoted(f'"{GIT_ID}"'),
        )
        rows = select_rows(seen.view, "commits", {"tenant": tenant}, statement)
        commits = [
            PresentCommit(Urn.parse(urn).parts[-1], git_id, parents)
            for urn, parents, metadata in rows
            if (git_id := orjson.loads(metadata).get(GIT_ID)) is not None
        ]
        branches = {one.name: PresentBranch(one.head, one.staged_events, one.staging_digest) for one in found}
        return Present(branches, commits)
