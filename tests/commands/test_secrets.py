"""No command prints what the settings hide: not as a setting, not in an error, a status or a log."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal import Journal, Settings
from metajournal.cli import main
from metajournal.indexer.connection import make_client
from metajournal.indexer.fill.status import STATUS_FILE
from metajournal.indexer.fill.status import StatusFile as IndexerStatusFile
from metajournal.indexer.waiting import Deadline
from metajournal.producers.kafka import ErrorLog, make_producer
from metajournal.schemas.errors import ConfigError, MetajournalError, SearchUnavailableError
from metajournal.schemas.setting_keys import hidden_texts
from metajournal.schemas.settings import ElasticsearchSettings, StackSettings
from metajournal.streaming.spark.options import SESSION, kafka_source
from metajournal.streaming.status import StatusFile
from metajournal.terminal.exits import ended
from metajournal.terminal.logs import JsonLines, Lines

SECRET = "Qx-hunter22-xQ"
LOGIN = f"user:{SECRET}@"
NAMES = st.from_regex(r"[a-z]{3,8}(\.[a-z]{3,8}){0,2}", fullmatch=True)
VALUES = st.from_regex(r"[A-Za-z0-9!%/+:-]{6,20}", fullmatch=True).map(lambda text: f"Qx{text}xQ")
LINES = (["config", "show"], ["config", "show", "--origin"], ["status"], ["show", "dataset:a/b"], ["verify"])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAJOURNAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("METAJOURNAL__KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.chdir(tmp_path)
    connect = Journal.connect
    at_once = lambda settings: connect(settings, connect_timeout_s=0.05)  # noqa: E731
    monkeypatch.setattr("metajournal.client.Journal.connect", at_once)


def printed(*words: str) -> str:
    result = CliRunner().invoke(main, [*words])
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.thorough
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(NAMES, VALUES, st.sampled_from(["kafka.", "lake.storage_options.", "stream.spark.spark."]))
def test_no_value_of_a_key_that_nobody_knows_is_printed(name: str, value: str, section: str) -> None:
    asked = ["--set", f"{section}qq.{name}={value}"]
    for line in LINES:
        for more in ([], ["--json"]):
            assert value not in printed(*asked, *line, *more)


@pytest.mark.thorough
@pytest.mark.parametrize("line", [*LINES, ["doctor"], ["-v", "show", "dataset:a/b"]], ids=" ".join)
def test_a_login_in_an_address_is_never_printed(line: list[str]) -> None:
    asked = [
        "--set", f"kafka.bootstrap.servers={LOGIN}127.0.0.1:1", "--set", f"elasticsearch.url=http://{LOGIN}127.0.0.1:1",
        "--set", f"kafka.ssl.key.password={SECRET}",
    ]  # fmt: skip
    assert SECRET not in printed(*asked, *line)


def test_a_search_that_fails_names_the_address_without_its_login() -> None:
    wanted = Settings(elasticsearch=ElasticsearchSettings(url=f"http://{LOGIN}127.0.0.1:1"))
    with make_client(wanted) as client, pytest.raises(SearchUnavailableError) as caught:
        Deadline(client, wanted.elasticsearch.url, 0.0).ask(lambda one: one.info())
    assert SECRET not in str(caught.value) + str(caught.value.data)
    assert "127.0.0.1:1" in str(caught.value)


@pytest.mark.parametrize("url", [f"{LOGIN}nowhere", f"http//{LOGIN}host:1", f"http://{LOGIN}host:port"])
def test_an_address_that_cannot_be_used_is_said_without_its_login(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_client(Settings(elasticsearch=ElasticsearchSettings(url=url)))
    assert SECRET not in str(caught.value)


def test_kafkas_own_words_are_told_and_logged_without_what_is_hidden(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "metajournal.kafka")
    wanted = {"bootstrap.servers": "127.0.0.1:1", "debug": "conf", "sasl.kerberos.kinit.cmd": SECRET}
    producer = make_producer(Settings(kafka=wanted), ErrorLog())
    while "sasl.kerberos.kinit.cmd" not in caplog.text:
        producer.poll(0.1)
    assert SECRET not in caplog.text
    with pytest.raises(ConfigError, match="refuses its configuration") as caught:
        make_producer(Settings(kafka={"bootstrap.servers": "127.0.0.1:1", "plugin.library.paths": SECRET}), ErrorLog())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("as_json", [False, True])
def test_the_error_that_ends_a_command_shows_nothing_hidden(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def failing(error: Exception) -> Any:
        raise error

    for error in (
        MetajournalError(f"It said {SECRET}.", hint=f"Ask {SECRET}.", cause=[{"why": SECRET}]),
        RuntimeError(SECRET),
    ):
        ended(lambda error=error: failing(error), as_json=as_json, hidden=lambda: [SECRET])  # type: ignore[misc]
    told = capsys.readouterr()
    assert SECRET not in told.out + told.err
    assert "********" in told.out + told.err


def test_a_trace_that_was_asked_for_shows_nothing_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("METAJOURNAL_TRACE", "1")
    nothing: dict[str, str] = {}
    assert ended(lambda: nothing[SECRET], as_json=False, hidden=lambda: [SECRET]) == 1
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "KeyError" in told
    assert SECRET not in told


@pytest.mark.parametrize("kind", [JsonLines, Lines])
def test_no_line_of_the_log_shows_what_is_hidden(kind: type[JsonLines | Lines]) -> None:
    try:
        raise ValueError(SECRET)
    except ValueError:
        record = logging.LogRecord("metajournal", 40, "", 1, "It said %s", (SECRET,), sys.exc_info())
    assert SECRET not in kind([SECRET]).format(record)
    assert "ValueError" in kind([SECRET]).format(record)


def test_no_status_file_shows_what_is_hidden(tmp_path: Path) -> None:
    wanted = Settings(kafka={"some.later.key": SECRET}, stack=StackSettings(home=str(tmp_path)))
    StatusFile(str(tmp_path), "stream", hidden=hidden_texts(wanted)).say("waiting", f"It said {SECRET}")
    IndexerStatusFile(wanted).write({"state": "waiting", "message": f"It said {SECRET}"})
    for name in ("stream.json", STATUS_FILE):
        assert json.loads((tmp_path / name).read_text())["message"] == "It said ********"


def test_spark_hides_every_option_that_may_hold_a_secret() -> None:
    pem = {"ssl.key.pem": SECRET, "ssl.certificate.pem": SECRET, "ssl.key.password": SECRET}
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": SECRET}
    source = kafka_source({"bootstrap.servers": "a:1", **pem, **login}, {"t": 1}, {("t", 0): 0}, 1)
    hidden = re.compile(SESSION["spark.sql.redaction.options.regex"])
    assert [name for name, value in source.items() if SECRET in value and not hidden.search(name)] == []
    assert not hidden.search("kafka.bootstrap.servers")
