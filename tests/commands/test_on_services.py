"""The command line on real services: what is typed arrives, and what is read is what was written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metajournal.schemas.positions import Position
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from metajournal.stack.home import SETTINGS_FILE, settings_text, write_private
from metajournal.stack.ports import free_ports
from tests.installation import Installation, installed, settings_of
from tests.services import Services

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def installation(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("command-line")
    with installed(settings_of(services, folder, "typed"), folder) as running:
        yield running


def said(installation: Installation, *words: str, stdin: str | None = None, code: int = 0) -> Any:
    """What a command with --json prints."""
    done = installation.metajournal(*words, "--json", stdin=stdin)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_what_is_emitted_is_shown_searched_and_remembered(installation: Installation) -> None:
    urn = "dataset:default/purchases"
    words = ("EntityRegistered", urn, "--property", "owner=alice", "--description", "What was bought")
    first = said(installation, "emit", *words)
    assert (first["ok"], first["outcome"], first["entity"]) == (True, "accepted", urn)
    second = said(installation, "emit", "TagsAdded", urn, "--tag", "pii", "--actor", "alice")
    shown = said(installation, "show", urn)
    assert shown["user"] == {"properties": {"owner": "alice"}, "tags": ["pii"]}
    assert (shown["actor"], shown["system"]["properties"]["description"]) == ("alice", "What was bought")
    assert said(installation, "show", urn, "--as-at", first["position"])["user"]["tags"] == []
    history = said(installation, "history", urn)
    assert [row["logical_timestamp"] for row in history] == [
        Position.parse(one["position"]).value for one in (first, second)
    ]
    found = said(installation, "search", "tags:pii", "--kind", "dataset", "--at-least", second["position"])
    assert [hit["urn"] for hit in found["hits"]] == [urn]
    assert found["hits"][0]["why"][0]["marked"] == "[pii]"


def test_tables_for_people_say_the_same(installation: Installation) -> None:
    urn = "dataset:default/for-people"
    emitted = installation.metajournal("emit", "EntityRegistered", urn, "--tag", "seen", "--property", "a=\x1b[2Jb")
    assert emitted.stdout.startswith("accepted  typed.journal.catalog/")
    position = emitted.stdout.split()[1]
    shown = installation.metajournal("show", urn)
    assert "a     \\x1b[2Jb" in shown.stdout
    assert "tags  seen" in shown.stdout
    assert "+tag seen, +a" in installation.metajournal("history", urn).stdout
    searched = installation.metajournal("search", "seen", "--at-least", position)
    assert "1 found" in searched.stdout
    assert "tag [seen]" in searched.stdout


def test_a_rejected_event_exits_with_1_and_gives_the_reason(installation: Installation) -> None:
    refused = said(installation, "emit", "TagsAdded", "dataset:default/nobody", "--tag", "x", code=1)
    assert (refused["ok"], refused["outcome"], refused["reason"]) == (False, "rejected", "unknown-entity")
    stale = said(installation, "emit", "EntityRegistered", "dataset:default/new", "--expected", "7", code=1)
    assert stale["reason"] == "stale-entity"


def test_many_lines_are_answered_one_by_one(installation: Installation) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "EntityRegistered", "entity": f"dataset:many/n{number}"} for number in range(50)
    ]
    lines.insert(10, {"type": "TagsAdded", "entity": "dataset:many/nobody", "tags": ["x"]})
    stdin = "\n".join(map(json.dumps, lines)) + "\nnonsense\n"
    done = installation.metajournal("emit", "-", "--json", stdin=stdin)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [result["line"] for result in results] == list(range(1, 53))
    assert [result["line"] for result in results if not result["ok"]] == [11, 52]


def test_without_waiting_the_answer_is_where_the_event_stands(installation: Installation) -> None:
    done = said(installation, "emit", "EntityRegistered", "dataset:default/quick", "--no-wait")
    assert "outcome" not in done
    assert Position.parse(done["position"]).topic == "typed.journal.catalog"


def test_tail_gives_the_changes_since_a_position(installation: Installation) -> None:
    urn = "dataset:default/followed"
    first = said(installation, "emit", "EntityRegistered", urn)
    for tag in ("one", "two"):
        said(installation, "emit", "TagsAdded", urn, "--tag", tag, "--actor", "bob")
    done = installation.metajournal("tail", "--since", first["position"], "--limit", "2", "--json")
    changes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [change["record"]["changes"]["additions"]["tags"] for change in changes] == [["one"], ["two"]]
    text = installation.metajournal("tail", "--since", first["position"], "--limit", "1").stdout
    assert "bob" in text
    assert "+tag one" in text


def test_an_unknown_entity_is_a_problem_and_no_empty_answer(installation: Installation) -> None:
    for command in ("show", "history"):
        error = said(installation, command, "dataset:default/never", code=1)["error"]
        assert error["code"] == "unknown-entity"
        assert error["hint"]


def test_a_search_for_nothing_known_is_fine_and_empty(installation: Installation) -> None:
    found = said(installation, "search", '"}}]} <script> OR 1=1')
    assert (found["total"], found["hits"]) == (0, [])


def test_services_that_do_not_answer_exit_with_3(tmp_path: Path) -> None:
    kafka, search = free_ports(2)
    url = f"http://127.0.0.1:{search}"
    away = Settings(kafka={"bootstrap.servers": f"127.0.0.1:{kafka}"}, elasticsearch=ElasticsearchSettings(url=url))
    write_private(tmp_path / SETTINGS_FILE, settings_text(away))
    nowhere = Installation(tmp_path, away)
    for words, code in ((("show", "dataset:a/b"), "kafka-unavailable"), (("search", "x"), "search-unavailable")):
        assert said(nowhere, *words, code=3)["error"]["code"] == code


def test_up_leaves_everything_running_and_down_ends_it(tmp_path: Path) -> None:
    here = Installation(tmp_path, Settings())
    assert said(here, "status", code=1)["ok"] is False
    up = here.metajournal("up")
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        found = said(here, "status")
        assert {one["name"]: one["state"] for one in found["components"]} == dict.fromkeys(
            ("kafka", "elasticsearch", "stream", "indexer"), "running"
        )
        assert {stage["name"] for stage in found["stages"]} == {"lake", "index"}
        assert said(here, "emit", "EntityRegistered", "dataset:default/a", "--timeout", "60")["outcome"] == "accepted"
        assert said(here, "show", "dataset:default/a")["urn"] == "dataset:default/a"
        checks = {check["part"]: check["verdict"] for check in said(here, "doctor")["checks"]}
        assert (checks["Kafka"], checks["Elasticsearch"], checks["Java"]) == ("fine", "fine", "fine")
    finally:
        down = here.metajournal("down")
    assert down.returncode == 0
    assert {one["state"] for one in said(here, "status", code=1)["components"]} == {"not started"}
    assert "Nothing was running" in here.metajournal("down").stdout
