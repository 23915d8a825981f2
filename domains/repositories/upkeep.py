"""What one repository's keeper asks: its changes as they come, and what no live branch needs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ...lake_client import WAIT_S
from ...schemas.arguments import check_number
from .domain import DOMAIN
from .questions import check_branch
from .reads import RepositoryReads
from .urns import branch_urn

if TYPE_CHECKING:
    from ...consumers.records import Change
    from ...consumers.subscription import Subscription
    from .garbage import GarbagePlan

DAY_S: Final = 86_400.0


class RepositoryUpkeep(RepositoryReads):
    """A repository's changes and leftovers. Arguments and attributes are those of `RepositoryReads`."""

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

    def gc_plan(
        self, *, older_than_s: float = DAY_S, tenant: str | None = None, timeout_s: float = WAIT_S
    ) -> GarbagePlan:  # fmt: skip
        """What no live branch needs: commits, layers, blocks, transactions left behind. Nothing is ever deleted.

            plan = repo.gc_plan()
            plan.counts().unused_blocks
            for block in plan.addresses(): ...

        It speaks of what the journal holds as this is called, also of a deleted repository; lists are read as they are
        asked for. An event after that can need again what it lists: a revert to such a commit, or a new branch at it.

        Args:
            older_than_s: seconds for which nothing has named a block, or touched a transaction's branch.
            tenant, timeout_s: as of `info`; the lake is waited for.
        Raises:
            UnknownEntityError: there has never been one of that name. Others as `info`.
            InputError: `older_than_s` is not a number of at least 0.
        """
        check_number("older_than_s", older_than_s)
        before_ms = int(max(0.0, time.time() - older_than_s) * 1_000)
        who = self._tenant(tenant)
        return self._asked(who, None, timeout_s, (), lambda queries, _, __: queries.garbage(who, self.name, before_ms))
