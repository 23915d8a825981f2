"""Domains from outside: packages beside this one that have a domain's folder, found by their entry point.

A package names its folder under the entry point `metajournal.domains`; the name there is the domain's. Entry points are
read for a word that is not our own, and never at import, so an installed package costs nothing and changes nothing:
what an installation serves is data of its journal (`producers.recorded.served`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module, invalidate_caches
from types import ModuleType
from typing import Final, NamedTuple

from .domain import Domain
from .errors import DomainError
from .registry import domains, joining, module_of

GROUP: Final = "metajournal.domains"
OWN_PACKAGE: Final = "metajournal"
"""What a journal's record calls the package of a domain of our own that joined it."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_CLASH: Final = "Remove one of the two packages, or rename the domain or kind in one of them."


class Installed(NamedTuple):
    """A domain that an installed package brings.

    Attributes:
        name: the domain's name, as the entry point says.
        package: what pip calls the package.
        module: dotted name of the domain's folder.
    """

    name: str
    package: str
    module: str


@cache
def installed() -> tuple[Installed, ...]:
    """Every entry point of the group, by name: read once for each process."""
    from importlib.metadata import entry_points  # it loads 40 modules, for a word that is not our own

    found = {
        Installed(one.name, one.dist.name if one.dist is not None else one.module, one.module)
        for one in entry_points(group=GROUP)
    }
    return tuple(sorted(found))


def look_again() -> None:
    """Forget what is installed, so that a process that stays sees what came since it began, as far as Python can."""
    invalidate_caches()
    for known in (installed, declaration, module_of):
        known.cache_clear()


def package_of(name: str) -> Installed | None:
    """The package that brings a domain, this one for one of our own that joins journals; None where none does.

    Raises:
        DomainError: two packages bring one of that name, or the name is another one of our own.
    """
    own = _own(name)
    if own is not None:
        return Installed(name, OWN_PACKAGE, own.package)
    several = [one for one in installed() if one.name == name]
    if len(several) > 1:
        who = " and ".join(f"{one.package} ({one.module})" for one in several)
        raise DomainError(f"Two packages declare the domain {name}: {who}.", code="declared-twice", hint=_CLASH)
    if several and any(own.name == name for own in domains()):
        raise DomainError(
            f"{several[0].package} declares the domain {name}, which metajournal declares itself.",
            code="declared-twice", hint=_CLASH,
        )  # fmt: skip
    return several[0] if several else None


def _own(name: str) -> Domain | None:
    """A domain of our own that joins journals as those from outside do: no entry point tells of it."""
    return next((domain for domain in joining() if domain.name == name), None)


@cache
def declaration(name: str) -> Domain | None:
    """What a domain that joins journals declares; None where no package brings it.

    Raises:
        DomainError: as `package_of`, or the declaration cannot be loaded, or is none of a domain from outside.
    """
    own, found = _own(name), package_of(name)
    if own is not None or found is None:
        return own
    try:
        domain = import_module(f"{found.module}.domain").DOMAIN
    except Exception as error:  # whatever a package does when it is imported
        raise _broken(found, f"{found.module}.domain does not give its DOMAIN", error) from error
    faults = list(_faults(found, domain))
    if faults:
        raise DomainError(
            f"The package {found.package} declares the domain {name} wrongly: {'; '.join(faults)}.",
            code="broken-domain",
            hint=f"Fix {found.module}/domain.py: docs/how-to/write-a-domain.md says what belongs there.",
        )
    return domain  # type: ignore[no-any-return]


def _broken(brought: Installed, why: str, error: Exception) -> DomainError:
    return DomainError(
        f"The package {brought.package} brings the domain {brought.name}, but {why}: {type(error).__name__}: {error}.",
        code="broken-domain",
        hint=f"Fix or upgrade {brought.package}.",
    )


def _faults(found: Installed, domain: object) -> Iterable[str]:
    """What is wrong with a declaration."""
    if not isinstance(domain, Domain):
        yield "DOMAIN is not a metajournal.schemas.domain.Domain"
        return
    if domain.name != found.name or not _NAME.fullmatch(domain.name):
        yield f"it is called {domain.name!r}, its entry point {found.name!r} (both must be one [a-z][a-z0-9_]*)"
    if domain.package != found.module:
        yield f"its package must be {found.module!r}, not {domain.package!r}"
    if domain.journal is not None or not domain.served or domain.owns_undeclared_kinds or not domain.kinds:
        yield "an external domain has kinds and a journal topic of its own, and owns no undeclared kinds"
    if domain.original or domain.reserved:
        yield "only metajournal's own domains are original, or have reserved kinds"
    yield from (f"{one} does not begin with {domain.name}." for one in domain.event_types if not _is_own(domain, one))
    for kind in domain.kinds:
        owner = next((own.name for own in domains() if kind.name in _kinds_everywhere(own)), None)
        if owner is not None:
            yield f"its kind {kind.name} is declared by metajournal's own domain {owner}"
        if kind.domain != domain.name:
            yield f"its kind {kind.name} says that it belongs to {kind.domain}"
        if kind.aggregate_kind not in (None, *domain.kind_names):
            yield f"the aggregate of its kind {kind.name} is of another domain"
    for one in domain.names:
        if not {one.kind, one.other} <= domain.kind_names:
            yield f"the field {one.field} that names entities is not between kinds of its own"


def _kinds_everywhere(own: Domain) -> frozenset[str]:
    """The kinds of a domain of our own that are its own in every journal: of one that joins, the reserved ones."""
    return frozenset(own.reserved) if own in joining() else own.kind_names


def _is_own(domain: Domain, event_type: str) -> bool:
    return event_type.startswith(f"{domain.name}.") and event_type.count(".") == 2


def file_of(name: str, role: str) -> ModuleType | None:
    """A file of a domain from outside by its role, whether or not any journal serves it; None where there is none.

    Raises:
        DomainError: as `declaration`, or the file does not load.
    """
    domain, brought = declaration(name), package_of(name)
    if domain is None or brought is None:
        return None
    try:
        return module_of(domain.package, role)
    except Exception as error:  # whatever a package does when it is imported
        raise _broken(brought, f"{brought.module}.{role} does not load", error) from error


def event_types_from_outside() -> tuple[str, ...]:
    """`<domain>.<Event>` of each event that installed packages which are in order declare."""
    types: dict[str, None] = {}
    for brought in installed():
        with suppress(DomainError):
            domain = declaration(brought.name)
            types |= {one.rpartition(".")[0]: None for one in (domain.event_types if domain is not None else ())}
    return tuple(types)


def is_brought(kind: str) -> bool:
    """Whether an installed package that is in order declares a kind."""
    for brought in installed():
        with suppress(DomainError):
            declared = declaration(brought.name)
            if declared is not None and kind in declared.kind_names:
                return True
    return False


def check_kinds(domain: Domain) -> None:
    """Hold the kinds of a domain against those of every other installed one that is in order.

    Raises:
        DomainError: another package declares one of them too.
    """
    for other in installed():
        if other.name == domain.name:
            continue
        try:
            declared = declaration(other.name)
        except DomainError:
            continue  # it cannot be served before it is mended
        both = sorted(domain.kind_names & declared.kind_names) if declared is not None else []
        if both:
            mine = package_of(domain.name)
            raise DomainError(
                f"Two packages declare the kind {both[0]}: {mine.package if mine else domain.package} (domain "
                f"{domain.name}) and {other.package} (domain {other.name}).",
                code="declared-twice",
                hint=_CLASH,
            )
