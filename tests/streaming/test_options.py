"""Spark's options: Spark ignores a misspelt one without a word, so their names are held against Spark's own lists."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from metajournal.schemas.errors import ConfigError
from metajournal.stack.jars import spark_jars
from metajournal.streaming.spark import options
from metajournal.streaming.spark.daemon import without_archives
from metajournal.streaming.spark.session import open_session, planned_ends

SECURED = {
    "bootstrap.servers": "broker:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": 'p"a\\ss',
    "ssl.ca.location": "ca.pem",
}


def test_the_source_is_told_every_partition_and_its_first_offset() -> None:
    starting = {("j.a", 0): 5, ("j.a", 1): 0, ("j.b", 0): 7}
    found = options.kafka_source({"bootstrap.servers": "b:1"}, {"j.a": 2, "j.b": 1}, starting, 100)
    assert json.loads(found["assign"]) == {"j.a": [0, 1], "j.b": [0]}
    assert json.loads(found["startingOffsets"]) == {"j.a": {"0": 5, "1": 0}, "j.b": {"0": 7}}
    assert found["kafka.isolation.level"] == "read_committed"
    assert found["failOnDataLoss"] == "true"
    assert found["maxOffsetsPerTrigger"] == "100"


def test_security_settings_are_translated_for_sparks_java_client() -> None:
    java = options.java_security(SECURED)
    assert java["security.protocol"] == "SASL_SSL"
    assert java["sasl.mechanism"] == "SCRAM-SHA-512"
    assert java["ssl.truststore.location"] == "ca.pem"
    assert java["ssl.truststore.type"] == "PEM"
    assert java["sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="p\\"a\\\\ss";'
    )


def test_a_clients_certificate_and_key_become_a_pem_key_store(tmp_path: Path) -> None:
    for name in ("certificate", "key"):
        (tmp_path / f"{name}.pem").write_text(f"-- {name} --\n")
    named = {f"ssl.{name}.location": str(tmp_path / f"{name}.pem") for name in ("certificate", "key")}
    asked = {"security.protocol": "SSL", "ssl.ca.pem": "-- ca --", "ssl.endpoint.identification.algorithm": "none"}
    java = options.java_security({**asked, **named, "ssl.key.password": "secret"})
    assert java == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-- ca --",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-- certificate --\n",
        "ssl.keystore.key": "-- key --\n",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "kafka.enable.ssl.certificate.verification=false"),
        ({"ssl.cipher.suites": "X"}, "kafka.ssl.cipher.suites"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"ssl.key.location": "/no/such/key.pem"}, "kafka.ssl.key.location"),
    ],
)
def test_what_spark_cannot_be_told_is_refused_instead_of_left_out(asked: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        options.java_security(asked)
    assert named in refused.value.message
    assert refused.value.hint


def test_a_broker_without_security_needs_none() -> None:
    assert options.java_security({"bootstrap.servers": "b:1"}) == {}


def classes(jar: str, part: str) -> bytes:
    """The code of a jar's classes whose name holds a part."""
    sparks_own = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    with zipfile.ZipFile(next(one for one in [*map(Path, spark_jars()), *sparks_own] if jar in one.name)) as archive:
        return b"".join(archive.read(name) for name in archive.namelist() if part in name)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = open_session(spark_jars(), log=str(tmp_path_factory.mktemp("spark")))
    yield session
    session.stop()


@pytest.mark.services
def test_spark_knows_every_session_option_that_is_its_own(session: SparkSession) -> None:
    assert session._jvm is not None
    companion = getattr(session._jvm.org.apache.spark.sql.internal, "SQLConf$")
    known = {entry.key() for entry in getattr(companion, "MODULE$").getConfigEntries().toArray()}
    code = classes("spark-catalyst", "internal/SQLConf$.class")  # holds some names that are registered nowhere
    python = classes("spark-core", "internal/config/Python$.class")
    for name in options.SESSION:
        assert name in known or not name.startswith("spark.sql.") or name.encode() in code
        assert not name.startswith("spark.python.") or name.encode() in python
    for name, value in options.SESSION.items():
        assert value in str(session.sparkContext.getConf().get(name))  # Spark puts its own Java options before ours


