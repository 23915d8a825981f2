"""Damaged journal records by the thousand, read and judged in this process: its test runs it as a child with limits.

    python -m tests.faults.envelopes <seed> <count>

Valid records of every event type are changed (bits, bytes, cuts, splices of two, numbers that promise much), or made
of random bytes; with the digest that they had, or with that of what they became. Each must be decoded or refused with
a reason, and reading the table at once must give what reading one by one gives, verdicts and journal rows included.
"""

from __future__ import annotations

import random
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from metajournal.domains.access import domain as access_domain
from metajournal.domains.access import events as access
from metajournal.domains.access.urns import key_urn, principal_urn, role_urn
from metajournal.domains.catalog import events as events
from metajournal.domains.catalog.urns import app, dataset, program, run, stream
from metajournal.domains.files import events as files
from metajournal.domains.lineage import events as lineage
from metajournal.domains.repositories import events as repositories
from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from metajournal.fold.folded import Prior
from metajournal.fold.journal import journal_rows, journal_table
from metajournal.fold.judging import fold
from metajournal.fold.prior import KnownOriginals
from metajournal.fold.readings import Readings, read_all, read_table
from metajournal.fold.records import Place, Shelved, UnknownSchema, records_of
from metajournal.schemas.encoding import codec
from metajournal.schemas.encoding.known import all_contracts
from metajournal.schemas.events import event_types
from metajournal.schemas.hashing import digest
from metajournal.schemas.header import Unit
from metajournal.schemas.positions import position
from metajournal.schemas.registry import take_in
from metajournal.schemas.urn import Urn, urn
from tests.builders import NOON, header_for, record_of
from tests.model import JournalRecord
from tests.streaming.harness import TOPIC, table_of

_TOPIC_OF: Final = {b"files": "files", b"repo": "repositories", b"access-principal": "access", b"access-role": "access"}
MEMORY_BYTES: Final = 3 << 30
"""Address space of the child: many times what it takes, little against what a damaged number can promise."""
_TOGETHER: Final = 500
_ENTITIES: Final = (
    dataset("default", "purchases"),
    dataset("default", "Kundenaufträge/2024"),
    app("default", "History"),
    program("default", "History", "flow", "Flow"),
    stream("default", "log"),
    urn("team", "data science"),
)
_RUN: Final = run("default", "History", "flow", "Flow", "r1")
PROMISES: Final = (
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # 2**63 - 1
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # -2**63
    b"\x80\x80\x80\x80\x08",  # 2**30
    b"\xff\xff\xff\xff\x0f",  # -2**31
    b"\x03\x80\x80\x80\x80\x08",  # a block of 2 entries, which is said to take 2**30 bytes
    b"\x80" * 40,
    b"\x01",
    b"\xed\xa0\x80",  # half a pair of surrogates
)


class _NoRows(dict[Any, Any]):
    """Prior rows of an empty lake."""

    def __missing__(self, key: Any) -> None:
        return None

    def __contains__(self, key: Any) -> bool:
        return True


def events_about(entity: Urn) -> list[Any]:
    """Events of every type."""
    found: list[Any] = [
        events.EntityRegistered(entity),
        events.EntityRegistered(entity, "What was bought", '{"type":"string"}', {"b": "2"}, ["pii"]),
        events.EntityRegistered(entity, schema=[("id", "long"), ("naïve", "string")], properties={"owner": "alice"}),
        events.EntityDeleted(entity),
        events.PropertiesSet(entity, {"Größe": 'Ω\n"quoted" 😀', "b": ""}),
        events.PropertiesSet(entity, {f"{number}": "v" * number for number in range(40)}, "SYSTEM"),
        events.PropertiesReplaced(entity, {"owner": "bea", "c": "3"}),
        events.PropertiesRemoved(entity, ["owner", "a"]),
        events.PropertiesRemoved(entity, all=True),
        events.TagsAdded(entity, ["été", "[CC BY 4.0]", ""]),
        events.TagsRemoved(entity, ["z"]),
        events.MetadataCleared(entity, "BOTH"),
        lineage.AccessesRecorded(
            _RUN,
            [
                lineage.Access(
                    entity,
                    "read",
                    5,
                    "lecteur é",
                    {"user": {"properties": {"a": "1"}, "tags": ["t"]}, "system": {"properties": {}, "tags": []}},
                ),
                lineage.Access(entity, "unknown", 0),
            ],
        ),
        lineage.RunStarted(_RUN, 5),
        lineage.RunStopped(_RUN, 6, "COMPLETED"),
        lineage.ExternalWrite(stream("default", "log"), "crawler", 7),
        files.FilesRecorded(
            [
                files.FileRecord(
                    "s3://été/1",
                    files.FileMetadata(0, 1, 9, "here", "log", "1", "a", "0" * 32, "w", "/é/1"),
                    7,
                    8,
                ),
                files.FileRecord("x", files.FileMetadata(0, 1, None, "here", "log", "1", "b", "f" * 32, None, None)),
            ]
        ),
    ]
    found += [*_of_repositories(), *_of_access()]
    assert {event.TYPE for event in found} == set(event_types()), "an event type is missing here"
    return found


