"""Principals, keys and roles over a real server that follows the journal of rights: what is given counts, and nobody
gives more than they have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from metajournal.producers.topics import ensure_topics
from metajournal.schemas.ids import id_text
from metajournal.schemas.settings import Settings
from tests.gateway.serving import Got, Served, served
from tests.wait import eventually

AT = "/api/v1/access"


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: Served) -> str:
    """The key of the first principal, who comes over Kafka alone; the stream does not run."""
    access = server.journal.access
    access.register("root")
    access.grant("root", ("admin", "*"))
    key, receipt = access.issue_key("root")
    receipt.position  # noqa: B018  (acknowledged)
    assert key_of(server, key.text)
    return key.text


def key_of(server: Served, key: str) -> str:
    """A key, once the server has heard of it."""
    eventually(lambda: server.get(f"{AT}/me", key=key).status == 200)
    return key


def made(server: Served, root: str, name: str, *grants: tuple[str, str]) -> str:
    """The key of a new principal with some grants."""
    assert server.post(f"{AT}/principals/{name}", key=root).status == 201
    if grants:
        assert granted(server, root, name, *grants).status == 200
    answer = server.post(f"{AT}/principals/{name}/keys", {"label": "test"}, key=root)
    assert answer.status == 201
    assert server.get(f"{AT}/me", key=answer.json["key"]).status == 200, "whoever is answered may use it"
    return str(answer.json["key"])


def granted(server: Served, key: str, name: str, *grants: tuple[str, str]) -> Got:
    body = {"grants": [{"role": role, "pattern": pattern} for role, pattern in grants]}
    return server.post(f"{AT}/principals/{name}/grants", body, key=key)


def code(answer: Got) -> tuple[int, Any]:
    return answer.status, answer.json["code"]


def test_nobody_is_served_without_a_key_that_is_good(server: Served, root: str) -> None:
    for key in (None, "", "mjk_x", root[:-1] + ("0" if root[-1] != "0" else "1"), "admin"):
        assert code(server.get(f"{AT}/me", key=key)) == (401, "unauthenticated"), key
    assert server.get(f"{AT}/me", key=root).json == {
        "tenant": "default", "principal": "root", "grants": [{"role": "admin", "pattern": "*"}],
    }  # fmt: skip


def test_a_principal_gets_a_grant_and_a_key_and_loses_them(server: Served, root: str) -> None:
    key = made(server, root, "ada", ("developer", "dataset:sales/*"))
    at = "/api/v1/entities/dataset:sales/orders"
    assert server.post(at, key=key).status == 201
    assert server.get(at, key=key).status == 200
    assert code(server.post("/api/v1/entities/dataset:other/orders", key=key)) == (403, "forbidden")
    assert server.delete(f"{AT}/principals/ada/grants/developer/dataset:sales%2F*", key=root).status == 200
    assert server.get(at, key=key).status == 403
    [shown] = server.get(f"{AT}/principals/ada/keys", key=root).json
    assert (shown["label"], shown["use"]) == ("test", "key")
    assert "hash" not in shown
    assert server.delete(f"{AT}/principals/ada/keys/{shown['id']}", key=root).status == 200
    assert server.get(at, key=key).status == 401
    assert code(server.get(f"{AT}/principals/of-nobody/keys", key=root)) == (404, "unknown-entity")


def test_what_may_be_made_once_is_made_once(server: Served, root: str) -> None:
    at = f"{AT}/principals/once"
    assert code(server.post(at, key=root, If_Match="*")) == (412, "stale-entity")
    assert server.post(at, key=root, If_None_Match="*").status == 201
    assert code(server.post(at, key=root, If_None_Match="*")) == (412, "stale-entity")
    assert server.post(at, key=root, If_Match="*").status == 200
    role, allows = f"{AT}/roles/once", {"actions": ["ReadEntity"]}
    assert server.post(role, allows, key=root, If_None_Match="*").status == 200
    assert code(server.post(role, allows, key=root, If_None_Match="*")) == (412, "stale-entity")


def test_what_a_tag_names_is_what_a_condition_is_held_against(server: Served, root: str) -> None:
    """A key was answered with a tag of its own row, which as a condition on its principal never held."""
    at = f"{AT}/principals/tagged"
    assert server.post(at, key=root).status == 201
    seen = server.get(at, key=root).headers["etag"]
    made = server.post(f"{at}/keys", key=root)
    assert (made.status, "etag" in made.headers) == (201, False)
    ended = server.delete(f"{at}/keys/{made.json['key_id']}", key=root)
    assert (ended.status, "etag" in ended.headers) == (200, False)
    for refused in (
        server.post(f"{at}/keys", key=root, If_Match=seen),
        server.post(f"{at}/keys", key=root, If_Match="*"),
        server.delete(f"{at}/keys/{made.json['key_id']}", key=root, If_Match=seen),
    ):
        assert code(refused) == (400, "bad-condition")
    body = {"grants": [{"role": "analyst", "pattern": "*"}]}
    granted = server.post(f"{at}/grants", body, key=root, If_Match=seen)
    assert granted.status == 200
    assert server.get(at, key=root).headers["etag"] == granted.headers["etag"] != seen
    assert code(server.post(f"{at}/grants", body, key=root, If_Match=seen)) == (412, "stale-entity")


@pytest.mark.parametrize("what", ["principals", "roles"])
def test_lists_are_read_page_by_page(server: Served, root: str, what: str) -> None:
    for number in range(3):
        path, body = f"{AT}/{what}/paged-{number}", None if what == "principals" else {"actions": ["ReadEntity"]}
        assert server.post(path, body, key=root).status in (200, 201)
    whole = [one["name"] for one in server.get(f"{AT}/{what}", key=root).json]
    path, names = f"{AT}/{what}?limit=2", []
    while path:
        page = server.get(path, key=root)
        assert len(page.json) <= 2
        names += [one["name"] for one in page.json]
        path = page.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert names == whole
    assert code(server.get(f"{AT}/{what}?limit=0", key=root))[0] == 400


def test_what_is_unmodified_says_the_same(server: Served, root: str) -> None:
    """Keys come and go without a change of their principal."""
    at = f"{AT}/principals/unmodified"
    assert server.post(at, key=root).status == 201
    seen = server.get(at, key=root)
    assert server.post(f"{at}/keys", key=root).status == 201
    assert server.get(at, key=root, If_None_Match=seen.headers["etag"]).status == 304
    assert server.get(at, key=root).json == seen.json


def test_who_may_only_write_sees_what_became_of_an_event(server: Served, root: str) -> None:
    server.post(f"{AT}/roles/writer", {"actions": ["WriteEntity"]}, key=root)
    key = made(server, root, "writes", ("writer", "dataset:written/*"))
    sent = server.post("/api/v1/entities/dataset:written/a", key=key, Prefer="respond-async")
    assert sent.status == 202
    told = server.get(sent.headers["location"], key=key)
    assert (told.status, [one["position"] for one in told.json["places"]]) == (200, [sent.json["position"]])
    others = server.post("/api/v1/entities/dataset:written/b", key=root)
    assert code(server.get(f"/api/v1/events/{others.json['event_id']}", key=key)) == (404, "unknown-event")


def test_a_disabled_principal_is_nobody(server: Served, root: str) -> None:
    key = made(server, root, "bob", ("analyst", "*"))
    assert server.delete(f"{AT}/principals/bob", key=root).status == 200
    eventually(lambda: server.get(f"{AT}/me", key=key).status == 401)
    shown = server.get(f"{AT}/principals/bob", key=root)
    assert shown.json["enabled"] is False
    assert server.get(f"{AT}/principals/bob/keys", key=root).json == []
    assert code(server.post(f"{AT}/principals/bob/keys", key=root)) == (422, "disabled")


def test_a_role_allows_what_it_says(server: Served, root: str) -> None:
    assert server.post(f"{AT}/roles/tagger", {"actions": ["WriteEntity"]}, key=root).status == 200
    key = made(server, root, "tag", ("tagger", "dataset:sales/*"))
    server.post("/api/v1/entities/dataset:sales/tagged", key=root)
    at = "/v3/namespaces/sales/datasets/tagged/metadata/tags"
    assert server.post(at, ["x"], key=key).status == 200
    assert code(server.get(at, key=key)) == (403, "forbidden")
    (found,) = [one for one in server.get(f"{AT}/roles", key=root).json if one["name"] == "tagger"]
    assert (found["actions"], found["constant"], found["logical_timestamp"] > 0) == (["WriteEntity"], False, True)
    assert server.delete(f"{AT}/roles/tagger", key=root).status == 200
    eventually(lambda: server.post(at, ["y"], key=key).status == 403)
    assert code(server.post(f"{AT}/roles/tagger", {"actions": ["WriteEntity"]}, key=root)) == (422, "retired")
    assert code(server.post(f"{AT}/roles/admin", {"actions": ["WriteEntity"]}, key=root)) == (422, "protected")
    unknown = server.post(f"{AT}/roles/other", {"actions": ["WriteEntities"]}, key=root)
    assert code(unknown) == (400, "unknown-action")
    assert "WriteEntity" in unknown.json["hint"]


def test_who_may_not_see_access_sees_nothing_of_it(server: Served, root: str) -> None:
    key = made(server, root, "eve", ("developer", "*"))
    for path in ("principals", "principals/root", "principals/nobody", "principals/root/keys", "roles"):
        assert code(server.get(f"{AT}/{path}", key=key)) == (403, "forbidden"), path
    for path in ("principals/eve", "principals/eve/keys"):
        assert code(server.post(f"{AT}/{path}", key=key)) == (403, "forbidden"), path
    assert code(granted(server, key, "eve", ("admin", "*"))) == (403, "forbidden")


def test_nobody_gives_more_than_they_have(server: Served, root: str) -> None:
    """Who may grant on a part gives, issues, enables and defines no more than that."""
    server.post(f"{AT}/roles/granter", {"actions": ["ReadAccess", "WriteAccess", "ReadEntity"]}, key=root)
    some = ("granter", "access-principal:*"), ("granter", "access-role:*"), ("granter", "dataset:a/*")
    key = made(server, root, "gina", *some)
    made(server, root, "strong", ("admin", "*"))
    made(server, root, "weak", ("granter", "dataset:a/*"))
    assert granted(server, key, "weak", ("granter", "dataset:a/b/*")).status == 200
    for grant in (("developer", "dataset:a/*"), ("granter", "dataset:*"), ("granter", "*"), ("admin", "dataset:a/*")):
        assert code(granted(server, key, "gina", grant)) == (403, "more-than-own"), grant
    later = (("not-yet", "dataset:a/*"), ("not-yet", "*"))
    assert [code(granted(server, key, "gina", grant)) for grant in later] == [(403, "more-than-own")] * 2
    server.journal.access.grant("weak", ("not-yet", "dataset:a/*"))
    eventually(lambda: len(server.get(f"{AT}/principals/weak", key=root).json["grants"]) == 3)
    assert code(server.post(f"{AT}/principals/weak/keys", key=key)) == (403, "more-than-own")
    assert code(server.post(f"{AT}/principals/strong/keys", key=key)) == (403, "more-than-own")
    assert server.delete(f"{AT}/principals/strong", key=root).status == 200
    assert code(server.post(f"{AT}/principals/strong", key=key)) == (403, "more-than-own")
    assert code(server.post(f"{AT}/roles/mine", {"actions": ["ReadEntity"]}, key=key)) == (403, "more-than-own")
    event = {"type": "access.RolesGranted.1", "principal": "access-principal:gina",
             "grants": [{"role": "admin", "pattern": "*"}]}  # fmt: skip
    assert code(server.post("/api/v1/events", event, key=key)) == (403, "not-over-http")
    refused = server.post("/api/v1/events", event, key=root)
    assert code(refused) == (403, "not-over-http")
    assert "/api/v1/access" in refused.json["hint"]


def test_a_role_that_is_not_defined_is_not_granted(server: Served, root: str) -> None:
    made(server, root, "una", ("analyst", "dataset:a/*"))
    for role in ("anlyst", "reader-of-all"):
        refused = granted(server, root, "una", ("developer", "*"), (role, "dataset:a/*"))
        assert code(refused) == (400, "unknown-role"), role
    assert "analyst" in granted(server, root, "una", ("anlyst", "*")).json["hint"]
    assert server.post(f"{AT}/roles/reader-of-all", {"actions": ["ReadEntity"]}, key=root).status == 200
    assert granted(server, root, "una", ("reader-of-all", "dataset:a/*")).status == 200, "as soon as it was answered"
    assert server.delete(f"{AT}/roles/reader-of-all", key=root).status == 200
    assert code(granted(server, root, "una", ("reader-of-all", "dataset:b/*"))) == (400, "unknown-role")
    assert {"role": "reader-of-all", "pattern": "dataset:a/*"} in server.get(f"{AT}/principals/una", key=root).json[
        "grants"
    ]


def test_whoever_may_not_know_which_roles_there_are_does_not_learn_it_by_granting(server: Served, root: str) -> None:
    key = made(server, root, "ivo", ("admin", "dataset:a/*"), ("admin", "access-principal:*"))
    assert server.post(f"{AT}/roles/secret-role", {"actions": ["ReadEntity"]}, key=root).status == 200
    for role in ("secret-role", "secret-rule"):
        assert granted(server, key, "ivo", (role, "dataset:a/x")).status == 200, role


def test_more_than_an_event_holds_is_refused_before_any_of_it_is_looked_at(server: Served, root: str) -> None:
    many = [{"role": "analyst", "pattern": f"*:a{number}/*"} for number in range(5_000)]
    assert code(server.post(f"{AT}/principals/gina/grants", {"grants": many}, key=root)) == (400, "too-many")
    assert code(server.post(f"{AT}/roles/many", {"actions": ["ReadEntity"] * 5_000}, key=root)) == (400, "too-many")
    after = [f"dataset.a.d{number}" for number in range(5_000)]
    refused = server.post("/v3/namespaces/a/datasets/d/lineage/next", {"after": after}, key=root)
    assert (refused.status, "not at 5,000" in refused.json["detail"]) == (400, True)


def test_a_urn_in_the_query_does_not_stand_for_another_principal(server: Served, root: str) -> None:
    """Rights to one principal, or to a dataset, are none to the one that the path names."""
    server.post(f"{AT}/roles/keeper", {"actions": ["ReadAccess", "WriteAccess", "WriteEntity", "ReadEntity"]}, key=root)
    key = made(server, root, "kim", ("keeper", "access-principal:mine"), ("keeper", "dataset:a/*"))
    made(server, root, "victim")
    [held] = server.get(f"{AT}/principals/victim/keys", key=root).json
    for urn in ("access-principal:mine", "dataset:a/victim"):
        asked = [
            server.get(f"{AT}/principals/victim/keys?urn={urn}", key=key),
            server.post(f"{AT}/principals/victim/keys?urn={urn}", key=key),
            server.delete(f"{AT}/principals/victim/keys/{held['id']}?urn={urn}", key=key),
            server.delete(f"{AT}/principals/victim?urn={urn}", key=key),
        ]
        assert [answer.status for answer in asked] == [400] * 4, urn
    assert server.get(f"{AT}/principals/victim/keys", key=root).json == [held]


def test_a_repeated_request_for_a_key_says_that_its_text_was_told_once(server: Served, root: str) -> None:
    made(server, root, "twice")
    sent = {"Idempotency_Key": id_text((time.time_ns() // 1_000_000 << 80 | 7 << 76 | 2 << 62).to_bytes(16))}
    first, again = (server.post(f"{AT}/principals/twice/keys", {"label": "l"}, key=root, **sent) for _ in range(2))
    assert (first.status, code(again)) == (201, (422, "key-reused"))
    assert "in the first answer alone" in again.json["detail"]
    assert [one["id"] for one in server.get(f"{AT}/principals/twice/keys", key=root).json][1:] == [first.json["key_id"]]


@pytest.mark.parametrize("pattern", ["", "dataset", "dataset:team-a*", "dataset:*/x", "*:a/b/*"])
def test_what_is_no_pattern_is_refused_before_it_is_sent(server: Served, root: str, pattern: str) -> None:
    assert code(granted(server, root, "root", ("analyst", pattern))) == (400, "invalid-pattern")


def test_names_that_cannot_be_are_refused(server: Served, root: str) -> None:
    for name in ("Ada", "-a", "a%2Fb", "%00", "a" * 200):
        assert code(server.post(f"{AT}/principals/{name}", key=root)) == (400, "invalid-name"), name


def test_a_key_is_told_once_and_nowhere_else(server: Served, root: str) -> None:
    server.post(f"{AT}/principals/secret", key=root)
    answer = server.post(f"{AT}/principals/secret/keys", key=root)
    text = answer.json["key"]
    server.fold()
    shown = [
        server.get(f"{AT}/principals/secret/keys", key=root), server.get(f"{AT}/principals/secret", key=root),
        server.get(f"/api/v1/events/{answer.json['event_id']}", key=root),
    ]  # fmt: skip
    secret = text.split("_")[2]
    assert all(secret.encode() not in one.body for one in shown)
    assert server.journal.access.keys("secret")[0].id == answer.json["key_id"]


def test_what_another_process_says_counts_here(server: Served, root: str) -> None:
    """The stream does not run meanwhile."""
    access = server.journal.access
    access.register("later")
    access.grant("later", ("analyst", "dataset:a/*"))
    issued = access.issue_key("later")
    server.journal.flush()
    key = key_of(server, issued.key.text)
    access.revoke_key("later", issued.key.id)
    server.journal.flush()
    eventually(lambda: server.get(f"{AT}/me", key=key).status == 401)


@pytest.mark.parametrize("label", ["session", "one-time code"])
def test_a_key_is_not_called_as_sessions_and_codes_are(server: Served, root: str, label: str) -> None:
    """It would be taken as a cookie, and would not end."""
    answer = server.post("/api/v1/access/principals/somebody/keys", {"label": label}, key=root)
    assert (answer.status, answer.json["code"]) == (400, "bad-label")
