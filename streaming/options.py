"""Every option name of Spark that the project uses: the one place, since Spark ignores a misspelt one without a word.

A test reads the session's options back and checks the source's names against the connector's own list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

SESSION = {
    "spark.app.name": "metajournal-stream",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.maxResultSize": "256m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Xss4m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
    "spark.python.daemon.module": "metajournal.streaming.daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
}
"""Settings of the driver's session; the master and what else `[stream]` says come on top."""

JAVA_SECURITY = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}
"""librdkafka's security keys and what Spark's Java client calls them."""

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
    """Security settings of librdkafka as Spark's Java client names them."""
    java = {JAVA_SECURITY[key]: value for key, value in kafka.items() if key in JAVA_SECURITY}
    if "ssl.ca.location" in kafka:
        java["ssl.truststore.type"] = "PEM"
    mechanism = kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms"))
    if mechanism in _JAAS and "sasl.username" in kafka:
        user, password = _jaas_text(kafka["sasl.username"]), _jaas_text(kafka.get("sasl.password", ""))
        java["sasl.jaas.config"] = f"{_JAAS[mechanism]} required username={user} password={password};"
    return java


def _jaas_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def jars(paths: Sequence[str]) -> dict[str, str]:
    """The session option that puts these jars on the class path."""
    return {"spark.jars": ",".join(paths)} if paths else {}
