"""`journal.access`: principals and their keys, roles; over Kafka and the lake alone, whether a gateway runs or not.

Nobody's rights are asked here: who may write the topic of access is root. What stands is read by a directory of this
process, so it is told as the journal has it, also while the stream stands still.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ...lake_client import ConnectedJournal
from ...schemas.errors import InputError, MissingExtraError
from .events import (
    Grant,
    KeyIssued,
    KeyRevoked,
    PrincipalDisabled,
    PrincipalRegistered,
    RoleDefined,
    RoleDeleted,
    RolesGranted,
    RolesRevoked,
)
from .keys import CODE_LABEL, CODE_S, KeyText, make_key
from .urns import (
    CONSTANT_ROLES,
    action_fault,
    key_id_fault,
    key_urn,
    name_fault,
    pattern_fault,
    principal_urn,
    role_urn,
)

if TYPE_CHECKING:
    from ...producers.receipts import Receipt
    from .directory import Directory
    from .values import KeyInfo, PrincipalInfo, RoleInfo

WAIT_S: Final = 30.0
"""Seconds to wait until all is known that the journal holds now."""
Grants = Iterable[tuple[str, str]]


class IssuedKey(NamedTuple):
    """A key that was sent: its text is here and nowhere else, and cannot be told again."""

    key: KeyText
    receipt: Receipt


class AccessClient:
    """Principals, keys and roles of a journal; what changes them gives a receipt, whose outcome is the verdict.

    Args:
        journal: whose.
    """

    def __init__(self, journal: ConnectedJournal) -> None:
        self._journal = journal
        self._kept: Directory | None = None

    # Principals

    def register(self, principal: str, **said: Any) -> Receipt:
        """Have a principal; one that was disabled is enabled, with the grants that it had.

        Args:
            principal: its name, `[a-z0-9][a-z0-9._@-]{0,127}`.
            said: arguments of `emit`: actor, tenant, event_time, cause, expected.
        Raises:
            InputError: none can have that name.
            UnservedDomainError: the journal does not serve access.
        """
        return self._emit(PrincipalRegistered(principal_urn(checked_name("principal", principal))), said)

    def disable(self, principal: str, **said: Any) -> Receipt:
        """Disable a principal: all its keys end permanently. Arguments and errors as `register`."""
        return self._emit(PrincipalDisabled(principal_urn(checked_name("principal", principal))), said)

    def grant(self, principal: str, *grants: tuple[str, str], **said: Any) -> Receipt:
        """Grant roles, each on a pattern: `grant("ada", ("developer", "dataset:sales/*"))`.

        Raises:
            InputError: what is no name or no pattern, with what would do; a role that is not defined, where a directory
                is kept (`keep`) that knows (`check_roles` asks in any case). Others as `register`.
        """
        event = RolesGranted(principal_urn(checked_name("principal", principal)), checked_grants(grants))
        if self._kept is not None and self._kept.is_heard:
            self.check_roles(*grants, tenant=said.get("tenant"))
        return self._emit(event, said)

    def check_roles(self, *grants: tuple[str, str], tenant: str | None = None, timeout_s: float = WAIT_S) -> None:
        """Refuse grants of roles that are not defined.

        The fold takes such a grant, which allows nothing: of a role that is deleted just then, too, so that its verdict
        does not depend on which of the two came first.

        Raises:
            InputError: a role is not defined, with the one that was meant. Others as `opened`.
        """
        with self.opened(timeout_s=timeout_s) as directory:
            known = [one.name for one in directory.roles(self._tenant(tenant))]
        for grant in checked_grants(grants):
            if grant.role not in known:
                raise unknown_role(grant.role, known)

    def revoke(self, principal: str, *grants: tuple[str, str], all: bool = False, **said: Any) -> Receipt:  # noqa: A002
        """Take grants away, or all of them. Arguments and errors as `grant`."""
        event = RolesRevoked(principal_urn(checked_name("principal", principal)), checked_grants(grants), all=all)
        return self._emit(event, said)

    # Keys

    def issue_key(
        self, principal: str, *, label: str = "", not_after: int | None = None, once: bool = False, **said: Any
    ) -> IssuedKey:
        """Make a key and send its hash.

        Args:
            principal: whose key it is.
            label: what it is for.
            not_after: milliseconds UTC after which it is refused; None: never.
            once: it is good for one exchange only.
            said: as of `register`.
        Returns:
            The key, whose text is to be shown once, and the receipt: it is good if the outcome is accepted.
        """
        key = make_key()
        urn = key_urn(checked_name("principal", principal), key.id)
        return IssuedKey(key, self._emit(KeyIssued(urn, key.hash, not_after, label, once), said))

    def issue_code(self, principal: str, **said: Any) -> IssuedKey:
        """Make a one-time code, with which a principal logs in to the pages once, within ten minutes.

        Args and errors as `register`.
        """
        until_ms = time_ns() // 1_000_000 + CODE_S * 1000
        return self.issue_key(principal, label=CODE_LABEL, not_after=until_ms, once=True, **said)

    def revoke_key(self, principal: str, key_id: str, **said: Any) -> Receipt:
        """End a key permanently. Raises: InputError: it is no key's id. Others as `register`."""
        why = key_id_fault(key_id)
        if why is not None:
            raise InputError(f"The id of a key {why}.", hint="`metajournal access keys PRINCIPAL` lists them.")
        return self._emit(KeyRevoked(key_urn(checked_name("principal", principal), key_id)), said)

    # Roles

    def define_role(self, role: str, actions: Iterable[str], **said: Any) -> Receipt:
        """Define a role, or define it anew. Raises: InputError: there is no such action, or role's name."""
        event = RoleDefined(role_urn(checked_name("role", role)), [checked_action(action) for action in actions])
        return self._emit(event, said)

    def delete_role(self, role: str, **said: Any) -> Receipt:
        """Delete a role; its name never returns. Errors as `register`."""
        return self._emit(RoleDeleted(role_urn(checked_name("role", role))), said)

    # What stands

    @contextmanager
    def opened(self, *, timeout_s: float = WAIT_S, **how: Any) -> Iterator[Directory]:
        """A directory of who may do what, which knows all that the journal holds now; closed behind the block.

        Args:
            timeout_s: seconds to wait for that.
            how: arguments of `Directory`.
        Raises:
            RightsNotHeardError: it is not known in time.
            UnservedDomainError: the journal does not serve access.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        if self._kept is not None and not how:
            self._kept.wait(timeout_s)
            yield self._kept
            return
        directory = _directory(self._journal, how)
        try:
            directory.wait(timeout_s)
            yield directory
        finally:
            directory.close()

    def keep(self, **how: Any) -> Directory:
        """A directory that all questions of this object use from now on; whoever keeps it closes it at the end.

        Args:
            how: arguments of `Directory`.
        Raises:
            As `opened`, but it does not wait.
        """
        self._kept = _directory(self._journal, how)
        return self._kept

    @property
    def kept(self) -> Directory:
        """The directory that `keep` opened. Raises: InputError: there is none."""
        if self._kept is None:
            raise InputError("Nothing keeps a directory open.", hint="Call journal.access.keep() before.")
        return self._kept

    def principals(self, *, tenant: str | None = None, timeout_s: float = WAIT_S) -> list[PrincipalInfo]:
        """Every principal, by name; errors as `opened`."""
        with self.opened(timeout_s=timeout_s) as directory:
            return directory.principals(self._tenant(tenant))

    def keys(self, principal: str, *, tenant: str | None = None, timeout_s: float = WAIT_S) -> list[KeyInfo]:
        """The keys of a principal that have not ended, the oldest first; errors as `opened`."""
        name = checked_name("principal", principal)
        with self.opened(timeout_s=timeout_s) as directory:
            return directory.keys(self._tenant(tenant), name)

    def roles(self, *, tenant: str | None = None, timeout_s: float = WAIT_S) -> list[RoleInfo]:
        """Every role: those that every journal has, then the journal's own by name; errors as `opened`."""
        with self.opened(timeout_s=timeout_s) as directory:
            return directory.roles(self._tenant(tenant))

    def _tenant(self, tenant: str | None) -> str:
        return tenant or self._journal.settings.journal.tenant

    def _emit(self, event: Any, said: dict[str, Any]) -> Receipt:
        return self._journal.emit(event, **said)


