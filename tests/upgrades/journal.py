"""The journal that an archived installation holds: the same steps at every run, written by the real client.

Every event type, over few enough entities that events meet; accepted, rejected for every reason, unchanged, sent again
with and without the mark, shelved for every reason, in units that commit and in transactions that abort, for several
tenants. What the client refuses to send is written past it. Ids and event times are the same at every run; append
times are the broker's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from confluent_kafka import Producer

from metajournal.client import Journal
from metajournal.domains.catalog import events as catalog
from metajournal.domains.catalog.urns import app, dataset, program, stream
from metajournal.domains.files import events as files
from metajournal.domains.files.urns import file_urn
from metajournal.domains.lineage import events as lineage
from metajournal.producers.receipts import Receipt
from metajournal.producers.shelving import shelve
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import DIGEST_HEADER, digest, partition_of, record_key
from metajournal.schemas.ids import id_text
from metajournal.schemas.positions import Position, position
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn, urn
from tests.archive import FIRST_DAY, HASH, a_file
from tests.builders import NOON, header_for

TENANTS: Final = ("default", "default", "default", "acme", "team_7")
ACTORS: Final = ("alice", "bob", "Zoë", None)
DATASETS: Final = [
    dataset(namespace, name)
    for namespace in ("sales", "Größe & Maß", "default")
    for name in ("orders", "Kundenaufträge/2024", "clicks 日本", "purchases")
]
STREAMS: Final = [stream("default", "log"), stream("sales", "clicks")]
APPS: Final = [app("default", "History"), app("sales", "Billing")]
PROGRAMS: Final = [
    program("default", "History", "flow", "Flow"),
    program("default", "History", "spark", "Builder"),
    program("sales", "Billing", "service", "Rechnungen"),
]
CUSTOM: Final = [urn("team", "data science"), urn("notebook", "sales", "été"), urn("namespace", "sales")]
RUNS: Final = [Urn.parse(f"run:{one.path}/run-{number}") for one in PROGRAMS for number in range(4)]
ENTITIES: Final = [*DATASETS, *STREAMS, *APPS, *PROGRAMS, *CUSTOM]
PLACES: Final = [("nebraska", "nginx"), ("nebraska", "sshd"), ("ohio-2", "nginx")]
DAY_MS: Final = 86_400_000
_SCHEMA: Final = '{"type":"record","name":"purchase","fields":[{"name":"id","type":"long"}]}'
_BIG: Final = "v" * 300_000


@dataclass(frozen=True)
class Emitted:
    """One event; `expected` is the newest position of its entity that was sent where True."""

    event: Any
    tenant: str = "default"
    actor: str | None = "alice"
    number: int = 0
    repeat: bool = False
    expected: bool | int | None = None


@dataclass(frozen=True)
class InUnit:
    """Events in one transaction; an aborted one leaves nothing but its offsets."""

    number: int
    events: list[Emitted]
    aborted: bool = False
    repeat: bool = False


@dataclass(frozen=True)
class Bytes:
    """A record as anybody may write it; `passed_over` has an operator shelve its position."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    domain: str = "catalog"
    passed_over: bool = False


Step = Emitted | InUnit | Bytes


