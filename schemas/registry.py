"""The domains of this process, and the files of a domain by their roles.

A domain is a folder below `domains/` (see `domain`); the layers name none of them, they ask here. Our own are all
declared. Invariant: what is declared never changes; domains are only added, before they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from .domain import Domain

_ROOT: Final = __name__.rsplit(".", 2)[0]
_declared: dict[str, Domain] = {}
_listeners: list[Callable[[Domain], None]] = []


def domains() -> tuple[Domain, ...]:
    """Every declared domain, ours first, by name."""
    if not _declared:
        ours = import_module(f"{_ROOT}.domains").names()
        for name in ours:
            _add(import_module(f"{_ROOT}.domains.{name}.domain").DOMAIN)
    return tuple(_declared.values())


def _add(domain: Domain) -> None:
    _declared[domain.name] = domain
    for listener in _listeners:
        listener(domain)


def for_each_domain(take: Callable[[Domain], None]) -> None:
    """Hand over every domain: those that are declared now, and each that is added later."""
    for domain in domains():
        take(domain)
    _listeners.append(take)


def domain_named(name: str) -> Domain | None:
    """A declared domain; None where there is none of that name."""
    domains()
    return _declared.get(name)


def served() -> tuple[Domain, ...]:
    """Domains whose events this version writes and folds."""
    return tuple(domain for domain in domains() if domain.served)


def served_domains() -> tuple[str, ...]:
    """Names of the domains that have a journal topic."""
    return tuple(domain.name for domain in served() if domain.journal is None)


@cache
def owner_of_undeclared() -> str:
    """Name of the domain that owns every undeclared kind, and the annotations of every entity."""
    return next(domain.name for domain in domains() if domain.owns_undeclared_kinds)


def domains_in(topic_domain: str) -> tuple[Domain, ...]:
    """The domains whose events stand in the journal topic of a domain: annotations stand in every one of them."""
    return tuple(
        domain for domain in served() if domain.owns_undeclared_kinds or topic_domain in (domain.name, domain.journal)
    )


def changes_of(topic_domain: str) -> tuple[str, ...]:
    """The domains whose change records follow from a journal topic."""
    return tuple(domain.name for domain in domains_in(topic_domain) if domain.has_changes)


def change_domains() -> tuple[str, ...]:
    """Domains that have a change topic."""
    return tuple(domain.name for domain in served() if domain.has_changes)


def role(domain: str, name: str) -> ModuleType | None:
    """A file of a domain by its role (`rules`, `tables`, `documents`); None where the domain has none.

    Args:
        domain: name of a declared domain.
        name: the role; of a file in a folder with a dot between (`columns.folder`).
    """
    declared = domain_named(domain)
    return None if declared is None else _module(declared.package, name)


@cache
def _module(package: str, name: str) -> ModuleType | None:
    module = f"{package}.{name}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith(f"{package}.") and f"{module}.".startswith(f"{missing}."):
            return None  # the file, or the folder that it would stand in
        raise
