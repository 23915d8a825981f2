"""The wide way on a Spark cluster: a standalone master with two workers, each its own process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyspark
import pytest

from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.stack.ports import free_ports
from tests.index import shows_the_lake
from tests.processes import end_with_parent, running_indexer, running_stream
from tests.streaming.test_stream_kills import assert_all_equal, generated, with_stream
from tests.topics import folded_to_the_end, write
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]
_SPARK = Path(pyspark.__file__).parent
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""As the driver has it: none of these five lives long enough for more."""


@contextmanager
def server(log: Path, *arguments: str) -> Iterator[None]:
    """One of Spark's standalone servers."""
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(_SPARK), "SPARK_DAEMON_JAVA_OPTS": _JAVA}
    with log.open("ab") as file:
        process = subprocess.Popen(
            [str(_SPARK / "bin" / "spark-class"), *arguments],
            stdout=file,
            stderr=file,
            env={**os.environ, **own},
            preexec_fn=end_with_parent,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def told(url: str) -> Any:
    """What a web interface says in JSON; None while it does not answer."""
    try:
        with urlopen(url, timeout=5) as answer:
            return json.load(answer)
    except (OSError, HTTPException, json.JSONDecodeError):
        return None


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """A master with so many workers of one core each; gives its URL."""
    port, web = free_ports(2)
    url = f"spark://127.0.0.1:{port}"
    master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
    with server(folder / "master.log", "org.apache.spark.deploy.master.Master", *master):
        worker = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        one = ["org.apache.spark.deploy.worker.Worker", *worker]
        with server(folder / "one.log", *one, "--work-dir", str(folder / "one"), url):  # noqa: SIM117
            with server(folder / "two.log", *one, "--work-dir", str(folder / "two"), url):

                def joined() -> bool:
                    found = told(f"http://127.0.0.1:{web}/json/")
                    return found is not None and found["aliveworkers"] == workers

                eventually(joined, 60, f"a cluster of {workers} workers ({folder})")
                yield url


def test_a_cluster_folds_a_backlog_on_all_its_executors(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    write(settings, generated(240))
    (web,) = free_ports(1)
    with cluster(tmp_path, 2) as url:
        spark = {
            "spark.ui.enabled": "true",
            "spark.ui.port": str(web),
            "spark.executor.memory": "600m",
            "spark.executor.extraJavaOptions": _JAVA,
        }
        asked = with_stream(settings, master=url, spark=spark, wide_events=1, max_events_per_batch=80)
        with running_stream(asked, tmp_path / "stream.log") as process:
            eventually(lambda: folded_to_the_end(settings), 180, f"the fold to the journal's end ({process.log})")
            base = f"http://127.0.0.1:{web}/api/v1/applications"
            (application,) = eventually(lambda: told(base), 30, f"Spark's web interface ({process.log})")

            def all_have_worked() -> bool:
                executors = told(f"{base}/{application['id']}/executors") or []
                tasks = {one["id"]: one["completedTasks"] for one in executors if one["id"] != "driver"}
                assert len(tasks) == 2, tasks
                assert all(count > 0 for count in tasks.values()), tasks
                return True

            eventually(all_have_worked, 30, "finished tasks on both executors")
            assert process.stop() == 0, process.tail()
    with running_indexer(settings, tmp_path / "indexer.log") as indexer:
        eventually(lambda: shows_the_lake(settings), 60, f"the index at the lake's marks ({indexer.log})")
    assert_all_equal(settings)
