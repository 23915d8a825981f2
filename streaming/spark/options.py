"""Every option name of Spark that the project uses: the one place, since Spark ignores a misspelt one without a word.

A test reads the session's options back and checks the source's names against the connector's own list.
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...schemas.errors import ConfigError

_HIDDEN = "(?i)secret|password|passphrase|token|credential|jaas|keystore|(access|account|sas|api)[._]?key"
"""Names of options whose values Spark masks in plans, errors and logs: its default, and those of Kafka's security."""

SESSION = {
    "spark.app.name": "metajournal-stream",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.maxResultSize": "256m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Xss4m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
    "spark.python.daemon.module": "metajournal.streaming.spark.daemon",
    "spark.python.factory.idleWorkerMaxPoolSize": "2",  # after a backlog, each keeps 80 MiB for a minute
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxBytesPerBatch": "4m",  # larger ones are grown by copying, in memory of their own
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.pollingDelay": "50ms",  # each look at an idle journal takes 2 ms of broker and JVM
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.redaction.regex": _HIDDEN,
    "spark.sql.redaction.options.regex": f"{_HIDDEN}|url",
}
"""Settings of the driver's session; the master and what else `[stream]` says come on top."""

JAVA_SECURITY = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.key.password": "ssl.key.password",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}
"""librdkafka's security keys and what Spark's Java client calls them."""

_FILES = {"ssl.certificate.location": "ssl.keystore.certificate.chain", "ssl.key.location": "ssl.keystore.key"}
"""Keys that name a file; the Java client wants certificate and key in one file, or, as here, the texts."""
_VERIFY = "enable.ssl.certificate.verification"
_IN_JAAS = ("sasl.username", "sasl.password")

_JAAS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def kafka_source(
    kafka: Mapping[str, str],
    partitions: Mapping[str, int],
    starting: Mapping[tuple[str, int], int],
    max_events: int,
) -> dict[str, str]:
    """Options of Spark's Kafka source for exactly these partitions from exactly these offsets.

    Args:
        kafka: librdkafka's dotted keys; bootstrap servers and security are translated.
        partitions: number of partitions per topic.
        starting: first offset per (topic, partition).
        max_events: most records in one batch.
    """
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in starting.items():
        offsets.setdefault(topic, {})[str(partition)] = offset
    options = {
        "kafka.bootstrap.servers": kafka["bootstrap.servers"],
        "assign": json.dumps({topic: list(range(count)) for topic, count in partitions.items()}),
        "startingOffsets": json.dumps(offsets),
        "kafka.isolation.level": "read_committed",
        "kafka.check.crcs": "true",
        "kafka.fetch.max.wait.ms": "1",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(max_events),
        "kafka.default.api.timeout.ms": "8000",
        "kafka.request.timeout.ms": "5000",
        "kafkaConsumer.pollTimeoutMs": "10000",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "200",
    }
    return options | {f"kafka.{name}": value for name, value in java_security(kafka).items()}


def java_security(kafka: Mapping[str, str]) -> dict[str, str]:
    """Security settings of librdkafka as Spark's Java client names them.

    Raises:
        ConfigError: a key or mechanism has no counterpart there, or names a file that cannot be read; without it Spark
            would connect otherwise than every other client.
    """
    secured = {key: value for key, value in kafka.items() if key.startswith(("security.", "ssl.", "sasl."))}
    if kafka.get(_VERIFY, "true").lower() != "true":
        raise _no_counterpart(f"kafka.{_VERIFY}=false", _VERIFY)
    java = {JAVA_SECURITY[key]: value for key, value in secured.items() if key in JAVA_SECURITY}
    java |= {_FILES[key]: _file_text(key, value) for key, value in secured.items() if key in _FILES}
    if unknown := [key for key in secured if key not in (*JAVA_SECURITY, *_FILES, *_IN_JAAS)]:
        raise _no_counterpart(f"kafka.{unknown[0]}", unknown[0])
    if "ssl.ca.location" in secured or "ssl.ca.pem" in secured:
        java["ssl.truststore.type"] = "PEM"
    if "ssl.keystore.key" in java or "ssl.keystore.certificate.chain" in java:
        java["ssl.keystore.type"] = "PEM"
    if java.get("ssl.endpoint.identification.algorithm") == "none":
        java["ssl.endpoint.identification.algorithm"] = ""
    return java | _login(secured)


def _login(secured: Mapping[str, str]) -> dict[str, str]:
    """The JAAS entry of a user and a password."""
    mechanism = secured.get("sasl.mechanism", secured.get("sasl.mechanisms"))
    if mechanism is None or mechanism == "GSSAPI":  # Kerberos reads the JVM's own login file
        return {}
    if mechanism not in _JAAS:
        raise _no_counterpart(f"The mechanism {mechanism} of kafka.sasl.mechanism", "sasl.mechanism")
    user, password = _quoted(secured.get("sasl.username", "")), _quoted(secured.get("sasl.password", ""))
    return {"sasl.jaas.config": f"{_JAAS[mechanism]} required username={user} password={password};"}


def _file_text(key: str, path: str) -> str:
    try:
        return Path(path).read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"kafka.{key} names a file that cannot be read: {error}.", key=f"kafka.{key}") from error


def _no_counterpart(what: str, key: str) -> ConfigError:
    return ConfigError(
        f"{what} has no counterpart in Spark's Java client.",
        hint=f"Connect the stream with the keys of docs/reference/configuration.md; translated are {_TRANSLATED}.",
        key=f"kafka.{key}",
    )


_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
_PLAIN = frozenset(f"{string.ascii_letters}{string.digits}._-/")
"""Characters that mean themselves in a properties file."""
_TRANSLATED = ", ".join((*JAVA_SECURITY, *_FILES, *_IN_JAAS))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def java(arguments: Sequence[str]) -> dict[str, str]:
    """The session option with arguments of the driver's Java that a user's own ones are added to."""
    quoted = [_quoted(argument) for argument in (*_QUIET, *arguments)]
    return {"spark.driver.defaultJavaOptions": " ".join(quoted)}


def jars(paths: Sequence[str]) -> dict[str, str]:
    """The session option that puts these jars on the class path."""
    return {"spark.jars": ",".join(paths)} if paths else {}


def properties(asked: Mapping[str, str]) -> str:
    """The text of a Java properties file that holds these options."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in asked.items())


def _escaped(text: str) -> str:
    """A text as properties files have it: in ASCII, and no character that means something there."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[start : start + 2]) for start in range(0, len(units), 2)]
    return "".join(chr(code) if chr(code) in _PLAIN else f"\\u{code:04x}" for code in codes)
