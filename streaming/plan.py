"""What a task of the wide way is told, and what it tells: plain values, as they travel to the workers and back.

Tables are told by name, address and version, and opened where they are read.
"""

from __future__ import annotations

import socket
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..fold.records import Place
from ..fold.repeats import Repeats
from ..fold.steps import Made
from ..lake.storage.files import DataFile
from ..lake.views.log import TableLog
from ..lake.views.viewed import ViewedTable
from ..producers.recorded.restored import Earlier
from ..producers.recorded.served import Served, missing_package
from ..rules.digest import digest_of
from ..schemas.domain import Domain
from ..schemas.errors import DomainError, StreamError
from ..schemas.outside import package_of
from ..schemas.registry import domain_named, take_in
from ..schemas.settings import Settings
from ..schemas.topics import TopicNames
from .outcomes import Ends
from .staging import Staging

PartitionKey = tuple[str, int]


class WorkerRulesError(StreamError):
    """A worker has different rules of a domain than the driver, or none; nothing of the batch was written."""

    CODE = "worker-rules-differ"
    HINT = (
        "Install the driver's version of metajournal, and of each package that provides a domain, on every worker; "
        "then start the stream again."
    )
    domain: str

    def __init__(self, domain: str, drivers: str, own: str | None) -> None:
        instead = "does not have that domain" if own is None else f"has {own[:12]}"
        super().__init__(
            f"The driver has the rules {drivers[:12]} of the domain {domain!r}; the worker {socket.gethostname()} "
            f"{instead}.",
            domain=domain,
        )


@dataclass(frozen=True, slots=True)
class Pin:
    """A table at one version."""

    name: str
    uri: str
    version: int
    storage_options: Mapping[str, str] = field(repr=False)

    def open(self) -> ViewedTable:
        """The table at that version, or at a later one where the log has forgotten it meanwhile: rows are only added,
        and whoever reads says up to which position, so both give the same.
        """
        return ViewedTable(TableLog(self.name, self.uri, self.storage_options).at_least(self.version))


class _Opened(dict[str, ViewedTable]):
    """Tables by name, each opened when it is first asked for: most batches touch few."""

    def __init__(self, pins: Mapping[str, Pin]) -> None:
        super().__init__()
        self._pins = pins

    def __missing__(self, name: str) -> ViewedTable:
        self[name] = self._pins[name].open()
        return self[name]


class PinnedLake:
    """The tables that prior rows are looked up in, as the driver saw them when it planned the batch."""

    def __init__(self, pins: Mapping[str, Pin]) -> None:
        self.tables: Mapping[str, ViewedTable] = _Opened(pins)

    @property
    def journal(self) -> ViewedTable:
        return self.tables["journal"]


@dataclass(frozen=True, slots=True)
class Task:
    """One journal partition's share of a batch.

    Attributes:
        start: its mark.
        end: the planned end.
        system_time: the running system_time at the mark, milliseconds UTC.
        marks: up to where each history table holds it already.
        repeats: earlier events of it that were marked `repeat`; None: look them up.
        earlier: epochs that were restored into the topic, where a rebuild reads it (`TopicEpoch.earlier`).
    """

    place: Place
    epoch: int
    start: int
    end: int
    system_time: int
    marks: Mapping[str, int]
    repeats: Repeats | None
    earlier: Earlier = ()


class Brought(NamedTuple):
    """A domain from outside as the driver has it: with the journal's kinds, and the digest of its pure files."""

    domain: Domain
    package: str
    digest: str


def brought_by(several: Sequence[Served]) -> tuple[Brought, ...]:
    """What the tasks must have of the domains from outside that a journal serves."""
    served_domains = [(served, domain_named(served.name)) for served in several]
    return tuple(Brought(domain, served.package, digest_of(domain.name)) for served, domain in served_domains if domain)


def take_in_domains(outside: Sequence[Brought]) -> None:
    """Have in this process what a journal serves from outside.

    Raises:
        DomainError: a package is missing here, or judges otherwise than the driver's.
    """
    for brought in outside:
        name, package = brought.domain.name, brought.package
        if package_of(name) is None:
            raise missing_package(name, package)
        take_in(brought.domain)
        if digest_of(name) != brought.digest:
            raise DomainError(
                f"The package {package} has different rules of the domain {name} here than where the stream was "
                "started.",
                code="other-rules",
                hint=f"Install one version of {package} on every machine of the cluster, and start the stream again.",
            )


@dataclass(frozen=True, slots=True)
class Plan:
    """What every task of a batch is told.

    Attributes:
        pins: the tables to look prior rows up in.
        written: those that the tasks write files for.
        targets: number of partitions of every topic that is published to.
        staging: where records wait to be published; None: nothing is.
        kafka: where the tasks read the records; None: they are given them, a rebuild has them from the journal table.
        rules: digests of the domains whose events the tasks may meet, as the driver has them.
        kill: process to end, and the point of publishing at which, for crash tests.
        outside: the domains from outside that the journal serves; a task takes them in.
    """

    tasks: Mapping[PartitionKey, Task]
    pins: Mapping[str, Pin]
    written: tuple[str, ...]
    names: TopicNames
    targets: Mapping[str, int]
    staging: Staging | None
    rules: Mapping[str, str]
    kafka: Settings | None = None
    kill: tuple[int, str] | None = None
    outside: tuple[Brought, ...] = ()

    def check_rules(self) -> None:
        """Refuse to judge by other rules than the driver's. Raises: WorkerRulesError."""
        for domain, digest in self.rules.items():
            own = None if domain_named(domain) is None else digest_of(domain)
            if own != digest:
                raise WorkerRulesError(domain, digest, own)


@dataclass(slots=True)
class Part:
    """What became of one journal partition's share.

    Attributes:
        end: positions below it are judged; lower than planned where an unknown schema stands there.
        stopped_by: fingerprint of that schema.
        files: new files by table.
        size_bytes: of the records, as Arrow has them.
        staged: whether there are records to publish.
        oldest_ms: append time of the oldest record, milliseconds UTC.
        seconds: processor time of each step, and "wait", the time until the records were there.
        marked: ids of its events that were marked `repeat`.
        differing: positions whose outcome is not what the journal table says (at most 100), where it was asked.
    """

    key: PartitionKey
    end: int
    system_time: int
    stopped_by: int | None = None
    files: dict[str, list[DataFile]] = field(default_factory=dict)
    size_bytes: int = 0
    staged: bool = False
    verdicts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    oldest_ms: int | None = None
    marked: set[bytes] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    differing: list[int] = field(default_factory=list)

    def add(self, made: Made) -> None:
        """Take over what the next records of the share have given."""
        folded, oldest_ms = made.folded, made.oldest_ms
        self.end, self.system_time = folded.end, folded.system_time
        self.stopped_by = None if folded.stopped_by is None else folded.stopped_by.fingerprint
        self.verdicts.update(made.verdicts)
        self.marked |= folded.marked
        if oldest_ms is not None:
            self.oldest_ms = oldest_ms if self.oldest_ms is None else min(self.oldest_ms, oldest_ms)


class Published(NamedTuple):
    """What a task has published of a part: the number of records but the outcomes, and the ends that those tell."""

    records: int
    ends: Ends


def empty_part(task: Task) -> Part:
    """A share without records: the markers of transactions moved its end."""
    return Part((task.place.topic, task.place.partition), task.end, task.system_time)
