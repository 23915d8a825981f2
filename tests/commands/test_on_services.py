"""The command line on a running installation: what is typed arrives, and what is read is what was written."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from metajournal.schemas.positions import Position
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from metajournal.stack.home import SETTINGS_FILE, settings_text, write_private
from metajournal.stack.ports import free_ports
from tests.gateway.browsing import Browser, parsed
from tests.gateway.serving import Asked
from tests.installation import Installation
from tests.wait import eventually

pytestmark = pytest.mark.services


def said(installation: Installation, *words: str, stdin: str | None = None, code: int = 0) -> Any:
    """What a command with --json prints."""
    done = installation.metajournal(*words, "--json", stdin=stdin)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_what_is_emitted_is_shown_searched_and_remembered(installation: Installation) -> None:
    urn = "dataset:typed/purchases"
    words = ("EntityRegistered", urn, "--property", "owner=carol", "--description", "What was bought")
    first = said(installation, "emit", *words)
    assert (first["ok"], first["outcome"], first["entity"]) == (True, "accepted", urn)
    second = said(installation, "emit", "TagsAdded", urn, "--tag", "confidential", "--actor", "alice")
    shown = said(installation, "show", urn)
    assert shown["user"] == {"properties": {"owner": "carol"}, "tags": ["confidential"]}
    assert (shown["actor"], shown["system"]["properties"]["description"]) == ("alice", "What was bought")
    assert said(installation, "show", urn, "--as-at", first["position"])["user"]["tags"] == []
    history = said(installation, "history", urn)
    assert [row["logical_timestamp"] for row in history] == [
        Position.parse(one["position"]).value for one in (first, second)
    ]
    newest = said(installation, "history", urn, "--limit", "1")
    assert newest == history[1:]
    assert said(installation, "history", urn, "--before", str(newest[0]["logical_timestamp"])) == history[:1]
    drawn = installation.metajournal("history", urn, "--limit", "1")
    assert "+tag confidential\n" in drawn.stdout  # and not all that the entity has
    assert f"--limit 1 --before {newest[0]['logical_timestamp']}" in drawn.stderr
    found = said(installation, "search", "tags:confidential", "--kind", "dataset", "--at-least", second["position"])
    assert [hit["urn"] for hit in found["hits"]] == [urn]
    assert found["hits"][0]["why"][0]["marked"] == "[confidential]"
    for at, tags in ((first["position"], []), (second["position"], ["confidential"])):
        then = said(installation, "search", "tags:confidential", "--as-at", at)["hits"][0]["then"]
        assert (then["user"]["tags"], then["final"]) == (tags, True)
    early = said(installation, "search", "tags:confidential", "--as-at", "2020-01-01")
    assert [(hit["urn"], hit["then"]) for hit in early["hits"]] == [(urn, None)]
    drawn = installation.metajournal("search", "tags:confidential", "--as-at", first["position"])
    assert "owner=carol" in drawn.stdout
    assert "1 found now" in drawn.stdout


def test_tables_for_people_say_the_same(installation: Installation) -> None:
    urn = "dataset:typed/for-people"
    emitted = installation.metajournal("emit", "EntityRegistered", urn, "--tag", "seen", "--property", "a=\x1b[2Jb")
    assert emitted.stdout.startswith("accepted  metajournal.journal.catalog/")
    position = emitted.stdout.split()[1]
    shown = installation.metajournal("show", urn, "--at-least", position)
    assert "a     \\x1b[2Jb" in shown.stdout
    assert "tags  seen" in shown.stdout
    assert "+tag seen, +a" in installation.metajournal("history", urn, "--at-least", position).stdout
    searched = installation.metajournal("search", "seen", "--at-least", position)
    assert "1 found" in searched.stdout
    assert "tag [seen]" in searched.stdout


def test_a_rejected_event_exits_with_1_and_gives_the_reason(installation: Installation) -> None:
    refused = said(installation, "emit", "TagsAdded", "dataset:typed/nobody", "--tag", "x", code=1)
    assert (refused["ok"], refused["outcome"], refused["reason"]) == (False, "rejected", "unknown-entity")
    stale = said(installation, "emit", "EntityRegistered", "dataset:typed/new", "--expected", "7", code=1)
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


def test_one_event_is_emitted_for_each_hit_of_a_search(installation: Installation) -> None:
    urns = [f"dataset:each/billing.{name}" for name in ("invoices", "payments", "refunds")]
    schema = {"properties": {"database.schema": "shop.billing"}}
    lines = [json.dumps({"type": "EntityRegistered", "entity": urn, **schema}) for urn in urns]
    lines.append(json.dumps({"type": "EntityRegistered", "entity": "dataset:each/sales.orders"}))
    assert installation.metajournal("emit", "-", stdin="\n".join(lines)).returncode == 0
    eventually(lambda: len(_hits(installation, "database.schema:shop.billing")) == 3, timeout_s=60)
    piped = installation.metajournal("search", "database.schema:shop.billing", "--limit", "1000", "--urns").stdout
    assert sorted(piped.splitlines()) == urns
    done = installation.metajournal("emit", "TagsAdded", "--each", "-", "--tag", "finance", stdin=piped)
    assert (done.returncode, done.stdout.count("accepted")) == (0, 3), done.stdout + done.stderr
    eventually(lambda: sorted(_hits(installation, "tags:finance")) == urns, timeout_s=60)
    unit = said(installation, "emit", "TagsRemoved", "--each", "-", "--tag", "finance", "--unit", stdin=piped)
    assert [result["outcome"] for result in unit["events"]] == ["accepted"] * 3
    assert "no URN" in installation.metajournal("emit", "TagsAdded", "--each", "-", "--tag", "x", stdin="").stderr


def _hits(installation: Installation, query: str) -> list[str]:
    return installation.metajournal("search", query, "--limit", "1000", "--urns").stdout.splitlines()


def test_without_waiting_the_answer_is_where_the_event_stands(installation: Installation) -> None:
    done = said(installation, "emit", "EntityRegistered", "dataset:typed/quick", "--no-wait")
    assert "outcome" not in done
    assert Position.parse(done["position"]).topic == "metajournal.journal.catalog"


def test_tail_gives_the_changes_since_a_position(installation: Installation) -> None:
    urn = "dataset:typed/followed"
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
        error = said(installation, command, "dataset:typed/never", code=1)["error"]
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
    nowhere = Installation(tmp_path)
    for words, code in ((("show", "dataset:a/b"), "kafka-unavailable"), (("search", "x"), "search-unavailable")):
        assert said(nowhere, *words, code=3)["error"]["code"] == code


def test_what_up_has_started_is_running_and_seen_by_status_and_doctor(installation: Installation) -> None:
    found = said(installation, "status")
    services = ("kafka", "elasticsearch", "stream", "indexer", "gateway")
    assert {one["name"]: one["state"] for one in found["components"]} == dict.fromkeys(services, "running")
    assert {stage["name"] for stage in found["stages"]} == {"lake", "index"}
    checks = {check["part"]: check["verdict"] for check in said(installation, "doctor")["checks"]}
    assert (checks["Kafka"], checks["Elasticsearch"], checks["Java"]) == ("fine", "fine", "fine")
    again = installation.metajournal("up")
    assert (again.returncode, again.stderr.startswith("error[already-running]")) == (1, True)


def test_what_up_has_started_answers_over_http(installation: Installation) -> None:
    """Its first principal is there, and the process hears of a key that is issued later."""
    key = said(installation, "access", "issue-key", "admin")["key"]
    [address] = [one["endpoint"] for one in said(installation, "status")["components"] if one["name"] == "gateway"]

    def asked() -> Any:
        request = Request(f"{address}/api/v1/access/me", headers={"Authorization": f"Bearer {key}"})
        try:
            return json.load(urlopen(request, timeout=10))
        except HTTPError as error:
            return None if error.code == HTTPStatus.UNAUTHORIZED else error.code

    assert eventually(asked)["grants"] == [{"role": "admin", "pattern": "*"}]


def test_up_prints_a_link_that_logs_in_and_a_key(installation: Installation) -> None:
    printed = installation.printed_by_up.read_text()
    [address] = [one["endpoint"] for one in said(installation, "status")["components"] if one["name"] == "gateway"]
    assert re.search(rf"^{re.escape(address)}/login\?code=mjk_\w+$", printed, re.MULTILINE), printed
    assert re.search(r"^mjk_\w+$", printed, re.MULTILINE), printed
    assert "metajournal access issue-code admin" in printed
    assert "metajournal access issue-code" in installation.metajournal("up").stderr
    assert "metajournal access issue-code" in installation.metajournal("status").stdout


def test_from_a_link_to_a_tag_edited_in_the_browser_and_a_key_for_a_service(installation: Installation) -> None:
    """The path of docs/how-to/serve-over-http.md."""
    link = said(installation, "access", "issue-code", "admin")["link"]
    server = Asked(urlsplit(link).netloc)
    browser = Browser(server)
    form = browser.page(link.partition(server.address)[2]).all("form")[0]
    assert eventually(lambda: browser.submit(form).status == 303)
    entity = said(installation, "emit", "EntityRegistered", "dataset:default/edited")["position"]
    at = "/entity/dataset:default/edited"
    eventually(lambda: browser.get(at).status == 200, what=entity)
    tags = next(one for one in browser.page(at).all("form") if one.all("input", name="tag"))
    assert browser.submit(tags, tag="mine").status == 303
    assert "mine" in browser.page(at).text

    made = next(one for one in browser.page("/access").all("form", action="/access/principals"))
    assert browser.submit(made, principal="service").status == 303
    its = "/access/principals/service"
    grant = eventually(lambda: browser.page(its).all("form", action=f"{its}/grant"))[0]
    assert browser.submit(grant, role="emitter", pattern="dataset:default/*").status == 303
    issue = next(one for one in browser.page(its).all("form", action=f"{its}/issue") if one.all("input", name="label"))
    key = parsed(browser.submit(issue, label="a service").body).all("pre")[0].text
    path = "/v3/namespaces/default/datasets/edited/metadata/tags"
    eventually(lambda: server.post(path, ["its"], key=key).status == 200)
    assert server.get(path, key=key).status == 403


def test_standard_input_without_an_event_is_said(installation: Installation) -> None:
    for empty in ("", "\n\n"):
        nothing = installation.metajournal("emit", "-", stdin=empty)
        assert (nothing.returncode, nothing.stdout) == (0, "")
        assert nothing.stderr == "note: Standard input contained no event, so nothing was emitted.\n"
    unit = installation.metajournal("emit", "--unit", "-", "--json", stdin="")
    assert (unit.returncode, json.loads(unit.stdout)["events"], unit.stderr) == (0, [], nothing.stderr)
