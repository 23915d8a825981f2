"""What a principal may do: pure, a function of its grants and of what roles and domains declare.

An action is a verb and a class (`ReadRepo`). The class follows from the kind of the URN, as the kind's domain declares
it, so whoever asks may give the verb alone: `may("Read", urn)`. A domain without kinds (lineage), and the journal as a
whole (SYSTEM annotations, the pipeline), have classes of actions on entities of other domains; those on entities of
this domain are of its own class alone.
A grant allows the actions of its role on what its pattern names; grants only add. Source: docs/concepts.md, "Access".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import count
from typing import Final, NamedTuple

from ...schemas.domain import Actions, Domain, Kind
from ...schemas.kinds import KINDS, domain_of_kind, kind_of
from ...schemas.registry import domain_named, domains, owner_of_undeclared, taken_in
from ...schemas.urn import Urn
from ...schemas.within import Within
from .domain import DOMAIN
from .urns import CONSTANT_ROLES, Pattern, decoded, parse_pattern, pattern_fault

READ: Final = "Read"
WRITE: Final = "Write"
DELETE: Final = "Delete"
CREATE: Final = "Create"
WRITE_LINEAGE: Final = "WriteLineage"
WRITE_SYSTEM: Final = "WriteSystem"
READ_PIPELINE: Final = "ReadPipeline"
READ_ACCESS: Final = "ReadAccess"
WRITE_ACCESS: Final = "WriteAccess"
_VERBS: Final = frozenset({READ, WRITE, DELETE, CREATE})
_KEPT: Final = 256
"""Actions on kinds, of one who may ask, whose patterns are kept."""
_EVERY: Final = parse_pattern("*")
_OF_THE_JOURNAL: Final = (Actions("System", (WRITE,)), Actions("Pipeline", (READ,)))
"""Classes of no domain: annotations of scope SYSTEM, and what the pipeline shows."""
_OF_ENTITIES: Final = ("Entity", "File", "Table")

_ADMIN, _DEVELOPER, _ANALYST, _EMITTER = CONSTANT_ROLES
_CONSTANT: Final[Mapping[str, frozenset[str]]] = {
    _DEVELOPER: frozenset(
        {"ReadRepo", "WriteRepo", WRITE_LINEAGE, READ_PIPELINE}
        | {f"{verb}{of}" for verb in (READ, WRITE) for of in _OF_ENTITIES}
    ),
    _ANALYST: frozenset({"ReadRepo"} | {f"{READ}{of}" for of in _OF_ENTITIES}),
    _EMITTER: frozenset({WRITE_LINEAGE} | {f"{WRITE}{of}" for of in _OF_ENTITIES}),
}

Roles = Mapping[str, frozenset[str]]
"""The actions of each role that the journal defines."""


def _declared() -> tuple[Domain, ...]:
    """Every domain that is known, as it is served."""
    served = {domain.name: domain for domain in (*domains(), *taken_in())}
    return tuple(served.values())


def known_actions() -> frozenset[str]:
    """Every action that can be allowed: those of the domains that are known, and those of the journal."""
    classes = [*(domain.actions for domain in _declared()), *_OF_THE_JOURNAL]
    return frozenset(f"{verb}{one.of}" for one in classes for verb in one.verbs)


def actions_of_role(role: str, roles: Roles) -> frozenset[str]:
    """What a role allows; nothing where it is not defined."""
    if role == _ADMIN:
        return known_actions()
    constant = _CONSTANT.get(role)
    return roles.get(role, frozenset()) if constant is None else constant


def class_of(kind: str) -> Actions:
    """What can be done with entities of a kind, as its domain declares."""
    domain = domain_named(domain_of_kind(kind))
    return Actions("Entity") if domain is None else domain.actions


def action_on(action: str, kind: str) -> str | None:
    """An action on an entity of a kind, by its whole name; None where there is no such action on it.

    Args:
        action: a verb (`Read`), to which the kind gives the class, or a whole name.
    """
    of = class_of(kind)
    if action in _VERBS:
        return f"{action}{of.of}" if action in of.verbs else None
    if action in {f"{verb}{of.of}" for verb in of.verbs}:
        return action
    return action if action in _across() and of != DOMAIN.actions else None


def _across() -> frozenset[str]:
    """The actions on entities of whatever class but this domain's."""
    classes = [*(domain.actions for domain in _declared() if _is_across(domain)), *_OF_THE_JOURNAL]
    return frozenset(f"{verb}{one.of}" for one in classes for verb in one.verbs)


def _is_across(domain: Domain) -> bool:
    """Whether a domain's events are about entities of others."""
    return not domain.kinds and domain.journal is not None


