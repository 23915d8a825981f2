"""The domains of this process, and the files of a domain by their roles.

A domain is a folder below `domains/` (see `domain`); the layers name none of them, they ask here. Our own are all
declared. The original ones every journal serves. All others join a journal: those from outside (`outside`), and our own
that earlier versions did not serve (`joining`). They are taken in when a journal of this process serves them; which
journal does is that journal's data, so what is asked here of "served" domains are our own. Invariant: what is declared
never changes; domains are only added, before they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from .domain import Domain
from .errors import DomainError

_ROOT: Final = __name__.rsplit(".", 2)[0]
_declared: dict[str, Domain] = {}
_outside: dict[str, Domain] = {}
_listeners: list[Callable[[Domain], None]] = []


def domains() -> tuple[Domain, ...]:
    """Every domain of our own, by name."""
    if not _declared:
        ours = import_module(f"{_ROOT}.domains").names()
        for name in ours:
            _declared[name] = import_module(f"{_ROOT}.domains.{name}.domain").DOMAIN
    return tuple(_declared.values())


def taken_in() -> tuple[Domain, ...]:
    """The domains that joined journals of this process, by name: from outside, or our own that are `joining`."""
    return tuple(_outside[name] for name in sorted(_outside))


def take_in(domain: Domain) -> None:
    """Add a domain that joined a journal, as that journal's record tells it; nothing where it is there already.

    Args:
        domain: with the record's kinds; without a package where that is not installed.
    Raises:
        DomainError: another journal of this process serves it, or one of its kinds, otherwise.
    """
    known = _outside.get(domain.name)
    if known is not None and known.kinds == domain.kinds:
        return
    others = [one for one in _outside.values() if one.kind_names & domain.kind_names]
    if known is not None or others:
        other = known or others[0]
        raise DomainError(
            f"Another journal of this process serves the domain {other.name} with other kinds "
            f"({', '.join(sorted(other.kind_names))}) than {domain.name} has here.",
            code="other-kinds",
            hint="Use a process of its own for each of the two journals.",
        )
    _outside[domain.name] = domain
    try:
        for listener in _listeners:
            listener(domain)
    except BaseException:
        del _outside[domain.name]
        raise


def for_each_domain(take: Callable[[Domain], None]) -> None:
    """Hand over every domain: those that are declared now, and each that is taken in later.

    One of our own that joins journals comes twice: first with its reserved kinds alone, then as a journal serves it.
    """
    for domain in (*map(_before_joining, domains()), *taken_in()):
        take(domain)
    _listeners.append(take)


def domain_named(name: str) -> Domain | None:
    """A domain of our own, or one that was taken in; None where there is none of that name."""
    domains()
    return _declared.get(name) or _outside.get(name)


def has_documents(name: str) -> bool:
    """Whether the entities of a domain have state documents and take annotations: those of most domains.

    (Asked for every event; what it looks at is there since the kinds are.)
    """
    domain = _declared.get(name) or _outside.get(name)
    return domain is None or domain.has_documents


def served() -> tuple[Domain, ...]:
    """Domains of our own whose events this version writes and folds."""
    return tuple(domain for domain in domains() if domain.served)


def served_domains() -> tuple[str, ...]:
    """Names of the domains whose journal topic every journal has; of a journal, its `Epochs.domains` tells all."""
    return tuple(domain.name for domain in served() if domain.journal is None and domain.original)


def joining() -> tuple[Domain, ...]:
    """Our own domains with a journal topic that earlier versions did not serve: a journal does once its record says so.

    Until then their kinds are there what they were: those that were reserved belong to no topic, all others are kinds
    that nobody declares.
    """
    return tuple(domain for domain in served() if domain.journal is None and not domain.original)


def is_joining(name: str) -> bool:
    """Whether a domain is one of `joining`."""
    return any(domain.name == name for domain in joining())


def _before_joining(domain: Domain) -> Domain:
    """A domain of our own as it is where no journal tells of it."""
    if not is_joining(domain.name):
        return domain
    return domain._replace(kinds=tuple(kind for kind in domain.kinds if kind.name in domain.reserved))


@cache
def owner_of_undeclared() -> str:
    """Name of the domain that owns every undeclared kind, and the annotations of every entity."""
    return next(domain.name for domain in domains() if domain.owns_undeclared_kinds)


def domains_in(topic_domain: str) -> tuple[Domain, ...]:
    """The domains whose events stand in the journal topic of a domain: annotations stand in every one of them."""
    ours = [
        domain for domain in served() if domain.owns_undeclared_kinds or topic_domain in (domain.name, domain.journal)
    ]
    names = {domain.name for domain in ours}
    return (*ours, *(domain for domain in taken_in() if domain.name == topic_domain and domain.name not in names))


def changes_of(topic_domain: str) -> tuple[str, ...]:
    """The domains whose change records follow from a journal topic."""
    return tuple(domain.name for domain in domains_in(topic_domain) if domain.has_changes)


def change_domains() -> tuple[str, ...]:
    """Our own domains that have a change topic."""
    return tuple(domain.name for domain in served() if domain.has_changes)


def role(domain: str, name: str) -> ModuleType | None:
    """A file of a domain by its role (`rules`, `tables`, `documents`); None where the domain has none.

    Args:
        domain: name of a declared domain.
        name: the role; of a file in a folder with a dot between (`columns.folder`).
    """
    declared = domain_named(domain)
    return None if declared is None or not declared.package else module_of(declared.package, name)


@cache
def module_of(package: str, name: str) -> ModuleType | None:
    """A file of a domain's folder; None where the folder has none of that name."""
    module = f"{package}.{name}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith(f"{package}.") and f"{module}.".startswith(f"{missing}."):
            return None  # the file, or the folder that it would stand in
        raise
