"""Who holds a key, and what they may do: as the journal says now, in this process, whether the stream runs or not.

It follows the topic of access by itself. An answer is given only while the topic's end was heard of lately; never one
that may be old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ...consumers.whole_topic import Marks, WholeTopic, condition
from ...fold.folded import Folded
from ...lake.declared import SPECS
from ...lake.entities import COLUMNS, row_from_dict
from ...lake.views.viewed import ViewedTable
from ...lake.views.views import View
from ...producers.topics import Epochs
from ...producers.waiting.futures import AwaitableFuture, resolve
from ...rules.entity import EntityRow
from ...schemas.errors import UnavailableError
from ...schemas.positions import Position
from ...schemas.settings import Settings
from .domain import DOMAIN
from .keys import KeyText, parse_key
from .rights import Rights, actions_of_role
from .rows import AccessKeyKey, AccessKeyRow
from .standing import KINDS, Standing, StoredKey
from .urns import CONSTANT_ROLES
from .values import KeyInfo, PrincipalInfo, RoleInfo

STALE_S: Final = 30.0
_ENTITIES: Final = "entities"


class RightsNotHeardError(UnavailableError):
    """What is known of rights may be old: the end of their topic was not heard of for too long."""

    CODE = "rights-not-heard"
    HINT = "Is Kafka reachable? `metajournal status` shows it. If the lake is behind, start the stream."


class Who(NamedTuple):
    """Who asks.

    Attributes:
        tenant, principal: whose events and rights they are.
        rights: what they may do.
        key: the key that they gave; None where somebody else vouched for them.
    """

    tenant: str
    principal: str
    rights: Rights
    key: KeyInfo | None = None


class Directory:
    """Principals, keys and roles of a journal, of all tenants; threads share it. Close it.

    Args:
        settings: how to reach Kafka and the lake.
        epochs: the journal topics, which serve access.
        stale_s: seconds after which an unheard end makes every answer an error.
        clock: seconds since 1970, UTC: judges whether a key has expired.
        on_change: called, in the directory's own thread, when something has changed.
    Raises:
        UnservedDomainError: the journal does not serve access.
    """

    def __init__(
        self,
        settings: Settings,
        epochs: Epochs,
        *,
        stale_s: float = STALE_S,
        clock: Callable[[], float] = time.time,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        topic = settings.journal.topics.journal(DOMAIN.name)
        if topic not in epochs:
            raise epochs.not_served(DOMAIN.name, "journal.access")
        self._name = topic
        self._stale_s, self._clock, self._on_change = stale_s, clock, on_change
        self._lock = threading.Lock()
        self._standing = Standing()
        self._rights: dict[tuple[str, str], Rights] = {}
        self._awaited: dict[AwaitableFuture[None], Position] = {}
        self._topic = WholeTopic(settings, epochs, topic, self._load, self._take_in)

    def who(self, key: str) -> Who | None:
        """Who holds a key that is good now; None where nobody does.

        Raises:
            RightsNotHeardError: that is not known.
        """
        self._check_heard()
        given = parse_key(key)
        if given is None:
            return None
        with self._lock:
            stored = self._standing.key(given.id)
            if not self._is_good(given, stored) or stored is None:
                return None
            return self._who(stored.info.tenant, stored.info.principal, stored.info)

    def principal(self, tenant: str, name: str) -> Who | None:
        """A principal that is enabled, whom somebody else vouches for. Raises: as `who`."""
        self._check_heard()
        with self._lock:
            return self._who(tenant, name, None)

    def _is_good(self, given: KeyText, stored: StoredKey | None) -> bool:
        is_right = given.is_of(None if stored is None else stored.hash)
        limit_ms = None if stored is None else stored.info.not_after
        return is_right and (limit_ms is None or self._clock() * 1000 <= limit_ms)

    def _who(self, tenant: str, name: str, key: KeyInfo | None) -> Who | None:
        info = self._standing.principals.get((tenant, name))
        if info is None or not info.enabled:
            return None
        rights = self._rights.get((tenant, name))
        if rights is None:
            rights = self._rights[tenant, name] = Rights(info.grants, self._standing.roles_of(tenant))
        return Who(tenant, name, rights, key)

    # What stands, for those who look after it

    def principals(self, tenant: str) -> list[PrincipalInfo]:
        """All principals of a tenant, by name. Raises: as `who`."""
        self._check_heard()
        with self._lock:
            standing = self._standing
            names = sorted(name for of, name in standing.principals if of == tenant)
            return [info for name in names if (info := standing.principal(tenant, name)) is not None]

    def keys(self, tenant: str, principal: str) -> list[KeyInfo]:
        """The keys of a principal that have not ended, the oldest first. Raises: as `who`."""
        self._check_heard()
        with self._lock:
            return self._standing.keys_of(tenant, principal)

    def grants(self, tenant: str, principal: str) -> tuple[tuple[str, str], ...]:
        """(role, pattern) of each grant of a principal, a disabled one too; nothing where it is not there. Raises: as
        `who`."""
        self._check_heard()
        with self._lock:
            info = self._standing.principals.get((tenant, principal))
            return () if info is None else info.grants

    def roles_of(self, tenant: str) -> dict[str, frozenset[str]]:
        """What each role that a tenant defined allows. Raises: as `who`."""
        self._check_heard()
        with self._lock:
            return dict(self._standing.roles_of(tenant))

    def roles(self, tenant: str) -> list[RoleInfo]:
        """Every role that a tenant has: the constant ones, then its own by name. Raises: as `who`."""
        self._check_heard()
        with self._lock:
            own = self._standing.roles_of(tenant)
            defined_at = {role: self._standing.defined_at[tenant, role] for role in own}
        constant = [RoleInfo(role, tuple(sorted(actions_of_role(role, own))), True) for role in CONSTANT_ROLES]
        return constant + [
            RoleInfo(role, tuple(sorted(actions)), False, defined_at[role]) for role, actions in sorted(own.items())
        ]

    # How fresh it is

    @property
    def is_heard(self) -> bool:
        """Whether answers are given."""
        return self._topic.unheard_s() <= self._stale_s

    @property
    def problem(self) -> str | None:
        """Why the topic itself is not read at the moment, so that the lake is looked at instead."""
        problem = self._topic.problem
        return None if problem is None else problem.message

    def held(self, position: Position) -> AwaitableFuture[None]:
        """Resolved once an event of access is in what is known, in the directory's own thread; of any other topic all
        are. It has no limit of its own: whoever does not wait any longer cancels it."""
        future: AwaitableFuture[None] = AwaitableFuture()
        with self._lock:
            is_held = position.topic != self._name or self._holds(position)
            if not is_held:
                self._awaited[future] = position
        if is_held:
            resolve(future, None)
        else:
            future.add_done_callback(self._forget)
        return future

    def _holds(self, position: Position) -> bool:
        return self._standing.taken[position.partition] > position.value

    def _forget(self, future: Any) -> None:
        with self._lock:
            self._awaited.pop(future, None)

    def is_key(self, text: str) -> bool:
        """Whether a text has the form of a key."""
        return parse_key(text) is not None

    def wait(self, timeout_s: float) -> None:
        """Wait until all is known that the topic holds now. Raises: RightsNotHeardError: it is not in time."""
        if not self._topic.wait(timeout_s):
            raise self._not_heard(f"within {timeout_s:g} s")

    def close(self) -> None:
        """Stop following."""
        self._topic.close()

    def _check_heard(self) -> None:
        if not self.is_heard:
            raise self._not_heard(f"for {self._stale_s:g} s")

    def _not_heard(self, how_long: str) -> RightsNotHeardError:
        why = self.problem
        return RightsNotHeardError(
            f"The end of the topic of access was not heard of {how_long}{'' if why is None else f': {why}'}"
        )

    # What comes, in the following thread

    def _load(self, view: View, marks: Marks) -> None:
        for partition, mark in marks.items():
            with self._lock:
                begin = self._standing.taken[partition]
            if begin < mark:
                rows = [row for kind in KINDS for row in _entities(view, kind, partition, begin, mark)]
                self._take(partition, mark, rows, _keys(view, partition, begin, mark))

    def _take_in(self, folded: Folded) -> None:
        rows = [row for row in folded.current.values() if row is not None]
        keys = [row for (table, _, _), row in folded.current_facts.items() if table == AccessKeyKey.TABLE]
        self._take(folded.place.partition, folded.end, rows, keys)

    def _take(self, partition: int, end: int, rows: list[EntityRow], keys: list[AccessKeyRow]) -> None:
        with self._lock:
            changed = self._standing.take(partition, end, rows, keys)
            if changed:
                self._rights.clear()
            held = [future for future, awaited in self._awaited.items() if self._holds(awaited)]
        for future in held:  # under no lock: each calls back
            resolve(future, None)
        if changed:
            self._on_change()


def _entities(view: View, kind: str, partition: int, begin: int, mark: int) -> list[EntityRow]:
    """The newest rows of entities of a kind that changed between two positions."""
    where = f"urn >= '{kind}:' and urn < '{kind};' and {_within(partition, begin, mark)}"
    return [row_from_dict(row) for row in _newest(view, _ENTITIES, COLUMNS, where)]


def _keys(view: View, partition: int, begin: int, mark: int) -> list[AccessKeyRow]:
    spec = SPECS[AccessKeyKey.TABLE]
    assert spec.from_dict is not None
    rows = _newest(view, spec.name, ", ".join(AccessKeyRow._fields), _within(partition, begin, mark))
    return [spec.from_dict(row) for row in rows]


def _within(partition: int, begin: int, mark: int) -> str:
    return f"{condition(DOMAIN.name, {partition: mark})} and logical_timestamp >= {begin}"


def _newest(view: View, table: str, columns: str, where: str) -> list[dict[str, Any]]:
    held = view.tables.get(table)
    if held is None:
        return []
    order = "row_number() over (partition by tenant, urn order by logical_timestamp desc, seq desc) as age"
    rows = ViewedTable(held).sql(f"select {columns} from (select *, {order} from {table} where {where}) where age = 1")
    found: list[dict[str, Any]] = rows.to_pylist(maps_as_pydicts="strict")
    return found
