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
from ...schemas.outside import OWN_PACKAGE, Installed, declaration, package_of
from ...schemas.registry import domain_named, is_joining, take_in, taken_in

NEVER: Final = 1 << 62
"""Above every position: a kind that another journal of this process serves, and this one does not."""


@dataclass(frozen=True, slots=True)
class Served:
    """A domain that joined a journal, from outside or of our own, as that journal serves it.

    Args:
        name: the domain's.
        package: what pip calls the package that brings it.
        kinds: its kinds, whole, so that who lacks the package can still name such an entity.
        has_changes: it has a change topic of its own.
        first_epoch: the first epoch of its journal topic: behind that of the catalog's, so that what becomes of an
            entity here is newer than all that the catalog ever told of it.
        cuts: for each journal topic that there was, the next position of each partition when the domain was added:
            below it its kinds are read as undeclared, as they were when those records were judged.
        reserved: those of its kinds that were never undeclared: no cut is theirs.
    """

    name: str
    package: str
    kinds: tuple[Kind, ...]
    has_changes: bool
    first_epoch: int
    cuts: Mapping[str, Sequence[int]]
    reserved: tuple[str, ...] = ()

    @property
    def kind_names(self) -> frozenset[str]:
        """Names of its kinds."""
        return frozenset(kind.name for kind in self.kinds)

    @property
    def taken_over(self) -> frozenset[str]:
        """Names of its kinds that were undeclared, so the catalog's, below the cuts."""
        return self.kind_names.difference(self.reserved)

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
            **({"reserved": list(self.reserved)} if self.reserved else {}),
        }

    def record(self, topic: str, epoch: int, topic_id: str, partitions: int) -> dict[str, Any]:
        """The whole record of its journal topic."""
        return {"topic": topic, "epoch": epoch, "topic_id": topic_id, "partitions": partitions, **self.fields()}


def joined(domain: Domain, package: str, first_epoch: int, cuts: Mapping[str, Sequence[int]]) -> Served:
    """What a journal's record tells of a domain that joins it now."""
    return Served(domain.name, package, domain.kinds, domain.has_changes, first_epoch, cuts, domain.reserved)


def kind_fields(kind: Kind) -> dict[str, Any]:
    """A kind's row as JSON."""
    row: dict[str, Any] = {"name": kind.name, "min_parts": kind.min_parts, "max_parts": kind.max_parts}
    if kind.aggregate_kind is not None:
        row["aggregate"] = {"kind": kind.aggregate_kind, "parts": kind.aggregate_parts}
    if kind.choice is not None:
        row["choice"] = {"part": kind.choice.part, "words": sorted(kind.choice.words), "what": kind.choice.what}
    return row


def served_of(record: Mapping[str, Any]) -> Served | None:
    """What a topic's record tells of a domain that joined the journal; None of one that every journal serves.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: the fields are damaged.
    """
    if "package" not in record:
        return None
    name = str(record["domain"])
    kinds = tuple(_kind_of(row, name) for row in record["kinds"])
    cuts = {str(topic): tuple(map(int, marks)) for topic, marks in record["cuts"].items()}
    reserved = tuple(map(str, record.get("reserved", ())))
    changes, first_epoch = bool(record["changes"]), int(record["first_epoch"])
    return Served(name, str(record["package"]), kinds, changes, first_epoch, cuts, reserved)


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
    known = next((domain for domain in taken_in() if domain.name == served.name), None)
    if known is not None and known.kinds == served.kinds:
        return
    reserved_here = domain_named(served.name) is not None and not is_joining(served.name)
    declared = declaration(served.name) if not reserved_here and package_of(served.name) is not None else None
    if declared is None:
        declared = Domain(served.name, "", has_changes=served.has_changes)
    take_in(declared._replace(kinds=served.kinds, has_changes=served.has_changes, reserved=served.reserved))


def moved_from(several: Sequence[Served], topic: str, partition: int) -> tuple[tuple[str, int], ...]:
    """The kinds of domains that joined that were undeclared in a journal partition, each with where that ends.

    None in a topic that is younger than the domain, and no kind that was reserved: nobody ever read it as undeclared.

    Args:
        several: the domains that joined the journal.
    """
    here = {kind: served.cut(topic, partition) for served in several for kind in served.taken_over}
    others = (kind for domain in taken_in() for kind in domain.kind_names.difference(domain.reserved))
    elsewhere = {kind: NEVER for kind in others if kind not in here}
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
        if OWN_PACKAGE in (served.package, brought.package) and served.package != brought.package:
            raise _other_package(served, brought)
        declared = declaration(served.name)
        assert declared is not None  # a package brings it
        if declared.kinds != served.kinds or declared.has_changes != served.has_changes:
            raise _other_declaration(served, brought, declared)


def missing_package(name: str, package: str) -> DomainError:
    """The error of who would need a domain's package and does not have it."""
    if package == OWN_PACKAGE:
        return DomainError(
            f"This journal serves the domain {name}, which this version of metajournal does not have.",
            code="missing-domain",
            hint="Upgrade metajournal, on every machine of the cluster. Then start again; nothing is lost meanwhile.",
            domain=name,
            package=package,
        )
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
    if is_joining(name):
        error.advise(
            "This version serves it, and the journal does as soon as the stream of this version has taken it over: "
            "start it (`metajournal up`), and connect again. `metajournal domains` says where something is in its way."
        )
    elif domain_named(name) is None and package_of(name) is not None:
        error.advise(f"`metajournal domains add {name}` has this installation serve it; connect again afterwards.")
    return error


def _other_package(served: Served, brought: Installed) -> DomainError:
    return DomainError(
        f"The journal serves {served.name} by the package {served.package}; "
        f"{brought.package} has one of that name too.",
        code="declared-twice",
        hint=f"Only the rules of {served.package} may go on here: stay with the version of {brought.package} that has "
        f"no domain {served.name}, or begin a journal under another prefix.",
        domain=served.name,
        package=served.package,
    )


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
