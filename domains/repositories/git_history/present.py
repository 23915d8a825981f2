"""What the lake has of an import: the branches of a repository, and its commits that have an id of git's."""

from __future__ import annotations

import orjson

from ....lake.selecting import select_rows
from ....lake.table import quoted
from ....lake.views.views import asked_anew
from ....schemas.errors import UnknownEntityError
from ....schemas.urn import Urn
from ..moment import Moment
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
            branches = _branches(refs)
        except UnknownEntityError:
            return NOTHING
        info = refs.info()
        return Present(branches, _commits(moment, refs.created), info.members, info.storage_namespace)

    @asked_anew
    def present_branches(self, tenant: str, name: str) -> dict[str, PresentBranch]:
        """The branches alone; none where there is no such repository. Raises: as `branches`."""
        try:
            return _branches(Refs(self._moment(tenant, name, None, None), self._graphs))
        except UnknownEntityError:
            return {}


def _branches(refs: Refs) -> dict[str, PresentBranch]:
    return {one.name: PresentBranch(one.head, one.staged_events, one.staging_digest) for one in refs.branches()}


def _commits(moment: Moment, created: int) -> list[PresentCommit]:
    """The commits with an id of git's, by position; their messages are not read."""
    if moment.table("commits") is None:
        return []
    statement = f"""
        select commit, parents, metadata from rows
        where aggregate = {quoted(moment.aggregate)} and {moment.bounds.sql()} and logical_timestamp >= {created}
            and contains(metadata, {quoted(orjson.dumps(GIT_ID).decode())})
        qualify row_number() over (partition by commit order by logical_timestamp desc, seq desc) = 1
        order by logical_timestamp"""
    found = select_rows(moment.view, "commits", {"tenant": moment.tenant}, statement)
    said = ((urn, parents, orjson.loads(metadata).get(GIT_ID)) for urn, parents, metadata in found)
    return [PresentCommit(Urn.parse(urn).parts[-1], git_id, parents) for urn, parents, git_id in said if git_id]