@pytest.mark.services
def test_the_connector_knows_every_option_of_the_source(session: SparkSession) -> None:
    assert session._jvm is not None
    code = classes("spark-sql-kafka", "KafkaSourceProvider").lower()
    consumer = set(session._jvm.org.apache.kafka.clients.consumer.ConsumerConfig.configNames())
    for name in options.kafka_source({"bootstrap.servers": "b:1"}, {"t": 1}, {("t", 0): 0}, 1):
        if name.startswith("kafka."):
            assert name.removeprefix("kafka.") in consumer
        else:
            assert name.lower().encode() in code


@pytest.mark.services
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Spark leaves the socket of what it collects to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_tasks_have_no_archive_to_read_anew_and_what_is_loaded_is_not_looked_at(session: SparkSession) -> None:
    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        archives = [one for one in (*sys.path_importer_cache, *sys.path) if one.endswith(".zip")]
        yield pa.record_batch([pa.array([json.dumps([archives, gc.get_freeze_count()])])], names=["told"])
        del batches

    ((told,),) = session.range(0, 1, 1, 1).mapInArrow(look, "told string").collect()
    archives, frozen = json.loads(told)
    assert not [one for one in archives if PurePath(one).name.startswith(("pyspark", "py4j"))]
    assert frozen > 100_000


def test_only_sparks_own_archives_leave_the_import_path() -> None:
    kept = ["", "/a/mine.zip", "/a/pyspark", "/usr/lib/python311.zip"]
    assert without_archives([*kept, "/s/python/lib/pyspark.zip", "/s/python/lib/py4j-0.10.9.9-src.zip"]) == kept


SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": "sEcReT-of-the-store",
    "spark.authenticate.secret": "sEcReT-of-spark",
    "spark.hadoop.odd": "a=b: #c! \\d\te\nf ü 🔑 ${user}",
}
STARTED = """
import json, sys, threading
from pathlib import Path
from metajournal.streaming.spark.session import open_session

seen, done = set(), threading.Event()

def look():
    while not done.wait(0.01):
        for process in Path("/proc").glob("[0-9]*"):
            try:
                seen.add((process / "cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                pass

asked = json.loads(sys.stdin.read())
watching = threading.Thread(target=look)
watching.start()
session = open_session([], {"spark.master": "local[1]", **asked}, log=sys.argv[1])
done.set()
watching.join()
context, jvm = session.sparkContext, session._jvm
java = Path(f"/proc/{context._gateway.proc.pid}/cmdline").read_text()
hadoop = context._jsc.hadoopConfiguration()
told = [
    {name: context.getConf().get(name) for name in asked},
    {name: jvm.java.lang.System.getProperty(name) for name in asked},
    {name: hadoop.get(name.removeprefix("spark.hadoop.")) for name in asked},
]
print(json.dumps([java, [one for one in seen if "sEc" + "ReT" in one], told, session.conf.get("spark.driver.memory")]))
session.stop()
"""


@pytest.mark.services
@pytest.mark.skipif(sys.platform != "linux", reason="arguments of processes are read in /proc")
def test_no_option_stands_in_an_argument_of_a_process_where_every_user_can_read_it(tmp_path: Path) -> None:
    """Whoever starts the JVM is looked at too, and what it does not get as arguments it must get nevertheless."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": "--name mine pyspark-shell"}
    ran = subprocess.run(
        [sys.executable, "-c", STARTED, str(tmp_path / "log")],
        input=json.dumps(SECRETS), capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    java, leaking, (conf, properties, hadoop), memory = json.loads(ran.stdout.splitlines()[-1])
    assert "org.apache.spark.deploy.SparkSubmit" in java
    assert [part for part in java.split("\0") if part.startswith("-Xmx")] == [f"-Xmx{memory}"]
    assert not leaking
    assert conf == properties == SECRETS
    stored = {name: value for name, value in SECRETS.items() if name.startswith("spark.hadoop.")}
    assert {name: value for name, value in hadoop.items() if name in stored} == stored
    assert not list(tmp_path.glob("metajournal-spark-*"))


def test_an_option_of_any_letters_is_one_line_of_a_properties_file() -> None:
    assert options.properties({"spark.a-b": "c d=\\\n🔑"}) == "spark.a-b=c\\u0020d\\u003d\\u005c\\u000a\\ud83d\\udd11\n"


def test_planned_ends_stand_in_the_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    folder.mkdir()
    (folder / "3").write_text('v1\n{"batchTimestampMs":0}\n{"j":{"0":6,"1":4}}')
    assert planned_ends(str(tmp_path), 3) == {("j", 0): 6, ("j", 1): 4}
