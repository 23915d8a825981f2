"""What stands of access, in memory: principals, roles and keys, brought up to date by rows of lake and topic.

Rows of a journal partition come in the order of their positions; those that are below what was taken in already are
passed over, so a second look at the lake never brings back a key that the topic has ended since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ...rules.entity import EntityRow
from ...schemas.urn import Urn
from .rows import AccessKeyRow
from .urns import PRINCIPAL, ROLE
from .values import KeyInfo, PrincipalInfo

Name = tuple[str, str]
"""Tenant, and the name of a principal or a role."""


class StoredKey(NamedTuple):
    """A key that has not ended, with its hash."""

    info: KeyInfo
    hash: str | None


class Standing:
    """All that stands. Not shared between threads: whoever owns it has a lock.

    Attributes:
        principals: grants and more of each, but the number of its keys.
        roles: the actions of each role that is defined.
        defined_at: the position of its newest definition.
        taken: the next position of each journal partition: everything below it is included.
    """

    def __init__(self) -> None:
        self.principals: dict[Name, PrincipalInfo] = {}
        self.roles: dict[Name, frozenset[str]] = {}
        self.defined_at: dict[Name, int] = {}
        self.taken: dict[int, int] = defaultdict(int)
        self._keys: dict[Name, dict[str, StoredKey]] = defaultdict(dict)
        self._by_id: dict[str, set[Name]] = defaultdict(set)

    def take(
        self, partition: int, end: int, rows: Iterable[EntityRow], keys: Iterable[AccessKeyRow]
    ) -> bool:  # fmt: skip
        """Take rows of a partition in: the newest ones of everything that changed below `end`.

        Returns:
            Whether anything was new.
        """
        begin, changed = self.taken[partition], False
        for row in rows:
            if row.logical_timestamp >= begin:
                changed = True
                self._entity(row)
        for key in keys:
            if key.logical_timestamp >= begin:
                changed = True
                self._key(key)
        self.taken[partition] = max(begin, end)
        return changed

    def keys_of(self, tenant: str, principal: str) -> list[KeyInfo]:
        """The keys of a principal that have not ended, the oldest first."""
        stored = self._keys.get((tenant, principal), {}).values()
        return sorted((one.info for one in stored), key=lambda info: (info.logical_timestamp, info.id))

    def key(self, key_id: str) -> StoredKey | None:
        """The key of an id; None where there is none, or two principals have it: then it is neither's."""
        names = self._by_id.get(key_id, ())
        if len(names) != 1:
            return None
        (name,) = names
        return self._keys[name][key_id]

    def principal(self, tenant: str, name: str) -> PrincipalInfo | None:
        """A principal."""
        info = self.principals.get((tenant, name))
        return None if info is None else info._replace(keys=len(self._keys.get((tenant, name), ())))

    def roles_of(self, tenant: str) -> dict[str, frozenset[str]]:
        """The roles that a tenant has defined."""
        return {name: actions for (of, name), actions in self.roles.items() if of == tenant}

    def _entity(self, row: EntityRow) -> None:
        name = (row.tenant, row.name)
        record: Any = row.record
        if row.kind == PRINCIPAL:
            grants = tuple((role, pattern) for role, pattern in record["grants"])
            self.principals[name] = PrincipalInfo(*name, record["enabled"], grants, 0, row.logical_timestamp)
        elif row.kind == ROLE and row.deleted:
            self.roles.pop(name, None)
        elif row.kind == ROLE:
            self.roles[name] = frozenset(record["actions"])
            self.defined_at[name] = row.logical_timestamp

    def _key(self, row: AccessKeyRow) -> None:
        principal, key_id = Urn.parse(row.urn).parts
        name = (row.tenant, principal)
        if row.deleted:
            self._keys[name].pop(key_id, None)
            self._by_id[key_id].discard(name)
            if not self._by_id[key_id]:
                del self._by_id[key_id]
            return
        info = KeyInfo(*name, key_id, row.label, row.not_after, row.once, row.logical_timestamp)
        self._keys[name][key_id] = StoredKey(info, row.hash)
        self._by_id[key_id].add(name)


KINDS: Final = (PRINCIPAL, ROLE)
"""Kinds of entities whose rows are needed; of keys those of their own table."""