class Rights:
    """What somebody may do: a value.

    Args:
        grants: (role, pattern) of each; a pattern that is none allows nothing.
        roles: what the journal's own roles allow.
    """

    def __init__(self, grants: Iterable[tuple[str, str]], roles: Roles) -> None:
        self.grants = tuple(sorted(set(grants)))
        self._roles = roles
        self._within: dict[str, tuple[Within, ...]] = {}
        self._patterns = lru_cache(_KEPT)(self._patterns_of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rights) and self._allowed == other._allowed

    def __hash__(self) -> int:
        return hash(tuple(self._allowed.items()))

    def __repr__(self) -> str:
        return f"Rights({list(self.grants)!r})"

    def may(self, action: str, urn: Urn) -> bool:
        """Whether an action is allowed on an entity.

        Args:
            action: a verb (`Read`, `Write`, `Delete`, `Create`), or a whole name (`WriteSystem`).
        """
        return any(_matches(pattern, urn) for pattern in self._patterns(action, urn.kind))

    def whole(self, action: str, urn: Urn) -> str:
        """An action by the name that roles have, as it is told: a verb with the class of the entity's kind."""
        return f"{action}{class_of(urn.kind).of}" if action in _VERBS else action

    def anywhere(self, action: str) -> bool:
        """Whether an action, by its whole name, is allowed on anything: for what is of no entity, the pipeline."""
        if action in _across():  # who may give it on nothing at all must not give it
            nothing = _Taken(action, ())
            return any(not nothing.takes_in(pattern) for pattern in self._parsed.get(action, ()))
        return action in self._allowed

    def everywhere(self, action: str) -> bool:
        """Whether an action is allowed on every entity that it is possible on. Args as of `may`."""
        wholes = {whole for kind in KINDS if (whole := action_on(action, kind))}
        return all(_Taken(whole, self._parsed.get(whole, ())).takes_in(_EVERY) for whole in wholes)

    def within(self, action: str) -> tuple[Within, ...]:
        """The entities that an action is allowed on, as conditions of which one must be true; none: no entity.

        Args:
            action: as of `may`.
        """
        if action not in self._within:
            self._within[action] = tuple(self._conditions(action))
        return self._within[action]

    def _conditions(self, action: str) -> Iterator[Within]:
        for of, kinds in _kinds_by_class().items():
            for whole in sorted({found for kind in kinds if (found := action_on(action, kind))}):
                if whole in self._parsed:
                    own = of == class_of_undeclared().of
                    others = frozenset(KINDS) - kinds if own else frozenset[str]()
                    yield _within(None if own else kinds, others, self._parsed[whole])

    def covers(self, other: Rights) -> bool:
        """Whether everything that others' rights allow is allowed by these: who gives rights must have them."""
        return all(
            all(map(_Taken(action, self._parsed.get(action, ())).takes_in, patterns))
            for action, patterns in other._parsed.items()
        )

    def _patterns_of(self, action: str, kind: str) -> tuple[Pattern, ...]:
        """The patterns of grants that allow an action, of those that may take in entities of a kind."""
        whole = action_on(action, kind)
        return tuple(one for one in self._parsed.get(whole or "", ()) if one.kind in (None, kind))

    @cached_property
    def _allowed(self) -> dict[str, tuple[str, ...]]:
        """The patterns of each known action, both in order."""
        known = known_actions()
        allowed: dict[str, set[str]] = {}
        of_role: dict[str, frozenset[str]] = {}
        for role, pattern in self.grants:
            if pattern_fault(pattern) is None:
                if role not in of_role:
                    of_role[role] = actions_of_role(role, self._roles) & known
                for action in of_role[role]:
                    allowed.setdefault(action, set()).add(pattern)
        return {action: tuple(sorted(patterns)) for action, patterns in sorted(allowed.items())}

    @cached_property
    def _parsed(self) -> dict[str, tuple[Pattern, ...]]:
        parsed = {one: parse_pattern(one) for one in {one for every in self._allowed.values() for one in every}}
        return {action: tuple(parsed[one] for one in patterns) for action, patterns in self._allowed.items()}


def _within(kinds: frozenset[str] | None, others: frozenset[str], patterns: Iterable[Pattern]) -> Within:
    """Entities of some kinds that one of the patterns takes in."""
    possible = [
        one for one in patterns if one.kind is None or (one.kind not in others if kinds is None else one.kind in kinds)
    ]
    paths = [(one, "/".join(one.parts)) for one in possible]
    return Within(
        kinds,
        others,
        every=any(one.kind is None and not path for one, path in paths),
        starts=tuple(
            f"{one.kind}:{path}/" if path else f"{one.kind}:" for one, path in paths if one.kind and not one.whole
        ),
        urns=tuple(f"{one.kind}:{path}" for one, path in paths if one.whole),
        namespaces=tuple(decoded(path) for one, path in paths if one.kind is None and path),
        unspaced=frozenset(kind for kind in KINDS if not has_namespace(kind)),
    )


def _matches(pattern: Pattern, urn: Urn) -> bool:
    """Whether an entity is one of those of a pattern of its kind, or of any kind."""
    if pattern.kind is None:
        return not pattern.parts or (has_namespace(urn.kind) and urn.path.startswith(f"{pattern.parts[0]}/"))
    path = "/".join(pattern.parts)
    if pattern.whole:
        return urn.path == path
    return not path or urn.path.startswith(f"{path}/")


