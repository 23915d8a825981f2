"""A Kafka cluster as a source: its topics become entities, with the schemas that a registry has for their records.

A topic's value schema is that of the subject `<topic>-value`, and its columns are the topic's; `<topic>-key` is the
key's. Subjects of single records of a topic, `<topic>-<record>`, are listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from ...domains.catalog.naming import data, namespace_of
from ...schemas.errors import InputError, InvalidUrnError
from ...schemas.urn import Urn
from ..beside import threads
from ..columns import Column, comments_of, schema_of
from ..found import Found, Problem, Progress
from ..source import Identity, Tell, checked_id, id_of
from .cluster import Cluster, Topic, own_topics
from .registry import Registered, Registry, UnreadableSubjectError
from .schemas import described

KIND: Final = "kafka"
PREFIX: Final = "kafka."
ROLES: Final = ("value", "key")
_BESIDE: Final = 8
_TELL_EVERY: Final = 200
_OF_VALUE: Final = frozenset({"schema", "description", "comment.*"})


class Kafka:
    """One cluster, and its registry if it has one.

    Args:
        bootstrap: `host:port`, several separated by commas; the first one names the cluster.
        registry: URL of a schema registry; its user and password are never shown or stored.
        topics: patterns of topics to read, all if empty; `*` matches anything.
        exclude: patterns of topics to leave out.
        settings: of librdkafka, `KEY=VALUE`; never shown or stored.
        own_topics: whether topics of metajournal itself are read, too.
        namespace: the cluster's name in lineage, if it is reached by another name.
        id: the source's; None: one derived from the address.
    Raises:
        InputError: an address, a setting or the id is not valid.
    """

    lists_all: Final = True

    def __init__(
        self, bootstrap: str, *, registry: str | None = None, topics: Sequence[str] = (), exclude: Sequence[str] = (),
        settings: Sequence[str] = (), own_topics: bool = False, namespace: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:  # fmt: skip
        first = bootstrap.split(",")[0].strip().rpartition("://")[2]
        if not first or any(character in first for character in "/@ ?"):
            raise InputError(
                "This is not a valid address of a Kafka cluster.",
                code="bad-source-address",
                hint="Write it like broker.acme:9092; user and password are settings: --setting sasl.username=…",
            )
        self._namespace = namespace_of(namespace or f"kafka://{first}")
        self._config = {"bootstrap.servers": bootstrap, **dict(map(_setting, settings))}
        self._registry = None if registry is None else Registry(registry)
        self._topics = tuple(topics)
        self._exclude = tuple(exclude)
        self._own_topics = own_topics
        own = id_of(self._namespace.replace("://", "-")) if id is None else id
        self.identity = Identity(KIND, checked_id(own), PREFIX)

    @property
    def systems(self) -> tuple[Urn, ...]:
        """The cluster."""
        return (data(self._namespace, "/"),)

    def selects(self, entity: Urn, properties: Mapping[str, str]) -> bool:
        """As `Source.selects`: a topic of this cluster that is read."""
        return entity.parts[0] == self._namespace and self._is_wanted(entity.name)

    def read(self, tell: Tell) -> Iterator[Found | Problem]:
        """As `Source.read`."""
        tell(Progress("list topics"))
        cluster = Cluster(self._namespace, self._config)
        names = cluster.names()
        hidden = set() if self._own_topics else own_topics(names)
        wanted = [name for name in names if name not in hidden and self._is_wanted(name)]
        schemas = _Schemas(names, self._read_schemas(tell))
        for done, (name, topic) in enumerate(zip(wanted, cluster.topics(wanted), strict=True)):
            if done % _TELL_EVERY == 0:
                tell(Progress("read topics", done, len(wanted)))
            if isinstance(topic, Problem):
                yield topic
            elif topic is not None:
                yield from self._found(name, topic, schemas)

    def _read_schemas(self, tell: Tell) -> dict[str, Registered | Problem]:
        """The newest schema of each subject."""
        if self._registry is None:
            return {}
        registry, answers = self._registry, dict[str, Registered | Problem]()
        subjects = registry.subjects()
        default = registry.default_compatibility()

        def read(subject: str) -> Registered | Problem | None:
            try:
                return registry.registered(subject, default)
            except UnreadableSubjectError as error:
                return Problem(subject, str(error))

        with threads(_BESIDE) as beside:
            for done, (subject, answer) in enumerate(zip(subjects, beside.map(read, subjects), strict=True)):
                if done % _TELL_EVERY == 0:
                    tell(Progress("read schemas", done, len(subjects)))
                if answer is not None:
                    answers[subject] = answer
        return answers

    def _is_wanted(self, name: str) -> bool:
        if any(fnmatchcase(name, pattern) for pattern in self._exclude):
            return False
        return not self._topics or any(fnmatchcase(name, pattern) for pattern in self._topics)

    def _found(self, name: str, topic: Topic, schemas: _Schemas) -> Iterator[Found | Problem]:
        properties = {"type": "topic", "partitions": str(topic.partitions), "replication": str(topic.replication)}
        properties |= {f"setting.{key}": value for key, value in topic.settings.items()}
        keeps: set[str] = set()
        columns, description = tuple[Column, ...](), None
        for role in ROLES:
            schema = schemas.of(name, role)
            if isinstance(schema, Problem):
                yield schema
                keeps |= {f"{role}.*", *(_OF_VALUE if role == "value" else ())}
            elif schema is not None:
                properties |= {f"{role}.{key}": text for key, text in _texts(schema).items()}
                if role == "value":
                    columns, description = described(schema.kind, schema.text)
        if others := schemas.of_records(name):
            properties["subjects"] = ", ".join(others)
        properties |= comments_of(columns)
        try:
            urn = data(self._namespace, name)
        except InvalidUrnError as error:
            yield Problem(name[:200], error.message)
            return
        yield Found(urn, description, schema_of(columns) or None, properties, keeps=frozenset(keeps))


class _Schemas:
    """The schemas of topics, by the names of their subjects."""

    def __init__(self, topics: Sequence[str], by_subject: Mapping[str, Registered | Problem]) -> None:
        self._by_subject = by_subject
        self._records: dict[str, list[str]] = {}
        known = set(topics)
        own = {f"{topic}-{role}" for topic in topics for role in ROLES}
        for subject in by_subject:
            if subject not in own and (topic := _topic_of(subject, known)):
                self._records.setdefault(topic, []).append(subject)

    def of(self, topic: str, role: str) -> Registered | Problem | None:
        """The schema of a topic's values or keys."""
        return self._by_subject.get(f"{topic}-{role}")

    def of_records(self, topic: str) -> list[str]:
        """Subjects of single kinds of a topic's records, sorted."""
        return sorted(self._records.get(topic, ()))


def _topic_of(subject: str, topics: set[str]) -> str | None:
    """The topic with the longest name that a subject begins with."""
    name = subject
    while (name := name.rpartition("-")[0]) and name not in topics:
        pass
    return name or None


def _texts(schema: Registered) -> dict[str, str]:
    """What is said of a schema, as properties."""
    said = {
        "subject": schema.subject,
        "format": schema.kind.lower(),
        "version": str(schema.version),
        "versions": ", ".join(map(str, schema.versions)),
        "id": str(schema.id),
        "compatibility": schema.compatibility or "",
        "references": ", ".join(schema.references),
        "schema": schema.text,
    }
    return {key: text for key, text in said.items() if text}


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key.strip() or not equals or key.strip() == "bootstrap.servers":
        raise InputError(
            "A setting of the Kafka client is not KEY=VALUE.",
            code="bad-kafka-setting",
            hint="Write it like --setting security.protocol=SASL_SSL, by librdkafka's names.",
        )
    return key.strip(), value
