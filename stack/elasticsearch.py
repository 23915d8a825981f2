"""Starts a real Elasticsearch on 127.0.0.1 from the zip that `jars` brought.

The zip holds the core alone (no scripts, no analysis plugins, no `GET /`); what runs on it runs on a full one. One
folder holds data, configuration and log. Elasticsearch refuses root: `privilege` says how it is started then.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
from pathlib import Path

from .jars import elasticsearch_home
from .java import Java, find_java
from .parts import Parts
from .ports import HOST, free_ports, is_free
from .privilege import Unprivileged, unprivileged, write_texts
from .process import keep
from .server import Server, start_with_ports, wait_ready

SETTINGS: dict[str, str] = {
    "node.name": "metajournal",
    "network.host": HOST,
    "discovery.type": "single-node",
    "xpack.security.enabled": "false",
    # A nearly full disk of a laptop is no reason to refuse writes.
    "cluster.routing.allocation.disk.threshold_enabled": "false",
    "action.destructive_requires_name": "true",
}
JVM_OPTIONS = """\
-Xms512m
-Xmx512m
-XX:+UseSerialGC
-XX:TieredStopAtLevel=1
-Djava.io.tmpdir=${ES_TMPDIR}
-XX:+ExitOnOutOfMemoryError
-XX:ErrorFile=hs_err_pid%p.log
"""
_FOLDERS = ("config", "data", "tmp", "logs")
"""Those that Elasticsearch writes to."""
LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}]%marker %m%n%ex{short}
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
logger.deprecation.name = org.elasticsearch.deprecation
logger.deprecation.level = error
"""


def start_elasticsearch(parts: Parts, folder: Path, *, ports: tuple[int, ...] = (), timeout_s: float = 120) -> Server:
    """Start Elasticsearch with its data in `folder` and wait until it answers.

    Args:
        ports: for HTTP and for transport; used when both are free, others are picked otherwise.
    Raises:
        JavaMissingError, JavaVersionError: there is no Java for it.
        PrivilegeError: we are root and cannot start it as anybody else.
        ServerStartError: it did not come up; the end of its log is in the error.
    """
    java, way = find_java(), unprivileged()
    program = elasticsearch_home(parts, way.folder(parts.root))
    wished = [ports] if ports and all(map(is_free, ports)) else []

    def start(chosen: tuple[int, ...]) -> Server:
        return _start(java, way, program, folder, chosen, timeout_s)

    return start_with_ports(start, lambda: wished.pop() if wished else tuple(free_ports(2)))


def _start(
    java: Java,
    way: Unprivileged,
    program: Path,
    folder: Path,
    ports: tuple[int, ...],
    timeout_s: float,
) -> Server:
    inner = way.folder(folder, given=True)
    _prepare(inner, ports)
    way.give(inner, _FOLDERS)
    kept = keep(
        "elasticsearch",
        [*way.prefix, program / "bin" / "elasticsearch"],
        folder=folder,
        env=_environment(java, inner),
    )
    ready_s = wait_ready(kept, lambda: cluster_answers(ports[0], _cluster(inner)), timeout_s=timeout_s)
    return Server("Elasticsearch", f"http://{HOST}:{ports[0]}", ports, kept, ready_s)


def _prepare(folder: Path, ports: tuple[int, ...]) -> None:
    """Write the configuration folder; the keystore that Elasticsearch makes in it is left alone."""
    for name in _FOLDERS:
        (folder / name).mkdir(0o700, parents=True, exist_ok=True)
    texts = {
        "elasticsearch.yml": configuration_text(folder, *ports),
        "jvm.options": JVM_OPTIONS,
        "log4j2.properties": LOGGING,
    }
    write_texts(folder / "config", texts)


def configuration_text(folder: Path, http_port: int, transport_port: int) -> str:
    """The text of elasticsearch.yml. (A list of one folder: a text would be split at its commas.)"""
    own = {
        "cluster.name": _cluster(folder),
        "http.port": str(http_port),
        "transport.port": str(transport_port),
        "path.data": json.dumps([str(folder / "data")], ensure_ascii=False),
        "path.logs": json.dumps(str(folder / "logs"), ensure_ascii=False),
    }
    return "".join(f"{key}: {value}\n" for key, value in {**SETTINGS, **own}.items())


def _environment(java: Java, folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ES_", "JAVA_"))}
    own = {
        "ES_JAVA_HOME": str(java.home),
        "ES_PATH_CONF": str(folder / "config"),
        "ES_TMPDIR": str(folder / "tmp"),
        "CLI_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
    }
    return {**kept, **own}


def _cluster(folder: Path) -> str:
    """A name of this folder's own: another Elasticsearch that has taken our port would answer with another one."""
    return f"metajournal-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"


def cluster_answers(port: int, name: str) -> bool:
    """Whether the cluster of this name says that its primary shards are allocated."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/_cluster/health?wait_for_status=yellow&timeout=2s")
        answer = connection.getresponse()
        return answer.status == http.HTTPStatus.OK and json.load(answer).get("cluster_name") == name
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()
