"""OpenLineage's real Java client before a server of the tests: fetched by Ivy and driven by py4j, without a compiler.

Which version stands in openlineage_java.xml, how it is configured in docs/how-to/receive-openlineage.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from py4j import java_gateway, protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from metajournal.stack.jars import _alone, _ivy_arguments, _ivy_options, _why, ivy_jar
from metajournal.stack.java import find_java
from metajournal.stack.parts import file_digest
from metajournal.stack.places import cache_folder
from tests.gateway.openlineage_client import plain
from tests.gateway.serving import ADMIN, Served

IVY_FILE = Path(__file__).with_name("openlineage_java.xml")
_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "receive-openlineage.md"
_GROUP = "openlineage"
_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class RefusedError(Exception):
    """The client raised since it was answered with another status than 2xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


def jars() -> list[Path]:
    """The client and the jars that it needs, downloaded once for all tests of a machine."""
    cache = cache_folder()
    folder = cache / f"openlineage-java-{file_digest(IVY_FILE)[:12]}"
    if not folder.is_dir():
        with _alone(cache) as lock:
            if not folder.is_dir():
                _fetch(cache, folder, lock)
    return sorted(folder.glob("*.jar"))


def _fetch(cache: Path, folder: Path, lock: int) -> None:
    log = cache / "openlineage-java.log"
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        staging = Path(scratch)
        command = [str(find_java().executable), *_ivy_options(cache), "-jar", str(ivy_jar())]
        with log.open("wb") as out:
            done = subprocess.run(
                [*command, *_ivy_arguments(IVY_FILE, [_GROUP], staging)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, pass_fds=(lock,), check=False,
            )  # fmt: skip
        if done.returncode != 0:
            pytest.fail(f"OpenLineage's Java client could not be downloaded: {_why(log)} (log: {log})", pytrace=False)
        (staging / _GROUP).rename(folder)


@contextmanager
def machine() -> Iterator[JavaGateway]:
    """A JVM with the client's classes, which ends with the block; it listens on the loopback address, with a key."""
    port, key, process = launch_gateway(
        classpath=":".join(map(str, jars())), javaopts=list(_JVM), java_path=str(find_java().executable),
        die_on_exit=True, enable_auth=True, return_proc=True,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=key), java_process=process)
    try:
        assert gateway.java_gateway_server.getAddress().isLoopbackAddress()
        yield gateway
    finally:
        gateway.shutdown()
        process.stdin.close()  # which ends it
        process.wait(60)


class JavaClient:
    """The client, with key and gzip as users configure it."""

    def __init__(self, jvm: Any, server: Served, key: str = ADMIN) -> None:
        classes = jvm.io.openlineage.client
        yaml = classes.OpenLineageClientUtils.newObjectMapper(jvm.com.fasterxml.jackson.dataformat.yaml.YAMLFactory())
        config = yaml.readValue(_configuration(server, key), classes.OpenLineageConfig._java_lang_class)
        http = config.getTransportConfig()
        assert (http.getCompression().name(), http.getAuth().getToken()) == ("GZIP", f"Bearer {key}")
        self._classes, self._json = classes, classes.OpenLineageClientUtils.newObjectMapper()
        self._client = classes.Clients.newClient(config)

    def emit(self, event: Any) -> None:
        """Send an event of the Python client as the Java client's own classes have it.

        Raises:
            RefusedError: the client was answered with another status than 2xx.
        """
        made = self._made(plain(event))
        try:
            # Spark, where it ran in this process before, has put its own reading of errors in the place of py4j's.
            with patch.object(java_gateway, "get_return_value", protocol.get_return_value):
                self._client.emit(made)
        except Py4JJavaError as error:
            thrown = error.java_exception
            if thrown.getClass().getSimpleName() != "HttpTransportResponseException":
                raise
            raise RefusedError(thrown.getStatusCode(), thrown.getBody()) from error

    def _made(self, event: dict[str, Any]) -> Any:
        text = json.dumps(event)
        if "run" in event:
            return self._classes.OpenLineageClientUtils.runEventFromJson(text)
        kinds = self._classes.OpenLineage
        kind = kinds.DatasetEvent if "dataset" in event else kinds.JobEvent
        return self._json.readValue(text, kind._java_lang_class)

    def close(self) -> None:
        self._client.close()


def _configuration(server: Served, key: str) -> str:
    """The openlineage.yml that the documentation shows, with a server of the tests and a key."""
    (block,) = re.findall(r"```yaml\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    for shown, own in (("https://catalog.example.org", f"http://{server.address}"), ("mjk_…", key)):
        assert shown in block
        block = block.replace(shown, own)
    return str(block)
