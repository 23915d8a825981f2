"""Whether an installed package declares a whole domain: every file loads, and they agree with one another.

What is served is served for good, and whoever serves it loads these files: so all of them are held against the
declaration, and against one another, before anything is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from ...lake.columns import TableSpec
from ...lake.declared import SPECS, check_names
from ...schemas.domain import Domain
from ...schemas.encoding.known import contracts_of
from ...schemas.errors import DomainError
from ...schemas.outside import Installed, check_kinds, declaration, package_of
from ...schemas.registry import domains, module_of
from .fault import fault_in

_GIVES: Final[Mapping[str, tuple[str, ...]]] = {
    "events": ("EVENTS",),
    "rules": ("RULES",),
    "rows": ("ROWS",),
    "tables": ("TABLES",),
    "derived": ("DERIVED",),
    "documents": ("add_documents",),
    "words": ("words",),
    "as_of": (),
    "columns.folder": ("folder_of",),
    "columns.documents": ("blocks_of_rows",),
    "typed": ("typed",),
    "queries": (),
    "client": ("CLIENT",),
    "commands": ("COMMANDS",),
}
"""Every file of a domain besides its declaration, by its role, and what it must give where it is there."""


def whole_domain(name: str) -> tuple[Domain, str]:
    """A domain that an installed package brings, with the package's name.

    Raises:
        DomainError: there is none, it is one of our own, another package has one of its kinds or tables, or it is not
            whole: a file of it does not load, or it lacks what another one names.
    """
    brought, domain = package_of(name), declaration(name)
    if brought is None or domain is None:
        own = next((one for one in domains() if one.name == name), None)
        if own is not None:
            text = "there is nothing to add" if own.served else "this version does not serve it yet"
            raise DomainError(
                f"{name} is a built-in domain: {text}.",
                code="own-domain",
                hint="Every built-in domain is served once the stream has started; `metajournal domains` lists them.",
            )
        raise DomainError(
            f"No installed package provides a domain {name!r}.",
            code="missing-domain",
            hint="Install the package in this Python environment; `metajournal domains` lists what is installed.",
        )
    check_kinds(domain)
    with _loaded(brought, domain, "contracts/"):
        contracts = {one.event_type for one in contracts_of(domain) if one.revision is None}
    files = {role: _file(brought, domain, role) for role in _GIVES}
    with _loaded(brought, domain, "what its files give"):
        differing = [*_of_events(domain, contracts, files), *_of_tables(domain, files)]
    if differing:
        raise _broken(brought, domain, differing[0])
    return domain, brought.package


def _file(brought: Installed, domain: Domain, role: str) -> ModuleType | None:
    """A file of a domain, loaded; None where the domain has none."""
    file = f"{role.replace('.', '/')}.py"
    with _loaded(brought, domain, file):
        module = module_of(domain.package, role)
    lacking = [] if module is None else [name for name in _GIVES[role] if not hasattr(module, name)]
    if lacking:
        raise _broken(brought, domain, f"its {file} lacks {' and '.join(lacking)}")
    return module


@contextmanager
def _loaded(brought: Installed, domain: Domain, what: str) -> Iterator[None]:
    """Say of whatever a package does when its files are loaded that this package does it."""
    try:
        yield
    except DomainError:
        raise
    except Exception as error:
        fault = fault_in(error, (domain,))
        place = what if fault is None else str(fault)
        raise _broken(brought, domain, f"{place} fails: {type(error).__name__}: {error}") from error


def _broken(brought: Installed, domain: Domain, why: str) -> DomainError:
    return DomainError(
        f"The domain {domain.name} of {brought.package} is incomplete: {why.rstrip('.')}.",
        code="broken-domain",
        hint=f"Fix {brought.module}: docs/how-to/write-a-domain.md says what belongs where. Nothing was recorded.",
    )


def _of_events(domain: Domain, contracts: set[str], files: Mapping[str, Any]) -> Iterator[str]:
    """What does not agree about events."""
    events, rules = files["events"], files["rules"]
    has: dict[str, set[str]] = {
        "contracts/": contracts,
        "EVENTS in events.py": {event.TYPE for event in events.EVENTS} if events else set(),
        "RULES in rules.py": set(rules.RULES) if rules else set(),
    }
    for where, types in has.items():
        differ = sorted(types ^ set(domain.event_types))
        if differ:
            yield f"it declares other event types than it has in {where}: {', '.join(differ)}"
    unknown = sorted(set(getattr(rules, "READS", ())) - set(domain.event_types))
    if unknown:
        yield f"READS in rules.py names event types that it does not declare: {', '.join(unknown)}"


def _of_tables(domain: Domain, files: Mapping[str, Any]) -> Iterator[str]:
    """What does not agree about tables. Raises: DomainError: another domain has one of them."""
    tables, rows, derived = files["tables"], files["rows"], files["derived"]
    specs: dict[str, TableSpec] = {spec.name: spec for spec in tables.TABLES} if tables else {}
    check_names(domain, specs)
    of_rows = {key.TABLE for key in rows.ROWS.values()} if rows else set()
    differ = sorted(of_rows ^ {name for name, spec in specs.items() if not spec.version})
    if differ:
        yield f"TABLES in tables.py (those without a version) and ROWS in rows.py differ: {', '.join(differ)}"
    made: set[str] = set()
    for function in derived.DERIVED if derived else ():
        undeclared = sorted(name for name in function.tables if name not in specs or not specs[name].version)
        if undeclared:
            yield (
                f"derived.py makes tables that TABLES in tables.py does not declare with a version: "
                f"{', '.join(undeclared)}"
            )
        known = {**SPECS, **specs}
        asked = (*function.reads, *function.looks_up)
        unread = sorted(name for name in asked if name not in known or known[name].version)
        if unread:
            yield f"derived.py reads tables that are not tables of the fold: {', '.join(unread)}"
        made |= {*function.tables}
    without = sorted(name for name, spec in specs.items() if spec.version and name not in made)
    if without:
        yield f"no function in derived.py makes the tables that have a version: {', '.join(without)}"