class WithAccess(Protocol):
    """A journal that has it."""

    @property
    def access(self) -> AccessClient:
        """`Journal.access`."""


def _directory(journal: ConnectedJournal, how: dict[str, Any]) -> Directory:
    try:
        from .directory import Directory
    except ModuleNotFoundError as error:
        from ...consumers.followers import LAKE_PACKAGES

        if (error.name or "").partition(".")[0] not in LAKE_PACKAGES:
            raise
        raise MissingExtraError("lake", "Reading who may do what") from error
    return Directory(journal.settings, journal.epochs, **how)


def checked_name(what: str, name: str) -> str:
    """The name of a principal or a role. Raises: InputError."""
    why = name_fault(name)
    if why is not None:
        raise InputError(f"The name of a {what} {why}.", code="invalid-name")
    return name


def checked_grants(grants: Grants) -> list[Grant]:
    """Grants with names and patterns that can be. Raises: InputError: what is none, with what would do."""
    return [_grant(Grant(*grant)) for grant in grants]


def _grant(grant: Grant) -> Grant:
    """A grant; the four constant roles are taken in any case. Raises: InputError."""
    lower = grant.role.lower() if isinstance(grant.role, str) else grant.role
    named = grant._replace(role=lower if lower in CONSTANT_ROLES else grant.role)
    why = pattern_fault(named.pattern)
    if why is not None:
        raise InputError(f"A pattern {why}.", code="invalid-pattern")
    return named._replace(role=checked_name("role", named.role))


def unknown_role(role: str, known: Iterable[str]) -> InputError:
    """The error of a role that is not defined.

    Args:
        known: roles that may be named as what was meant.
    """
    nearest = get_close_matches(role, list(known), 1)
    meant = f"Did you mean {nearest[0]}?" if nearest else f"Define it first, or grant {', '.join(CONSTANT_ROLES)}."
    return InputError(f"There is no role {role!r:.140}.", code="unknown-role", hint=meant)


def no_principal(principal: str, known: Iterable[str]) -> str:
    """What is said where there is no principal of that name.

    Args:
        known: principals that may be named as what was meant.
    """
    nearest = get_close_matches(principal, list(known), 1)
    meant = f" Did you mean {nearest[0]}?" if nearest else ""
    return f"There is no principal {principal!r:.140}.{meant}"


def checked_action(action: str) -> str:
    """An action that there is. Raises: InputError: there is none of that name."""
    from .rights import known_actions

    known = sorted(known_actions())
    if action_fault(action) is None and action in known:
        return action
    nearest = get_close_matches(str(action), known, 1)
    hint = f"Did you mean {nearest[0]}?" if nearest else f"There are {', '.join(known)}."
    raise InputError(f"There is no action {action!r:.80}.", code="unknown-action", hint=hint)


CLIENT: Final = AccessClient