def has_namespace(kind: str) -> bool:
    """Whether the first of several parts of a kind's paths is a namespace."""
    domain = domain_named(domain_of_kind(kind))
    return domain is None or domain.has_namespaces


def _kinds_by_class() -> dict[str, frozenset[str]]:
    """The declared kinds of each class; also of that which undeclared kinds are of."""
    classes: dict[str, set[str]] = {class_of_undeclared().of: set()}
    for kind in KINDS:
        classes.setdefault(class_of(kind).of, set()).add(kind)
    return {of: frozenset(kinds) for of, kinds in sorted(classes.items())}


def class_of_undeclared() -> Actions:
    """What can be done with entities of kinds that no domain declares."""
    owner = domain_named(owner_of_undeclared())
    assert owner is not None
    return owner.actions


# Whether some patterns take in all that another does. A part that is free to be any name has more names than patterns
# have, so such patterns must take in everything below; a part that must be one of some words is looked at word by word.


class _Taken:
    """What some patterns take in of that on which an action is possible.

    Args:
        action: by its whole name.
        patterns: of those who may do it.
    """

    def __init__(self, action: str, patterns: Sequence[Pattern]) -> None:
        self._action = action
        self._patterns = patterns
        self._possible: dict[str, bool] = {}
        self._by_kind: dict[str, _Paths] = {}

    def takes_in(self, pattern: Pattern) -> bool:
        """Whether they take in every entity that another pattern does."""
        return all(self._takes_in(kind, pattern) for kind in self._kinds(pattern))

    def _kinds(self, pattern: Pattern) -> Iterator[str]:
        """The kinds of a pattern that the action is possible on. Of undeclared ones all that no pattern names are
        alike, so one of them stands for all, those that a pattern names included: it is the hardest of them to cover.
        """
        kinds = self._every if pattern.kind is None else (pattern.kind,)
        for kind in kinds:
            if self._is_possible(kind) and (pattern.kind or not pattern.parts or has_namespace(kind)):
                yield kind

    @cached_property
    def _every(self) -> tuple[str, ...]:
        named = {one.kind for one in self._patterns} | {*KINDS}
        return (*KINDS, next(name for number in count() if (name := f"any-{number}") not in named))

    def _is_possible(self, kind: str) -> bool:
        if kind not in self._possible:
            self._possible[kind] = action_on(self._action, kind) == self._action
        return self._possible[kind]

    def _takes_in(self, kind: str, pattern: Pattern) -> bool:
        """The same of entities of a kind."""
        if kind not in self._by_kind:
            self._by_kind[kind] = _paths_of(kind, self._patterns)
        if pattern.whole:
            return _is_entity_covered(kind_of(kind), pattern.parts, self._by_kind[kind])
        return _is_region_covered(kind_of(kind), pattern.parts, self._by_kind[kind])


class _Paths(NamedTuple):
    """Paths of entities, and the beginnings of paths below which all are meant: looked up, since both may be many."""

    entities: frozenset[tuple[str, ...]]
    regions: frozenset[tuple[str, ...]]


def _paths_of(kind: str, patterns: Iterable[Pattern]) -> _Paths:
    """What patterns say of a kind."""
    meant = [one for one in patterns if one.kind == kind or (one.kind is None and _is_of(kind, one))]
    return _Paths(
        frozenset(one.parts for one in meant if one.whole), frozenset(one.parts for one in meant if not one.whole)
    )


def _is_of(kind: str, pattern: Pattern) -> bool:
    """Whether a pattern of every kind takes in entities of this one."""
    return not pattern.parts or has_namespace(kind)


def _is_entity_covered(kind: Kind, parts: tuple[str, ...], own: _Paths) -> bool:
    """Whether one entity is taken in; one that cannot be needs no pattern."""
    if not kind.min_parts <= len(parts) <= kind.max_parts or not _fits(kind, parts):
        return True
    return parts in own.entities or any(parts[:place] in own.regions for place in range(len(parts)))


def _is_region_covered(kind: Kind, parts: tuple[str, ...], own: _Paths) -> bool:
    """The same of all entities whose paths begin with some parts and go on."""
    place = len(parts)
    if place >= kind.max_parts or not _fits(kind, parts):
        return True
    if any(parts[:before] in own.regions for before in range(place + 1)):
        return True
    if kind.choice is None or kind.choice.part != place:
        return False
    return all(
        _is_entity_covered(kind, (*parts, word), own) and _is_region_covered(kind, (*parts, word), own)
        for word in kind.choice.words
    )


def _fits(kind: Kind, parts: tuple[str, ...]) -> bool:
    """Whether a path of a kind may begin with some parts."""
    choice = kind.choice
    return choice is None or len(parts) <= choice.part or parts[choice.part] in choice.words