def _of_access() -> list[Any]:
    take_in(access_domain.DOMAIN)  # as connecting to a journal that serves it does
    who, key, role = principal_urn("ada"), key_urn("ada", "0" * 24), role_urn("readers")
    grants = [access.Grant("admin", "*"), access.Grant("readers", "dataset:a/*")]
    return [
        access.PrincipalRegistered(who),
        access.PrincipalDisabled(who),
        access.RolesGranted(who, grants),
        access.RolesRevoked(who, grants[:1]),
        access.RolesRevoked(who, all=True),
        access.KeyIssued(key, "f" * 64, 7, "für Ada", True),
        access.KeyRevoked(key),
        access.RoleDefined(role, ["ReadEntity", "WriteAccess"]),
        access.RoleDeleted(role),
    ]


def _of_repositories() -> Iterator[Any]:
    """Events of repositories, of every type."""
    repository, main, dev = repository_urn("lake"), branch_urn("lake", "main"), branch_urn("lake", "dev/x")
    head, staged = "ab" * 32, "cd" * 16
    blocks = (repositories.Block("s3://b/1", 2, "x"), repositories.Block("s3://b/2", 3, "y"))
    yield repositories.RepositoryCreated(repository, "main", "s3://été")
    yield repositories.RepositoryDeleted(repository)
    yield repositories.BranchCreated(dev, commit_urn("lake", head))
    yield repositories.BranchDeleted(dev, "")
    yield repositories.ObjectsWritten(
        main,
        [
            repositories.Entry("été/a", 3, "c1", "s3://b/a", (), "text/csv", {"ä": "ß"}, -5),
            repositories.Entry("b\n", 5, "c2", None, blocks),
        ],
    )
    yield repositories.ObjectsDeleted(main, ["été/a", "b"])
    yield repositories.Committed(main, "première", {"by": "ä"}, "", staged, True)
    yield repositories.Merged(dev, main, head, "", "source-wins", "resolve", staged, "m", {"k": "v"})
    yield repositories.BranchReset(main, prefix="été/", staging_digest=staged, expected_head=head)
    yield repositories.BranchReverted(main, commit_urn("lake", head), head)
    yield repositories.ObjectsRegistered(repository, ["été/a", "b"])
    yield repositories.ObjectsUnregistered(repository, ["b"])


def valid() -> list[JournalRecord]:
    """Records as producers write them: every event type, with headers that say little and much."""
    much = {"unit": Unit(b"u" * 16, 1, 3), "cause": b"c" * 16, "expected": 7, "repeat": True, "actor": None}
    made = [event for entity in _ENTITIES for event in events_about(entity)]
    plain = [record_of(event, number) for number, event in enumerate(made)]
    return plain + [record_of(event, n, header=header_for(event, n, **much)) for n, event in enumerate(made)]


def changed(value: bytes, other: bytes, chance: random.Random) -> bytes:
    """A value with one to four changes."""
    data = bytearray(value)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(9):
            case 0 | 1 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 2 if at < len(data):
                data[at] = chance.randrange(256)
            case 3:
                del data[at:]
            case 4:
                del data[at : at + chance.randint(1, 30)]
            case 5:
                data[at:] = other[chance.randrange(len(other)) :]
            case 6:
                data[at:at] = chance.randbytes(chance.randint(1, 60))
            case 7:
                data[at:at] = data[at : at + 20] * chance.randint(1, 5)
            case _:
                promise = chance.choice(PROMISES)
                data[at : at + chance.choice((0, len(promise)))] = promise
    return bytes(data)