def steps(count: int, seed: int = 7) -> Iterator[Step]:
    """About so many steps, those that come in the same order at every run.

    Args:
        count: steps besides the fixed ones, from 0.
        seed: another one gives another journal.
    """
    chance = random.Random(seed)
    sent: list[Emitted] = []
    units: list[InUnit] = []
    numbers = iter(range(1, 1 << 30))
    beginning = [*_registered(), *_every_type()]
    fixed = [*_bad_records(), *_hostile(), *_too_large()]
    every = max(1, count // len(fixed))
    for event in beginning:
        sent.append(Emitted(event, number=next(numbers)))
        yield sent[-1]
    for turn in range(count):
        if turn % every == 0 and fixed:
            yield fixed.pop(0)
        step = _drawn(chance, sent, units, numbers)
        if isinstance(step, Emitted):
            sent.append(step)
        elif not step.aborted:
            sent += step.events
            units.append(step)
        yield step
    yield from fixed


def _drawn(chance: random.Random, sent: list[Emitted], units: list[InUnit], numbers: Iterator[int]) -> Emitted | InUnit:
    draw = chance.random()
    if draw < 0.06:
        again = replace(chance.choice(sent), repeat=True, expected=None)
        return again if draw < 0.05 else replace(again, repeat=False)  # a late original, without the mark
    if draw < 0.10:
        events = [_single(chance, numbers) for _ in range(chance.randint(2, 4))]
        tenant = chance.choice(TENANTS)
        same = [Emitted(one.event, tenant, one.actor, one.number) for one in events]
        return InUnit(next(numbers), same, aborted=chance.random() < 0.2)
    if draw < 0.11 and units:
        return replace(chance.choice(units), repeat=True)
    return _single(chance, numbers)


def _single(chance: random.Random, numbers: Iterator[int]) -> Emitted:
    draw = chance.random()
    make: Callable[[random.Random], Any] = _of_catalog
    if draw < 0.2:
        make = _of_files
    elif draw < 0.4:
        make = _of_lineage
    event = make(chance)
    while event.validate():
        event = make(chance)
    expected: bool | int | None = None
    if make is _of_catalog and chance.random() < 0.1:
        expected = chance.choice((True, True, 0, position(1, 0)))
    return Emitted(event, chance.choice(TENANTS), chance.choice(ACTORS), next(numbers), expected=expected)


def _registered() -> list[Any]:
    return [
        catalog.EntityRegistered(one, f"Beschreibung von {one.parts[-1]}", None, {"owner": "alice"}, ["gold"])
        for one in ENTITIES
    ]


def _every_type() -> list[Any]:
    """One valid event of each type, in an order in which each is accepted."""
    [one, other] = DATASETS[:2]
    recorded = {"user": {"properties": {"a": "1"}, "tags": ["t"]}, "system": {"properties": {}, "tags": []}}
    return [
        catalog.PropertiesSet(one, {"Größe": 'Ω\n"quoted" 😀', "b": ""}),
        catalog.PropertiesSet(one, {"rows": "12"}, "SYSTEM"),
        catalog.TagsAdded(one, ["été", "[CC BY 4.0]", "pii"]),
        catalog.PropertiesRemoved(one, ["owner"]),
        catalog.TagsRemoved(one, ["gold"]),
        catalog.MetadataCleared(other, "BOTH"),
        catalog.EntityDeleted(other),
        catalog.EntityRegistered(other, schema=[("id", "long"), ("naïve", "string")]),
        lineage.RunStarted(RUNS[0], NOON),
        lineage.AccessesRecorded(RUNS[0], [(one, "read", NOON + 1, "lecteur é", recorded), (other, "write", NOON + 2)]),
        lineage.RunStopped(RUNS[0], NOON + 3, "COMPLETED"),
        lineage.ExternalWrite(STREAMS[0], "crawler", NOON + 4),
        files.FilesRecorded([a_file(id=f"f{number}", url=f"s3://archive/f{number}") for number in range(1, 6)]),
        catalog.TagsAdded(file_urn("nebraska", "nginx", "f1"), ["suspicious"]),
        catalog.PropertiesSet(file_urn("nebraska", "nginx", "f2"), {"reviewed_by": "bob"}),
        catalog.PropertiesSet(file_urn("nebraska", "nginx", "f2"), {"lines": "7"}, "SYSTEM"),
    ]


def _of_catalog(chance: random.Random) -> Any:
    entity: Urn = chance.choice(ENTITIES)
    draw = chance.random()
    if draw < 0.1:  # annotations are the catalog's, whatever they are of
        where, what = chance.choice(PLACES)
        entity = file_urn(where, what, f"f{chance.randint(1, 30)}")
    elif draw < 0.15:
        entity = dataset("lost", f"t{chance.randint(1, 5)}")
    scope = chance.choice(("USER", "USER", "SYSTEM"))
    tags = chance.sample(("pii", "gold", "été", "[CC BY 4.0]", "daily", "checked"), 2)
    keys = chance.sample(("owner", "rows", "Größe", "checked_by", "a:b"), 2)
    makers: list[Callable[[], Any]] = [
        lambda: catalog.PropertiesSet(entity, {key: str(chance.randint(1, 4)) for key in keys}, scope),
        lambda: catalog.PropertiesSet(entity, {keys[0]: 'Ω\n"quoted" 😀'}, scope),
        lambda: catalog.TagsAdded(entity, tags, scope),
        lambda: catalog.TagsRemoved(entity, tags[:1], scope=scope),
        lambda: catalog.PropertiesRemoved(entity, keys[:1], scope=scope),
        lambda: catalog.EntityRegistered(entity, f"Stand {chance.randint(1, 3)}", _SCHEMA, {keys[0]: "x"}, tags),
        lambda: catalog.EntityRegistered(entity, schema=[("id", "long"), (keys[0], "string")]),
        lambda: chance.choice(
            [
                catalog.MetadataCleared(entity, chance.choice(("USER", "SYSTEM", "BOTH"))),
                catalog.PropertiesRemoved(entity, all=True, scope=scope),
                catalog.TagsRemoved(entity, all=True, scope=scope),
                catalog.EntityDeleted(entity),
            ]
        ),
    ]
    return chance.choice(makers)()


def _of_lineage(chance: random.Random) -> Any:
    one, moment = chance.choice(RUNS), NOON + chance.randint(0, 5) * 3_600_000
    data = [*DATASETS[:5], *STREAMS, file_urn("nebraska", "nginx", "f1")]
    draw = chance.random()
    if draw < 0.2:
        return lineage.RunStarted(one, moment)
    if draw < 0.4:
        return lineage.RunStopped(one, moment + 60_000, chance.choice(("COMPLETED", "FAILED")))
    if draw < 0.5:
        return lineage.ExternalWrite(chance.choice(STREAMS), chance.choice(("crawler", "Upload é")), moment)
    touched = chance.sample(data, chance.randint(1, 4))
    kinds = ("read", "read", "write", "unknown")
    component = chance.choice((None, "reader", "écrivain"))
    return lineage.AccessesRecorded(one, [(each, chance.choice(kinds), moment, component) for each in touched])


def _of_files(chance: random.Random) -> Any:
    where, what = chance.choice(PLACES)
    first = chance.randint(1, 25)
    day = (FIRST_DAY + chance.randint(0, 4)) * DAY_MS
    some = [
        a_file(
            where=where,
            what=what,
            id=f"f{number}",
            url=f"s3://archive/{where}/été/{number}",
            size=chance.choice((None, 0, 1 << 30)),
            created=chance.choice((None, day)),
            start=day + number,
            end=chance.choice((None, day + number, day + number + 3 * DAY_MS)),
            data_version=chance.choice("12"),
            hash=chance.choice((HASH, "0" * 32)),
            work_id=chance.choice((None, "w1", "w-2")),
            path=chance.choice((None, f"/var/log/{what}/é")),
        )
        for number in range(first, first + chance.choice((1, 2, 12)))
    ]
    return files.FilesRecorded(some)


def _too_large() -> list[Step]:
    """An entity whose second large property does not fit."""
    big = dataset("default", "big")
    return [
        Emitted(catalog.EntityRegistered(big, properties={"a": _BIG}), number=90_001),
        Emitted(catalog.PropertiesSet(big, {"b": _BIG}), number=90_002),
    ]


def _hostile() -> list[Step]:
    """Events whose header or content the client would refuse: rejected as invalid, or of another aggregate."""
    event = catalog.TagsAdded(DATASETS[0], ["pii"])
    said: list[dict[str, Any]] = [
        {"entities": ()},
        {"entities": (str(DATASETS[0]), "team:data%20science")},
        {"tenant": "Not/A Tenant"},
        {"event_time": (1 << 63) - 1},
        {"aggregate": "dataset:default/purchases"},
    ]
    found: list[Step] = [_bytes(event, 91_000 + at, **fields) for at, fields in enumerate(said)]
    found.append(_bytes(catalog.PropertiesSet(DATASETS[0], {"creation_time": "mine"}, "SYSTEM"), 91_010))
    recorded = files.FilesRecorded([a_file(where="nebraska", hash="no hash")])
    found.append(_bytes(recorded, 91_011, domain="files"))
    return [*found, _bytes(files.FilesRecorded([a_file(id="f9")]), 91_012, domain="files", expected=7)]


def _bytes(event: Any, number: int, *, domain: str = "catalog", **fields: Any) -> Bytes:
    header = header_for(event, **{"event_id": _id(number), "event_time": NOON + number, **fields})
    value = codec.encode(event, header)
    return Bytes(record_key(header.tenant, header.aggregate), value, [(DIGEST_HEADER, digest(value))], domain)


def _bad_records() -> list[Step]:
    """Records that are shelved, one for each reason and domain; the last of each by an operator."""
    found: list[Step] = []
    for domain, event in (
        ("catalog", catalog.TagsAdded(DATASETS[0], ["pii"])),
        ("files", files.FilesRecorded([a_file()])),
    ):
        good = _bytes(event, 92_000, domain=domain)
        key, value = good.key, good.value or b""
        unknown = value[:2] + bytes(8) + value[10:]
        stranger = _bytes(
            files.FilesRecorded([a_file()]) if domain == "catalog" else catalog.TagsAdded(DATASETS[0], ["x"]), 92_001
        )
        found += [
            Bytes(key, value, [], domain),
            Bytes(key, value, [(DIGEST_HEADER, bytes(16)), ("über", b"\xff\0")], domain),
            Bytes(key, None, [(DIGEST_HEADER, digest(b""))], domain),
            Bytes(None, value, [(DIGEST_HEADER, digest(value))], domain),
            Bytes(b"acme/dataset:default/elsewhere", value, [(DIGEST_HEADER, digest(value))], domain),
            Bytes(key, b"{}", [(DIGEST_HEADER, digest(b"{}"))], domain),
            Bytes(key, value[:-1], [(DIGEST_HEADER, digest(value[:-1]))], domain),
            Bytes(stranger.key, stranger.value, stranger.headers, domain),
            Bytes(key, unknown, [(DIGEST_HEADER, digest(unknown))], domain, passed_over=True),
        ]
    return found


def _id(number: int) -> bytes:
    """A UUIDv7 that stays the same."""
    return (((NOON + number) << 80) | (7 << 76) | (2 << 62) | number).to_bytes(16, "big")


def write_journal(settings: Settings, given: Iterable[Step]) -> int:
    """Write steps to the topics of an installation, in their order; gives their number."""
    with Journal.connect(settings) as journal:
        writer = _Writer(settings, journal)
        count = 0
        for step in given:
            count += 1
            match step:
                case Emitted():
                    writer.emit(step)
                case InUnit():
                    writer.unit(step)
                case Bytes():
                    writer.write(step)
        journal.flush()
    return count


class _Writer:
    """The clients of an installation: the real one, and one for what that refuses."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._settings = settings
        self._journal = journal
        self._servers = {"bootstrap.servers": settings.kafka["bootstrap.servers"], "partitioner": "murmur2_random"}
        self._plain = Producer(self._servers)
        self._newest: dict[tuple[str, str], Receipt] = {}

    def emit(self, step: Emitted) -> None:
        expected: Any = step.expected
        key = (step.tenant, str(step.event.entities[0]))
        if expected is True:
            expected = self._newest[key].position if key in self._newest else 0
        said = {} if expected is None else {"expected": expected}
        self._newest[key] = self._journal.emit(
            step.event, tenant=step.tenant, repeat=step.repeat, **self._about(step), **said
        )

    def unit(self, step: InUnit) -> None:
        if step.aborted:
            self._abort(step)
            return
        tenant = step.events[0].tenant
        with self._journal.unit(unit_id=id_text(_id(step.number)), tenant=tenant, repeat=step.repeat) as unit:
            for one in step.events:
                unit.emit(one.event, **self._about(one))

    def _about(self, step: Emitted) -> dict[str, Any]:
        return {"actor": step.actor, "event_time": NOON + step.number, "event_id": id_text(_id(step.number))}

    def _abort(self, step: InUnit) -> None:
        self._journal.flush()
        names = self._settings.journal.topics
        producer = Producer({**self._servers, "transactional.id": f"{names.prefix}-{step.number}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for one in step.events:
            record = _bytes(one.event, one.number, tenant=one.tenant)
            headers: Any = record.headers
            producer.produce(names.journal(one.event.aggregate.domain), record.value, record.key, headers=headers)
        producer.flush(30)
        producer.abort_transaction(30)

    def write(self, step: Bytes) -> None:
        self._journal.flush()
        topic, headers = self._settings.journal.topics.journal(step.domain), list[Any](step.headers)
        partitions = self._settings.journal.partitions
        partition = partition_of(step.key or b"", partitions)
        places: list[Position] = []
        self._plain.produce(
            topic, step.value, step.key, partition, headers=headers,
            on_delivery=lambda error, message: places.append(
                Position(topic, partition, position(1, message.offset() or 0))
            ),
        )  # fmt: skip
        assert self._plain.flush(30) == 0
        if step.passed_over:
            shelve(self._settings, places[0])
