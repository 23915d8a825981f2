"""Starts a real Kafka broker (broker and controller in one) on 127.0.0.1, from the jars that `jars` brought.

One folder holds its data, configuration and log; the same folder started again holds the same topics. What a topic must
look like is the producers' business: topics are never created by accident here.
"""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from pathlib import Path
from typing import Final

from .errors import ServerStartError
from .java import Java, find_java
from .parts import Parts
from .ports import HOST, answers, free_ports, is_free
from .process import keep
from .server import Server, start_with_ports, wait_ready

JVM = ("-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable", "-Xlog:all=error:stderr")
HEAP_MIB: Final = 384
"""Enough for some hundred topics; thousands of them, as tests make, need more."""
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)

SETTINGS: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "CLIENT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A broker that was killed may come back at once: its old registration lives 1.5 s instead of 9.
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "400",
    # The controller writes a record when nothing happens; nobody waits for it here, and each costs processor time.
    "metadata.max.idle.interval.ms": "5000",
    # A dead producer's transaction holds readers up to its time-out and at most this much longer.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # The default of 128 MB would take a third of the heap.
    "log.cleaner.dedupe.buffer.size": "16777216",
}


def start_kafka(
    parts: Parts, folder: Path, *, ports: tuple[int, ...] = (), lasting: bool = False, timeout_s: float = 60,
    heap_mib: int = HEAP_MIB,
) -> Server:  # fmt: skip
    """Start a broker with its data in `folder` and wait until it answers.

    Args:
        ports: of the client and of the controller listener; used when both are free, others are picked otherwise.
        lasting: it will be released, so nobody is there at its end to take a class-data archive over.
        heap_mib: most memory of its objects.
    Raises:
        JavaMissingError, JavaVersionError: there is no Java for it.
        ServerStartError: it did not come up; the end of its log is in the error.
    """
    java = find_java()
    folder.mkdir(parents=True, exist_ok=True)
    wished = [ports] if ports and all(map(is_free, ports)) else []

    def start(chosen: tuple[int, ...]) -> Server:
        return _start(java, parts, folder, chosen, lasting, timeout_s, heap_mib)

    return start_with_ports(start, lambda: wished.pop() if wished else tuple(free_ports(2)))


def _start(
    java: Java, parts: Parts, folder: Path, ports: tuple[int, ...], lasting: bool, timeout_s: float, heap_mib: int
) -> Server:
    client, controller = ports
    configuration = folder / "server.properties"
    configuration.write_text(properties(client, controller), encoding="utf-8")
    class_path = os.pathsep.join(map(str, parts.files("kafka")))
    archive = ClassArchive(parts.root / f"kafka-java{java.version.replace('/', '_')}.jsa")
    run = [str(java.executable), *JVM, f"-Xmx{heap_mib}m", *_LOGGING]
    if not (folder / "data" / "meta.properties").exists():
        _format([*run, *archive.use, "-cp", class_path], configuration, folder)
    kept = keep(
        "kafka",
        [
            *run,
            *(archive.use if lasting else archive.use or archive.record),
            "-cp",
            class_path,
            "kafka.Kafka",
            str(configuration),
        ],
        folder=folder,
    )
    cluster = _cluster_id(folder)
    ready_s = wait_ready(kept, lambda: broker_answers(client, cluster), timeout_s=timeout_s)
    return Server("Kafka", f"{HOST}:{client}", ports, kept, ready_s, archive.finish)


def properties(client: int, controller: int) -> str:
    """The text of server.properties. Its data stand in the folder that the broker runs in: a name with a comma or a
    letter that is not Latin-1 could not be written here."""
    own = {
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"CLIENT://{HOST}:{client},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"CLIENT://{HOST}:{client}",
        "log.dirs": "data",
    }
    return "".join(f"{key}={value}\n" for key, value in {**SETTINGS, **own}.items())


def _format(run: list[str], configuration: Path, folder: Path) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [*run, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(configuration)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if result.returncode != 0:
        tail = "\n".join((result.stdout + result.stderr).splitlines()[-15:])
        raise ServerStartError("Kafka", "its folder could not be formatted", folder / "kafka.log", tail)


def _cluster_id(folder: Path) -> str:
    """What the folder was formatted with; another broker on our port would have another one."""
    lines = (folder / "data" / "meta.properties").read_text(encoding="utf-8").splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))


def broker_answers(port: int, cluster: str) -> bool:
    """Whether a broker of this cluster tells its metadata on this port."""
    if not answers(port):
        return False
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        metadata = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0}).list_topics(timeout=2)
    except KafkaException:
        return False
    return bool(metadata.brokers) and metadata.cluster_id == cluster


class ClassArchive:
    """A class-data archive (JEP 350): loaded classes of an earlier run, which halves the start. Only ever a gain.

    The first broker that is stopped in an orderly way leaves one; a Java that finds it unfit ignores it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = path.with_name(f"{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}")

    @property
    def use(self) -> list[str]:
        return [f"-XX:SharedArchiveFile={self._path}"] if self._path.exists() else []

    @property
    def record(self) -> list[str]:
        return [f"-XX:ArchiveClassesAtExit={self._unfinished}"]

    def finish(self) -> None:
        """Take over what was recorded, if it was; a broker that was killed has left nothing."""
        if self._unfinished.exists():
            self._unfinished.replace(self._path)
