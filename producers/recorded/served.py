"""What a journal's record in `<prefix>.epochs` tells of a domain: its kinds, and since when they are its own.

Which kind belongs to which topic decides verdicts, so it is data of the journal: the fold, a rebuild and every client
obey the record, whatever is installed. It stands in fields of the topic's own record, under the topic's own key, since
older versions pass over fields that they do not know and refuse keys that they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...schemas.domain import MANY, Choice, Domain, Kind
from ...schemas.errors import DomainError, UnservedDomainError
from ...schemas.outside import Installed, declaration, package_of
from ...schemas.registry import domain_named, take_in, taken_in

NEVER: Final = 1 << 62
"""Above every position: a kind that another journal of this process serves, and this one does not."""


@dataclass(frozen=True, slots=True)
class Served:
    """A domain from outside, as a journal serves it.

    Args:
        name: the domain's.
        package: what pip calls the package that brings it.
        kinds: its kinds, whole, so that who lacks the package can still name such an entity.
        has_changes: it has a change topic of its own.
        first_epoch: the first epoch of its journal topic: behind that of the catalog's, so that what becomes of an
            entity here is newer than all that the catalog ever told of it.
        cuts: for each journal topic that there was, the next position of each partition when the domain was added:
            below it its kinds are read as undeclared, as they were when those records were judged.
    """

    name: str
    package: str
    kinds: tuple[Kind, ...]
    has_changes: bool
    first_epoch: int
    cuts: Mapping[str, Sequence[int]]

    @property
    def kind_names(self) -> frozenset[str]:
        """Names of its kinds."""
        return frozenset(kind.name for kind in self.kinds)

    def cut(self, topic: str, partition: int) -> int:
        """The next position of a journal partition when the domain was added; 0 where there was none."""
        marks = self.cuts.get(topic, ())
        return marks[partition] if partition < len(marks) else 0

    def fields(self) -> dict[str, Any]:
        """The fields of the topic's record."""
        return {
            "domain": self.name,
            "package": self.package,
            "kinds": [kind_fields(kind) for kind in self.kinds],
            "changes": self.has_changes,
            "first_epoch": self.first_epoch,
            "cuts": {topic: list(marks) for topic, marks in self.cuts.items()},
        }


def kind_fields(kind: Kind) -> dict[str, Any]:
    """A kind's row as JSON."""
    row: dict[str, Any] = {"name": kind.name, "min_parts": kind.min_parts, "max_parts": kind.max_parts}
    if kind.aggregate_kind is not None:
        row["aggregate"] = {"kind": kind.aggregate_kind, "parts": kind.aggregate_parts}
    if kind.choice is not None:
        row["choice"] = {"part": kind.choice.part, "words": sorted(kind.choice.words), "what": kind.choice.what}
    return row


def served_of(record: Mapping[str, Any]) -> Served | None:
    """What a topic's record tells of a domain from outside; None of one of our own.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: the fields are damaged.
    """
    if "package" not in record:
        return None
    name = str(record["domain"])
    kinds = tuple(_kind_of(row, name) for row in record["kinds"])
    cuts = {str(topic): tuple(map(int, marks)) for topic, marks in record["cuts"].items()}
    return Served(name, str(record["package"]), kinds, bool(record["changes"]), int(record["first_epoch"]), cuts)


def _kind_of(row: Mapping[str, Any], domain: str) -> Kind:
    aggregate, choice = row.get("aggregate"), row.get("choice")
    return Kind(
        str(row["name"]), domain, int(row["min_parts"]), int(row.get("max_parts", MANY)),
        None if aggregate is None else str(aggregate["kind"]),
        0 if aggregate is None else int(aggregate["parts"]),
        None if choice is None else Choice(int(choice["part"]), frozenset(choice["words"]), str(choice["what"])),
    )  # fmt: skip


def obey(served: Served) -> None:
    """Take a served domain into this process: with its package, or by the record alone where that is missing.

    Raises:
        DomainError: its package is broken, or another journal of this process serves one of its kinds otherwise.
    """
    known = domain_named(served.name)
    if known is not None and known.kinds == served.kinds:
        return
    declared = declaration(served.name) if package_of(served.name) is not None else None
    if declared is None:
        declared = Domain(served.name, "", has_changes=served.has_changes)
    take_in(declared._replace(kinds=served.kinds, has_changes=served.has_changes))


def moved_from(several: Sequence[Served], topic: str, partition: int) -> tuple[tuple[str, int], ...]:
    """The kinds from outside that were undeclared in a journal partition, each with where that ends.

    None in a topic that is younger than the domain.

    Args:
        several: the domains from outside that the journal serves.
    """
    here = {kind: served.cut(topic, partition) for served in several for kind in served.kind_names}
    elsewhere = {kind: NEVER for domain in taken_in() for kind in domain.kind_names if kind not in here}
    return tuple(sorted((kind, cut) for kind, cut in {**elsewhere, **here}.items() if cut))


def require_packages(several: Sequence[Served]) -> None:
    """Refuse where a served domain cannot be judged by this process.

    Raises:
        DomainError: its package is not installed, is another one, or declares other kinds than the journal serves.
    """
    for served in several:
        brought = package_of(served.name)
        if brought is None:
            raise missing_package(served.name, served.package)
        declared = declaration(served.name)
        assert declared is not None  # a package brings it
        if declared.kinds != served.kinds or declared.has_changes != served.has_changes:
            raise _other_declaration(served, brought, declared)


def missing_package(name: str, package: str) -> DomainError:
    """The error of who would need a domain's package and does not have it."""
    return DomainError(
        f"This journal serves the domain {name}, which the package {package} brings; it is not installed here.",
        code="missing-domain",
        hint=f"Install it into this Python, on every machine of the cluster: pip install {package}. "
        "Then start again; nothing is lost meanwhile.",
        domain=name,
        package=package,
    )


def unserved(name: str, what: str) -> UnservedDomainError:
    """The error of who has a domain's package, where the journal does not serve that domain."""
    error = UnservedDomainError(name, what)
    error.advise(
        f"`metajournal domains add {name}` has this installation serve it; connect again afterwards."
        if package_of(name) is not None
        else error.hint
    )
    return error


def _other_declaration(served: Served, brought: Installed, declared: Domain) -> DomainError:
    there, here = (", ".join(sorted(names)) for names in (served.kind_names, declared.kind_names))
    return DomainError(
        f"The journal serves {served.name} with the kinds {there}; the installed {brought.package} declares {here}, or "
        "declares them otherwise.",
        code="other-kinds",
        hint=f"Install the version of {brought.package} that the domain was added with: a kind never changes.",
        domain=served.name,
        package=brought.package,
    )