def damaged(originals: list[JournalRecord], chance: random.Random) -> JournalRecord:
    """One record, changed in its value, key, digest or all of them."""
    one, other = chance.choice(originals), chance.choice(originals)
    value = one.value or b""
    match chance.randrange(8):
        case 0:
            value = value[: chance.choice((0, 2, 10))] + chance.randbytes(chance.randrange(300))
        case 1:
            pass
        case _:
            value = changed(value, other.value or b"", chance)
    found: bytes | None = one.digest if chance.random() < 0.2 else digest(value)
    if chance.random() < 0.03:
        found = chance.choice((None, b"", chance.randbytes(16), digest(value)[:-1]))
    key = other.key if chance.random() < 0.1 else one.key
    if chance.random() < 0.02:
        key = chance.choice((None, b"", chance.randbytes(30)))
    # Most of what a fingerprint can become is unknown, and would stop the reading: a few of these are enough.
    if value[:10] != (one.value or b"")[:10] and value[:2] == b"\xc3\x01" and chance.random() < 0.99:
        value = (one.value or b"")[:10] + value[10:]
        found = digest(value)
    return one._replace(value=value, digest=found, key=key)


def read_both_ways(records: list[JournalRecord], place: Place) -> Readings:
    """Read and judge records at once and one by one, and hold the two against each other."""
    table, end = table_of(records, place.topic), position(1, len(records))
    start = records[0].position
    alone = read_all(records_of(table, 1), place, start, end)
    at_once = read_table(table, place, 1, start, end)
    assert (at_once.items, at_once.end, at_once.stopped_by) == (alone.items, alone.end, alone.stopped_by)
    members = dict.fromkeys(alone.needs().members, ())
    prior = Prior(_NoRows(), members, KnownOriginals({}, {}), _NoRows())
    plain, fast = fold(alone, prior, NOON), fold(at_once, prior, NOON)
    assert (fast.judged, fast.changes, fast.system_time) == (plain.judged, plain.changes, plain.system_time)
    assert len(plain.judged) == len(alone.items)
    assert journal_table(fast).equals(journal_rows((place, one) for one in plain.judged))
    return alone


def judged(records: list[JournalRecord], place: Place) -> Iterator[str]:
    """What became of each record, in one word. A schema that is unknown stops the reading; it goes on behind it."""
    numbered = [one._replace(partition=0, position=position(1, number)) for number, one in enumerate(records)]
    at = 0
    while at < len(numbered):
        found = read_both_ways(numbered[at:], place)
        for _, reading in found.items:
            yield reading.reason if isinstance(reading, Shelved) else "decoded"
        at += len(found.items)
        if isinstance(found.stopped_by, UnknownSchema):
            assert found.end == numbered[at].position
            assert found.stopped_by.fingerprint not in {one.fingerprint for one in all_contracts()}
            yield "unknown"
            at += 1


def main(seed: str, count: int) -> None:
    """Read and judge so many damaged records, and tell what became of them."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    chance = random.Random(seed)
    parts: dict[str, list[JournalRecord]] = {"catalog": [], "files": [], "repositories": [], "access": []}
    for one in valid():
        codec.decode(one.value or b"")
        kind = (one.key or b"").partition(b"/")[2].partition(b":")[0]
        parts[_TOPIC_OF.get(kind, "catalog")].append(one)
    places = {domain: Place(TOPIC.replace("catalog", domain), 0, 1, domain, frozenset()) for domain in parts}
    for domain, originals in parts.items():
        assert set(judged(originals, places[domain])) == {"decoded"}
    found = Counter[str]()
    for number, first in enumerate(range(0, count, _TOGETHER)):
        domain = {1: "files", 3: "repositories", 4: "access"}.get(number % 5, "catalog")
        some = [damaged(parts[domain], chance) for _ in range(min(_TOGETHER, count - first))]
        found.update(judged(some, places[domain]))
    assert found.total() == count
    print(*(f"{name}={number}" for name, number in sorted(found.items())), f"peak_mib={_peak_mib()}")  # noqa: T201


def _peak_mib() -> int:
    """The most memory that this program has had; `ru_maxrss` also counts what its parent had when it was started."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
