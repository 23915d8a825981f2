"""The one place where the versions of the parts stand that do not come from pip.

`ivy.xml`, `checksums.txt`, `pyproject.toml`, `docker-compose.yml` and `docker/Dockerfile` repeat some of them because
their formats demand it; `tests/stack/test_versions.py` keeps every one in step with this file. Newer is not better
here: some later artifacts of Spark, Delta and Kafka cannot be resolved (docs/dependencies.md).
"""

from typing import Final

PYTHON_MINIMUM: Final = (3, 11)
JAVA_MINIMUM: Final = 17
"""Spark 4 needs Java 17; Elasticsearch 8.19 runs on it as well."""

SCALA: Final = "2.13"
SPARK: Final = "4.1.1"
SPARK_LINE: Final = "4.1"
SPARK_TOKEN_PROVIDER: Final = "4.0.0"
"""The Kafka connector's own dependency; the release that belongs to SPARK is missing in the repository."""
DELTA_SPARK: Final = "4.4.0"
KAFKA: Final = "4.3.1"
SLF4J_SIMPLE: Final = "1.7.36"
"""The Kafka broker logs through slf4j-api and brings no binding: without one a failed start says nothing."""
ELASTICSEARCH: Final = "8.19.21"
S3PROXY: Final = "4.1.0"
HADOOP: Final = "3.4.2"
"""The one that pyspark brings; hadoop-aws must be of the same."""
AWS_SDK: Final = "2.57.8"
"""For hadoop-aws: its own bundle of the whole SDK has 600 MB, these parts of it 14."""

MAVEN: Final[dict[str, str]] = {
    f"io.delta:delta-spark_{SPARK_LINE}_{SCALA}": DELTA_SPARK,
    f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}": SPARK,
    f"org.apache.spark:spark-avro_{SCALA}": SPARK,
    f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}": SPARK_TOKEN_PROVIDER,
    f"org.apache.kafka:kafka_{SCALA}": KAFKA,
    "org.slf4j:slf4j-simple": SLF4J_SIMPLE,
    "org.elasticsearch.distribution.integ-test-zip:elasticsearch": ELASTICSEARCH,
    "org.gaul:s3proxy": S3PROXY,
    "jakarta.servlet:jakarta.servlet-api": "6.0.0",
    "org.apache.hadoop:hadoop-aws": HADOOP,
    "software.amazon.awssdk:s3-transfer-manager": AWS_SDK,
    "software.amazon.awssdk:apache-client": AWS_SDK,
}
"""What ivy.xml asks for: organisation:module to revision."""

KAFKA_IMAGE: Final = f"apache/kafka:{KAFKA}"
ELASTICSEARCH_IMAGE: Final = f"elasticsearch:{ELASTICSEARCH}"
PYTHON_IMAGE: Final = "python:3.12-slim-bookworm"

EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "": ("confluent-kafka", "elasticsearch", "click", "rich"),
    "lake": ("deltalake", "pyarrow", "duckdb", "polars", "orjson", "numpy"),
    "stream": ("pyspark", "delta-spark", "pandas"),
    "sources": ("SQLAlchemy", "sqlglot", "PyYAML"),
    "metrics": ("prometheus-client",),
    "all": ("packaging",),
}
"""Distributions by the extra that brings them ("" is the light client); `doctor` looks for each."""
