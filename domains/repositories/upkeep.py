"""What one repository's keeper asks: its changes as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .domain import DOMAIN
from .questions import check_branch
from .reads import RepositoryReads
from .urns import branch_urn

if TYPE_CHECKING:
    from ...consumers.records import Change
    from ...consumers.subscription import Subscription


class RepositoryUpkeep(RepositoryReads):
    """A repository's changes. Arguments and attributes are those of `RepositoryReads`."""

    def changes(self, branch: str | None = None, **asked: Any) -> Subscription[Change]:
        """A subscription to its change records, one for each accepted event.

            for change in repo.changes(since="earliest"):
                change.record["event_type"], change.record["event_payload"]

        Args:
            branch: only those of this branch: not its repository's creation and end, nor registered objects.
            asked: arguments of `Journal.subscribe`: since, group, timeout_s, limit, commit_interval_s, tenant.
        Raises:
            InputError: no branch can have that name. Others as `Journal.subscribe`.
        """
        every = [str(self.urn), f"branch:{self.name}/*"]
        wanted = every if branch is None else [str(branch_urn(self.name, check_branch(branch)))]
        return self._journal.subscribe(DOMAIN.name, urn=wanted, **asked)
