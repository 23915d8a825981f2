"""What the lake has of an import: the branches of a repository, and its commits that have an id of git's."""

from __future__ import annotations

import orjson

from ....lake.table import quoted
from ....lake.views.views import asked_anew
from ....schemas.errors import UnknownEntityError
from ....schemas.urn import Urn
from ..moment import Moment, newest_by
from ..queries import RepositoryQueries
from ..refs import Refs
from .known import GIT_ID, NOTHING, Present, PresentBranch, PresentCommit


class PresentQueries(RepositoryQueries):
    """Reads a repository as an import finds it."""

    @asked_anew
    def present(self, tenant: str, name: str) -> Present:
        """Branches and commits; nothing where there is no such repository. Raises: as `branches`."""
        moment = self._moment(tenant, name, None, None)
        refs = Refs(moment, self._graphs)
        try:
            branches = refs.branches()
        except UnknownEntityError:
            return NOTHING
        heads = {one.name: PresentBranch(one.head, one.staged_events, one.staging_digest) for one in branches}
        return Present(heads, _commits(moment, refs.created), refs.info().members)


def _commits(moment: Moment, created: int) -> list[PresentCommit]:
    where = f"logical_timestamp >= {created} and contains(metadata, {quoted(orjson.dumps(GIT_ID).decode())})"
    rows = newest_by(moment.rows("commits", {}, where), "commit").sort("logical_timestamp")
    found = zip(rows["commit"].to_list(), rows["parents"].to_list(), rows["metadata"].to_list(), strict=True)
    said = ((urn, parents, orjson.loads(metadata).get(GIT_ID)) for urn, parents, metadata in found)
    return [PresentCommit(Urn.parse(urn).parts[-1], git_id, parents) for urn, parents, git_id in said if git_id]
