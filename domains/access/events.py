"""Events of access: principals and what they are granted, their keys, and roles.

Each class is kept in step with its contract in `contracts/`. Grants are taken as Grant, as pairs, or as mappings of its
fields; what does not fit stays as it was given, for `validate` to name all of it at once.

Source: docs/concepts.md, "Access"; the source text's "Auth service".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from ...schemas.errors import Fault, InvalidEventError
from ...schemas.events.base import as_tuple, as_urn, text_fault
from ...schemas.events.checks import choice_faults, count_faults, empty_faults, urn_faults
from ...schemas.limits import MAX_ENTRIES
from ...schemas.urn import Urn
from .urns import KEY, PRINCIPAL, ROLE, action_fault, hash_fault, key_id_fault, name_fault, pattern_fault

MAX_LABEL_BYTES: Final = 256
EARLIEST_MS: Final = 0
LATEST_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z: tables and languages agree on no later time."""

_set = object.__setattr__


class Grant(NamedTuple):
    """A role on what a pattern names.

    Attributes:
        role: its name; one that is not defined allows nothing.
        pattern: `*`, `kind:*`, `kind:parts/*`, `*:namespace/*` or a whole URN.
    """

    role: str
    pattern: str


@dataclass(frozen=True, slots=True, init=False)
class PrincipalEvent:
    """What the events about one principal share."""

    TYPE: ClassVar[str] = ""
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"principal"})

    principal: Urn

    def __init__(self, principal: Urn | str) -> None:
        _set(self, "principal", as_urn(principal))

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The principal. Raises: InvalidEventError: it is no principal's URN."""
        return (_valid(_principal_faults(self.principal), self.principal),)

    @property
    def aggregate(self) -> Urn:
        """The principal. Raises: InvalidEventError: it is no principal's URN."""
        return self.entities[0]

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field (`grants[2].pattern`); empty for a valid one."""
        return _principal_faults(self.principal)


class PrincipalRegistered(PrincipalEvent):
    """A principal is there and enabled; one that was disabled is again, with its grants."""

    __slots__ = ()
    TYPE: ClassVar[str] = "access.PrincipalRegistered.1"


class PrincipalDisabled(PrincipalEvent):
    """A principal may do nothing any more; its keys end permanently."""

    __slots__ = ()
    TYPE: ClassVar[str] = "access.PrincipalDisabled.1"


@dataclass(frozen=True, slots=True, init=False)
class RolesGranted(PrincipalEvent):
    """A principal gets roles, each on what a pattern names."""

    TYPE: ClassVar[str] = "access.RolesGranted.1"
    NESTED: ClassVar[Mapping[str, type[Any]]] = {"metajournal.access.v1.Grant": Grant}

    grants: tuple[Grant, ...]

    def __init__(self, principal: Urn | str, grants: Iterable[Grant | tuple[str, str] | Mapping[str, str]]) -> None:
        _set(self, "principal", as_urn(principal))
        _set(self, "grants", _as_grants(grants))

    def validate(self) -> list[Fault]:
        faults = _principal_faults(self.principal) + empty_faults("grants", self.grants)
        return faults + _grants_faults(self.grants)


@dataclass(frozen=True, slots=True, init=False)
class RolesRevoked(PrincipalEvent):
    """A principal loses some of its grants, or all."""

    TYPE: ClassVar[str] = "access.RolesRevoked.1"
    NESTED: ClassVar[Mapping[str, type[Any]]] = {"metajournal.access.v1.Grant": Grant}

    grants: tuple[Grant, ...]
    all: bool

    def __init__(
        self,
        principal: Urn | str,
        grants: Iterable[Grant | tuple[str, str] | Mapping[str, str]] = (),
        all: bool = False,  # noqa: A002  (its name in the contract)
    ) -> None:
        _set(self, "principal", as_urn(principal))
        _set(self, "grants", _as_grants(grants))
        _set(self, "all", all)

    def validate(self) -> list[Fault]:
        faults = _principal_faults(self.principal) + choice_faults("grants", self.grants, self.all)
        return faults + _grants_faults(self.grants)


@dataclass(frozen=True, slots=True, init=False)
class KeyEvent:
    """What the events about one key share."""

    TYPE: ClassVar[str] = ""
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"key"})

    key: Urn

    def __init__(self, key: Urn | str) -> None:
        _set(self, "key", as_urn(key))

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The key and its principal. Raises: InvalidEventError: it is no key's URN."""
        key = _valid(_key_faults(self.key), self.key)
        return (key, key.aggregate)

    @property
    def aggregate(self) -> Urn:
        """The key's principal. Raises: InvalidEventError: it is no key's URN."""
        return self.entities[1]

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field; empty for a valid one."""
        return _key_faults(self.key)


@dataclass(frozen=True, slots=True, init=False)
class KeyIssued(KeyEvent):
    """A principal gets a key, of which only the hash is kept."""

    TYPE: ClassVar[str] = "access.KeyIssued.1"

    hash: str
    not_after: int | None
    label: str
    once: bool

    def __init__(
        self,
        key: Urn | str,
        hash: str,  # noqa: A002  (its name in the contract)
        not_after: int | None = None,
        label: str = "",
        once: bool = False,
    ) -> None:
        _set(self, "key", as_urn(key))
        _set(self, "hash", hash)
        _set(self, "not_after", not_after)
        _set(self, "label", label)
        _set(self, "once", once)

    def validate(self) -> list[Fault]:
        once: Any = self.once
        whys = {
            "hash": hash_fault(self.hash),
            "not_after": _time_fault(self.not_after),
            "label": text_fault(self.label, limit_bytes=MAX_LABEL_BYTES),
            "once": None if isinstance(once, bool) else f"must be True or False, not {once!r:.80}",
        }
        return _key_faults(self.key) + [Fault(field, why) for field, why in whys.items() if why is not None]


class KeyRevoked(KeyEvent):
    """A key ends permanently."""

    __slots__ = ()
    TYPE: ClassVar[str] = "access.KeyRevoked.1"


@dataclass(frozen=True, slots=True, init=False)
class RoleEvent:
    """What the events about one role share."""

    TYPE: ClassVar[str] = ""
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"role"})

    role: Urn

    def __init__(self, role: Urn | str) -> None:
        _set(self, "role", as_urn(role))

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The role. Raises: InvalidEventError: it is no role's URN."""
        return (_valid(_role_faults(self.role), self.role),)

    @property
    def aggregate(self) -> Urn:
        """The role. Raises: InvalidEventError: it is no role's URN."""
        return self.entities[0]

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field (`actions[2]`); empty for a valid one."""
        return _role_faults(self.role)


@dataclass(frozen=True, slots=True, init=False)
class RoleDefined(RoleEvent):
    """A role allows these actions, and no others."""

    TYPE: ClassVar[str] = "access.RoleDefined.1"

    actions: tuple[str, ...]

    def __init__(self, role: Urn | str, actions: Iterable[str]) -> None:
        _set(self, "role", as_urn(role))
        _set(self, "actions", as_tuple(actions))

    def validate(self) -> list[Fault]:
        faults = _role_faults(self.role)
        actions: Any = self.actions
        if not isinstance(actions, tuple):
            return [*faults, Fault("actions", f"must be a list of actions, not {type(actions).__name__}")]
        faults += empty_faults("actions", actions) + count_faults("actions", len(actions))
        whys = [(index, action_fault(action)) for index, action in enumerate(actions[:MAX_ENTRIES])]
        return faults + [Fault(f"actions[{index}]", why) for index, why in whys if why is not None]


class RoleDeleted(RoleEvent):
    """A role ends; its name never returns, since grants that name it would have a meaning again."""

    __slots__ = ()
    TYPE: ClassVar[str] = "access.RoleDeleted.1"


EVENTS: Final = (
    PrincipalRegistered, PrincipalDisabled, RolesGranted, RolesRevoked, KeyIssued, KeyRevoked, RoleDefined, RoleDeleted,
)  # fmt: skip


def _valid(faults: list[Fault], urn: Urn) -> Urn:
    if faults:
        raise InvalidEventError(faults)
    return urn


def _as_grants(values: Any) -> Any:
    given = as_tuple(values)
    return tuple(map(_as_grant, given)) if type(given) is tuple else given


def _as_grant(value: Any) -> Any:
    """A grant of a pair or a mapping; anything else stays for `validate` to name."""
    if type(value) is Grant:
        return value
    if isinstance(value, Mapping):
        return Grant(**value) if {*value} == {*Grant._fields} else value
    return Grant(*value) if isinstance(value, tuple | list) and len(value) == len(Grant._fields) else value


def _grants_faults(grants: Any) -> list[Fault]:
    if not isinstance(grants, tuple):
        return [Fault("grants", f"must be a list of grants, not {type(grants).__name__}")]
    faults = count_faults("grants", len(grants))
    for index, grant in enumerate(grants[:MAX_ENTRIES]):
        if type(grant) is not Grant:
            faults.append(Fault(f"grants[{index}]", f"must be a grant of role and pattern, not {grant!r:.80}"))
            continue
        whys = (("role", name_fault(grant.role)), ("pattern", pattern_fault(grant.pattern)))
        faults += [Fault(f"grants[{index}].{field}", why) for field, why in whys if why is not None]
    return faults


def _time_fault(value: Any) -> str | None:
    if value is None or (type(value) is int and EARLIEST_MS <= value <= LATEST_MS):
        return None
    return f"must be a whole number of milliseconds from {EARLIEST_MS} to {LATEST_MS}, or null, not {value!r:.80}"


def _principal_faults(value: Any) -> list[Fault]:
    return _urn_faults("principal", value, PRINCIPAL, {"its name": (0, name_fault)})


def _key_faults(value: Any) -> list[Fault]:
    return _urn_faults("key", value, KEY, {"the principal's name": (0, name_fault), "its id": (1, key_id_fault)})


def _role_faults(value: Any) -> list[Fault]:
    return _urn_faults("role", value, ROLE, {"its name": (0, name_fault)})


def _urn_faults(
    field: str, value: Any, kind: str, parts: Mapping[str, tuple[int, Callable[[Any], str | None]]]
) -> list[Fault]:
    faults = urn_faults(field, value)
    if faults:
        return faults
    urn = Urn.parse(value)
    if urn.kind != kind:
        return [Fault(field, f"must be of kind {kind}, not {urn.kind}")]
    whys = [(name, fault(urn.parts[place])) for name, (place, fault) in parts.items()]
    return [Fault(field, f"{name} {why}") for name, why in whys if why is not None]
