"""Keys of settings by what their values can do: hold a secret, or make a program run.

Of the keys that others define (librdkafka's, the object store's, Spark's) two lists are kept of each: `PLAIN` ones hold
no secret and do nothing but tune or name a place, so they are shown and may stand in any file; `SECRET` ones hold a
secret and do nothing else, so they are masked and may stand in any file. A key of neither list may do anything: it is
masked, and counts only where somebody named its source.
Invariant: a key that nobody has judged, of a later librdkafka say, is masked and needs a named source.

Source: CONFIGURATION.md of librdkafka; `AmazonS3ConfigKey`, `AzureConfigKey`, `GoogleConfigKey` and `ClientConfigKey`
of the Rust crate object_store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from .masking import MASK as MASK
from .masking import scrubbed as scrubbed
from .settings import Settings

KAFKA_PLAIN: Final = frozenset(
    """
    acks allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
    auto.commit.enable auto.commit.interval.ms auto.offset.reset batch.num.messages batch.size bootstrap.servers
    broker.address.family broker.address.ttl broker.version.fallback builtin.features check.crcs client.dns.lookup
    client.id client.rack client.software.name client.software.version compression.codec compression.level
    compression.type connections.max.idle.ms consume.callback.max.messages coordinator.query.interval.ms debug
    delivery.report.only.error delivery.timeout.ms enable.auto.commit enable.auto.offset.store
    enable.gapless.guarantee enable.idempotence enable.metrics.push enable.partition.eof enable.random.seed
    enable.sasl.oauthbearer.unsecure.jwt enable.sparse.connections enable.ssl.certificate.verification
    fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms
    fetch.wait.max.ms group.id group.instance.id group.protocol group.protocol.type group.remote.assignor
    heartbeat.interval.ms https.ca.location isolation.level linger.ms log.connection.close log.queue log.thread.name
    log_level max.in.flight max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms
    metadata.broker.list metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metadata.request.timeout.ms partition.assignment.strategy partitioner queue.buffering.backpressure.threshold
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages queuing.strategy receive.message.max.bytes reconnect.backoff.jitter.ms
    reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks request.timeout.ms retries
    retry.backoff.max.ms retry.backoff.ms sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.mechanism sasl.mechanisms sasl.oauthbearer.client.id sasl.oauthbearer.grant.type sasl.oauthbearer.method
    sasl.oauthbearer.scope sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.username
    security.protocol session.timeout.ms socket.blocking.max.ms socket.connection.setup.timeout.ms
    socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location ssl.certificate.location
    ssl.cipher.suites ssl.crl.location ssl.curves.list ssl.endpoint.identification.algorithm ssl.key.location
    ssl.keystore.location ssl.sigalgs.list statistics.interval.ms sticky.partitioning.linger.ms topic.blacklist
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
    """.split()  # noqa: SIM905
)
KAFKA_SECRET: Final = frozenset(
    """
    https.ca.pem sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.secret sasl.oauthbearer.config
    sasl.oauthbearer.extensions sasl.password ssl.ca.pem ssl.certificate.pem ssl.key.password ssl.key.pem
    ssl.keystore.password
    """.split()  # noqa: SIM905
)
STORAGE_PLAIN: Final = frozenset(
    """
    account_name allow_http allow_invalid_certificates authority_id bucket bucket_name checksum_algorithm client_id
    conditional_put connect_timeout container_name copy_if_not_exists default_region disable_tagging endpoint
    endpoint_url http1_only http2_only max_retries pool_idle_timeout pool_max_idle_per_host region request_payer
    retry_timeout s3_allow_unsafe_rename s3_express s3_locking_provider server_side_encryption skip_signature
    sse_bucket_key_enabled sse_kms_key_id tenant_id timeout unsigned_payload use_emulator user_agent
    virtual_hosted_style_request
    """.split()  # noqa: SIM905
)
"""Without the name of the store before them."""
STORAGE_SECRET: Final = frozenset(
    """
    access_key access_key_id account_key bearer_token client_secret master_key sas_key sas_token secret_access_key
    service_account_key session_token sse_customer_key_base64 token
    """.split()  # noqa: SIM905
)
SPARK_PLAIN: Final = frozenset(
    """
    spark.app.name spark.blockmanager.port spark.cores.max spark.default.parallelism spark.driver.bindaddress
    spark.driver.cores spark.driver.host spark.driver.maxresultsize spark.driver.memory spark.driver.memoryoverhead
    spark.driver.port spark.dynamicallocation.enabled spark.dynamicallocation.maxexecutors
    spark.dynamicallocation.minexecutors spark.executor.cores spark.executor.instances spark.executor.memory
    spark.executor.memoryoverhead spark.locality.wait spark.memory.fraction spark.network.timeout
    spark.port.maxretries spark.rpc.asktimeout spark.sql.adaptive.enabled spark.sql.session.timezone
    spark.sql.shuffle.partitions spark.task.cpus spark.task.maxfailures spark.ui.enabled spark.ui.port
    """.split()  # noqa: SIM905
)
_STORE: Final = re.compile(r"^(?:aws|azure_storage|azure|google|gcs)_")
_LOCAL_MASTER: Final = re.compile(r"local(?:\[[0-9*,]+\])?")
_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]*://")
_OPTIONS: Final = ("lake.storage_options", "stream.spark")
_PLACES: Final = frozenset({"elasticsearch.url", "kafka.bootstrap.servers", "kafka.metadata.broker.list"})
"""Keys whose values may have a login before the host also without a scheme."""
_PLACES_OF_SECRETS: Final = _PLACES | {
    "elasticsearch.ca", "kafka.enable.ssl.certificate.verification", "kafka.https.ca.location", "kafka.sasl.mechanism",
    "kafka.sasl.mechanisms", "kafka.sasl.oauthbearer.token.endpoint.url", "kafka.security.protocol",
    "kafka.ssl.ca.certificate.stores", "kafka.ssl.ca.location", "kafka.ssl.endpoint.identification.algorithm",
}  # fmt: skip
_TRUSTED: Final = frozenset({"gateway.trusted_proxies", "gateway.user_header"})
"""Keys by which somebody else may say who a user is."""
_REACHED_AT: Final = frozenset({"gateway.host", "gateway.operator"})
_LOOPBACK: Final = re.compile(r"(?:$|localhost|127\.\d+\.\d+\.\d+|::1|\[::1\])(?::\d+)?$")
_SECTIONS: Final = frozenset(section.name for section in fields(Settings))
_LEAST: Final = 4
_LEAST_DIGITS: Final = 8
_LEAST_WORD: Final = 8


def is_plain(path: str) -> bool:
    """Whether a key (`section.key`) is known to hold no secret."""
    section, _, key = path.partition(".")
    if section == "kafka":
        return key.lower() in KAFKA_PLAIN
    option = _option(path)
    if option is not None:
        return _bare(option) in STORAGE_PLAIN if section == "lake" else option.lower() in SPARK_PLAIN
    return path not in (*_OPTIONS, "elasticsearch.api_key") and section in _SECTIONS


def is_harmless(path: str, value: Any) -> bool:
    """Whether a setting can neither run a program nor load code, nor send a file's content or a login of the machine,
    nor let anybody in from elsewhere.

    Args:
        path: `section.key`.
        value: as it stands in a file.
    """
    if path == "stream.master":  # what a cluster sends back, the driver unpickles
        return isinstance(value, str) and _LOCAL_MASTER.fullmatch(value) is not None
    if path in _REACHED_AT:
        return isinstance(value, str) and _LOOPBACK.match(value) is not None
    return path not in _TRUSTED and (is_plain(path) or _only_holds_a_secret(path) or path in _OPTIONS)


def decides_who_gets_secrets(path: str) -> bool:
    """Whether a setting says to which server, or how well protected, the secrets of its section are sent."""
    return path.lower() in _PLACES_OF_SECRETS


def value_shown(path: str, value: Any) -> str:
    """A setting's value for people to read: masked where its key is not known to hold no secret."""
    if value is None:
        return ""
    if not is_plain(path):
        return MASK
    if isinstance(value, tuple):
        return ", ".join(value)
    return url_shown(str(value)) if _may_have_login(path, str(value)) else str(value)


