"""The access lists of docs/how-to/secure-connections.md, on a broker that keeps them: enough for each part, no more."""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from metajournal.client import Journal
from metajournal.consumers.finding import value_at
from metajournal.consumers.subscription import changes, states
from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.indexer.fill.intake import Intake
from metajournal.indexer.fill.patience import Patience
from metajournal.producers.answers import Administrator
from metajournal.producers.audit_topic import ensure_audit_topic
from metajournal.producers.journal_ends import JournalEnds
from metajournal.producers.recorded.topic_admin import Wanted, create
from metajournal.producers.topics import check_topics, ensure_topics
from metajournal.producers.verdicts import Accepted
from metajournal.schemas.errors import KafkaUnavailableError
from metajournal.schemas.settings import JournalSettings, Settings
from metajournal.stack import kafka as stack_kafka
from metajournal.stack.jars import ensure_parts
from metajournal.stack.server import Server
from tests.consumers.wire import START, Event, Wire
from tests.producers.published import publish_outcome

pytestmark = pytest.mark.services
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "secure-connections.md"
PARTS = ("emitter", "gateway", "stream", "indexer", "subscriber", "operator")
_RESOURCES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def security(user: str) -> dict[str, str]:
    own = {"sasl.username": user, "sasl.password": f"{user}-secret"}
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **own}


def bindings() -> Iterator[AclBinding]:
    """What the page's commands allow."""
    [script] = re.findall(r"```bash\n(allow\(\) .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    script = script[script.index("}\n") :]
    for line in script.splitlines():
        words = shlex.split(line)
        if words[:1] == ["allow"]:
            for part in PARTS[:-1] if words[1] == "$part" else [words[1]]:
                yield from _bindings(part, words[2:])


def _bindings(part: str, words: list[str]) -> Iterator[AclBinding]:
    given = list(zip(words[::2], words[1::2], strict=True))
    named = dict(given)
    [(kind, name)] = [(_RESOURCES[key], value) for key, value in given if key in _RESOURCES]
    pattern = ResourcePatternType[named.get("--resource-pattern-type", "literal").upper()]
    for key, value in given:
        if key == "--operation":
            operation = AclOperation[re.sub(r"(?<!^)(?=[A-Z])", "_", value).upper()]
            yield AclBinding(kind, name, pattern, f"User:{part}", "*", operation, AclPermissionType.ALLOW)


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A broker of this test's own that knows its clients, with the page's access lists."""
    users = " ".join(f'user_{one}="{one}-secret"' for one in ("admin", "stranger", *PARTS))
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    own = {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f'{login} username="admin" password="admin-secret" {users};',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    for key, value in own.items():
        monkeypatch.setitem(stack_kafka.SETTINGS, key, value)

    def answers(port: int, cluster: str) -> bool:
        try:
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, **security("admin")})
            return bool(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    monkeypatch.setattr(stack_kafka, "broker_answers", answers)
    server = stack_kafka.start_kafka(ensure_parts(("kafka",)), tmp_path)
    try:
        admin = AdminClient({"bootstrap.servers": server.endpoint, **security("admin")})
        for future in admin.create_acls(list(bindings())).values():
            future.result(30)
        yield server
    finally:
        server.stop()


def of(part: str, broker: Server) -> Settings:
    return Settings(journal=JournalSettings(actor=part), kafka={"bootstrap.servers": broker.endpoint, **security(part)})


def refused(settings: Settings, topic: str) -> bool:
    """Whether a principal may not write a topic."""
    errors: list[KafkaError | None] = []
    producer = Producer({**settings.kafka, "log_level": 0})
    producer.produce(topic, b"{}", b"k", 0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    [error] = errors
    assert error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
    return error is not None


def test_the_pages_access_lists_are_enough_for_each_part_and_no_more(broker: Server) -> None:
    """One test, since its broker takes seconds to start."""
    epochs = ensure_topics(of("operator", broker))
    names = of("operator", broker).journal.topics
    for part in PARTS:
        assert check_topics(of(part, broker)) == epochs
    wire = Wire(of("operator", broker))
    wire._publisher = Wire(of("stream", broker))._publisher

    with Journal.connect(settings=of("emitter", broker)) as journal:
        urn = dataset("default", "a")
        unit = journal.emit_unit([TagsAdded(urn, ["a"]), TagsAdded(urn, ["b"])])
        last = unit.positions[-1]
        event = Event(last.partition, last.value - START, (str(urn),), ("USER",))
        member = changes(of("subscriber", broker), epochs, group="mailer", since="earliest", timeout_s=20, limit=1)
        wire.batch([event])
        publish_outcome(of("stream", broker), last, last.value + 1, unit.receipts[-1].system_time)
        assert unit.receipts[-1].outcome(30) == Accepted(last)
    with member:
        assert [one.position for one in member] == [last]
    with states(of("subscriber", broker), epochs, timeout_s=20, limit=1, since={}) as current:
        assert [one.position for one in current] == [last]

    intake = Intake(of("indexer", broker), Patience(threading.Event(), lambda _: None), 10)
    intake.start({})
    deadline, outcomes = time.monotonic() + 30, 0
    while outcomes < 2 and time.monotonic() < deadline:
        outcomes += len(intake.take(0.5, 0.0).outcomes)
    intake.close()
    assert outcomes == 2

    ensure_audit_topic(of("operator", broker))
    ensure_audit_topic(of("gateway", broker))  # it is there: nothing to create
    assert value_at(of("gateway", broker), last, timeout_s=30) is not None
    with changes(of("gateway", broker), epochs, since="earliest", timeout_s=20, limit=1) as feed:
        assert [one.position for one in feed] == [last]
    joining = Wanted(names.journal("toys"), 1, {})
    create(Administrator(of("stream", broker)).connect(30), [joining], 30)
    with pytest.raises(KafkaUnavailableError):
        create(Administrator(of("emitter", broker)).connect(30), [Wanted(names.changes("toys"), 1, {})], 30)

    written = [names.changes("catalog"), names.annotations_system, names.state("catalog"), names.outcomes("catalog")]
    journals = {names.journal(domain) for domain in ("catalog", "files", "repositories")}
    access = names.journal("access")
    every = [*journals, access, names.audit, names.schemas, names.epochs, names.dlq, *written]
    allowed = {
        "emitter": {*journals, names.schemas},
        "gateway": {*journals, access, names.audit, names.schemas},
        "stream": {*written, names.dlq, names.epochs},
        "indexer": set(),
        "subscriber": set(),
    }
    for part, mine in allowed.items():
        assert {one for one in every if not refused(of(part, broker), one)} == mine, part

    ends = JournalEnds(of("stranger", broker), epochs)
    with pytest.raises(KafkaUnavailableError, match="may not read the end of") as caught:
        ends.holds((names.journal("catalog"), 0), START, time.monotonic())
    assert caught.value.code == "not-allowed"
    assert "describe" in caught.value.hint
    ends.close()