def url_shown(url: str) -> str:
    """A URL, or Kafka's bootstrap servers, for people to read: without user, password and query."""
    scheme, login, place, query = _parts(url)
    if "?" in login:  # where the one ends and the other begins, nobody knows
        return f"{scheme}{MASK}"
    return f"{scheme}{MASK + '@' if login else ''}{place}{'?' + MASK if query else ''}"


def hidden_texts(settings: Settings) -> tuple[str, ...]:
    """Every text that these settings hide, for `scrubbed`."""
    return _texts((path, str(value)) for path, value in pairs(settings) if value is not None)


def hidden_of_kafka(config: Mapping[str, Any]) -> tuple[str, ...]:
    """As `hidden_texts`, of the configuration of a Kafka client."""
    return _texts((f"kafka.{key}", value) for key, value in config.items() if isinstance(value, str))


def pairs(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Every key (`section.key`) with its value."""
    for section in fields(settings):
        group = getattr(settings, section.name)
        values = (
            group if isinstance(group, Mapping) else {field.name: getattr(group, field.name) for field in fields(group)}
        )
        for name, value in values.items():
            if isinstance(value, Mapping):
                yield from ((f"{section.name}.{name}.{key}", entry) for key, entry in value.items())
            else:
                yield f"{section.name}.{name}", value


def _only_holds_a_secret(path: str) -> bool:
    section, _, key = path.partition(".")
    option = _option(path)
    if section == "lake" and option is not None:
        return _bare(option) in STORAGE_SECRET
    return key.lower() in KAFKA_SECRET if section == "kafka" else path == "elasticsearch.api_key"


def _texts(values: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """What is hidden of these values, also as it stands in a literal; the longest first, since one may hold another."""
    texts: set[str] = set()
    for path, value in values:
        for secret in _secrets_of(path, value):
            texts |= {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]}
    return tuple(sorted(texts, key=lambda text: (-len(text), text)))


def _secrets_of(path: str, value: str) -> Iterator[str]:
    """A hidden value with its words, for libraries quote one line of a key or what they cannot read; or its login.

    Short texts, numbers, true and false are passed over: they are no secrets, and would mask much else.
    """
    if not is_plain(path):
        yield from (part for part in (value, *value.split()) if _is_worth_hiding(part, whole=part == value))
    elif _may_have_login(path, value):
        _, login, _, query = _parts(value)
        parts = (login, login.partition(":")[2], query)
        yield from (part for part in parts if _is_worth_hiding(part, whole=True))


def _is_worth_hiding(text: str, *, whole: bool) -> bool:
    least = _LEAST_DIGITS if text.isdigit() else _LEAST if whole else _LEAST_WORD
    return len(text) >= least and text not in ("true", "false")


def _may_have_login(path: str, value: str) -> bool:
    return path in _PLACES or "://" in value


def _parts(url: str) -> tuple[str, str, str, str]:
    """A URL's scheme with its `://`, its login, what follows up to a query, and the query."""
    match = _SCHEME.match(url)
    scheme = match[0] if match else ""
    login, _, place = url.removeprefix(scheme).rpartition("@")
    place, _, query = place.partition("?")
    return scheme, login, place, query


def _option(path: str) -> str | None:
    """The name of somebody else's option in a key of ours (`lake.storage_options.AWS_REGION`)."""
    return next((path.removeprefix(f"{option}.") for option in _OPTIONS if path.startswith(f"{option}.")), None)


def _bare(option: str) -> str:
    """An option of an object store without the store's name; capitals do not count."""
    return _STORE.sub("", option.lower())
