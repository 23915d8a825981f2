"""Writes over a real server: the verdict as answer, conditions, retries, what the reader sees next.

The stream folds only where a test says so.
"""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from starlette.datastructures import Headers

from metajournal import EntityRegistered, Journal, RunStarted, dataset, run
from metajournal.consumers.followers import Follow
from metajournal.gateway.conditions import wish_of
from metajournal.gateway.following import Following
from metajournal.gateway.threads import Readers
from metajournal.schemas.errors import NotYetVisibleError
from metajournal.schemas.ids import id_text
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.gateway.serving import ADMIN, OTHER, READER, TEAM_A, Got, Served, running
from tests.wait import eventually

AT = "/api/v1/entities"
EVENTS = "/api/v1/events"
_numbers = iter(range(1_000_000))


def key(offset_ms: int = 0) -> str:
    """A UUIDv7 of now."""
    at_ms = time.time_ns() // 1_000_000 + offset_ms
    return id_text((at_ms << 80 | 7 << 76 | 2 << 62 | next(_numbers)).to_bytes(16))


def entity(name: str) -> str:
    return f"{AT}/dataset:writing/{name}"


def tags(name: str) -> str:
    return f"/v3/namespaces/writing/datasets/{name}/metadata/tags"


def code(answer: Got) -> tuple[int, Any]:
    return answer.status, answer.json.get("code")


def test_a_registration_is_read_before_the_stream_folds_it(server: Served) -> None:
    made = server.post(entity("first"), {"description": "Ours", "tags": ["x"], "schema": [["id", "int"]]})
    assert (made.status, made.json["outcome"]) == (201, "accepted")
    assert made.json["position"] == made.headers["metajournal-position"]
    assert made.json["event_id"] == made.headers["metajournal-event-id"]
    found = server.get(entity("first"))
    assert (found.status, found.headers["etag"]) == (200, made.headers["etag"])
    assert found.json["user"]["tags"] == ["x"]
    assert found.json["system"]["properties"]["description"] == "Ours"


def test_what_one_process_answered_another_one_shows(server: Served, gateway_settings: Settings) -> None:
    """Nothing is folded meanwhile."""
    with (
        Journal.connect(gateway_settings) as journal,
        running(journal, server.principals, gateway_settings) as second,
    ):
        for number in range(20):
            name = f"both-{number}"
            assert server.post(entity(name)).status == 201
            assert server.get(entity(name), address=second).status == 200
            assert server.post(tags(name), ["x"], address=second).status == 200
            assert server.get(tags(name)).json == ["x"]


def test_first_writes_to_an_aggregate_at_once_share_its_follower(server: Served, gateway_settings: Settings) -> None:
    """None of them closes one on which another waits."""

    async def at_once(journal: Journal) -> list[Follow | None]:
        following = Following(journal, Readers(4, 16))
        return await asyncio.gather(*(following.follow(dataset("writing", "race"), "default") for _ in range(4)))

    with Journal.connect(gateway_settings) as journal:
        found = asyncio.run(at_once(journal))
        assert found[0] is not None
        assert [one is found[0] for one in found] == [True] * 4
        receipt = server.journal.emit(EntityRegistered(dataset("writing", "race")))
        assert found[0].verdict(receipt.position, timeout_s=30).word == "accepted"


def test_a_process_that_has_just_begun_follows_for_more_than_can_wait_for_a_thread(
    server: Served, gateway_settings: Settings
) -> None:
    """Of many first writes one a partition begins its follower; the others wait for that without a thread."""

    async def at_once(journal: Journal) -> list[Follow | None]:
        following = Following(journal, Readers(2, 2))
        many = [following.follow(dataset("writing", f"burst-{number}"), "default") for number in range(100)]
        return await asyncio.gather(*many)

    with Journal.connect(gateway_settings) as journal:
        assert None not in asyncio.run(at_once(journal))


def test_a_deleted_entity_is_gone(server: Served) -> None:
    server.post(entity("deleted"))
    assert server.delete(entity("deleted")).status == 200
    gone = server.get(entity("deleted"))
    assert code(gone) == (404, "unknown-entity")
    assert "was deleted at" in gone.json["detail"]
    again = server.delete(entity("deleted"))
    assert (again.status, again.json["outcome"]) == (200, "unchanged")
    assert server.post(entity("deleted")).status == 201


def test_history_and_differences_never_say_that_there_is_none_of_what_was_answered(server: Served) -> None:
    """The lake lacks it: it is waited for, and where it does not come, that is said."""
    assert server.post(entity("not-folded")).status == 201
    assert code(server.get(f"/api/v1/history/{dataset('writing', 'not-folded')}")) == (503, "not-yet-visible")
    server.fold()
    for path in ("history", "diff"):
        assert server.get(f"/api/v1/{path}/{dataset('writing', 'not-folded')}").status == 200
        assert code(server.get(f"/api/v1/{path}/{dataset('writing', 'of-nobody')}")) == (404, "unknown-entity")


@pytest.mark.parametrize(
    "path",
    [
        "history/{0}?limit=0", "history/{0}?as_of=never", "history/{0}?before=x", "history/{0}?cursor=-1",
        "diff/{0}?from=never", "entities/{0}?as_at=never", "entities/{0}?as_of=never", "lineage/{0}?direction=x",
        "lineage/{0}?limit=0", "lineage/{0}?levels=0", "lineage/{0}?start=now-1y", "runs/program:a/b/flow/c?limit=0",
        "files?where=a&limit=0", "files/latest?where=a&what=b&as_at=x", "repositories?limit=0", "search?limit=x",
        "search?as_at=x", "access/principals?limit=0",
    ],
)  # fmt: skip
def test_a_question_that_says_nothing_is_refused_before_anything_is_waited_for(server: Served, path: str) -> None:
    """It would be refused then, too: 503 would have it asked again."""
    urn = dataset("writing", "not-waited-for")
    ahead = server.post(f"/api/v1/entities/{urn}").json["position"]  # nothing folds it
    answer = server.get(f"/api/v1/{path.format(urn)}", Metajournal_At_Least=ahead)
    assert answer.status == 400, answer.body


def test_a_state_that_is_asked_for_is_the_answer_or_there_is_none(server: Served) -> None:
    """If-Match of a GET; a weak tag is equal to none (RFC 9110, 13.1.1)."""
    seen = server.post(entity("matched")).headers["etag"]
    for path in (entity("matched"), tags("matched")):
        for wanted in (seen, f'"1", {seen}', "*"):
            assert server.get(path, If_Match=wanted).status == 200
        for wanted in ('"1"', f"W/{seen}", "x"):
            assert code(server.get(path, If_Match=wanted)) == (412, "stale-entity")
            assert server.ask("HEAD", path, If_Match=wanted).status == 412
    assert server.get(entity("matched"), If_Match=seen, If_None_Match=seen).status == 304
    assert server.get(entity("matched"), If_Match='"1"', If_None_Match=seen).status == 412


def test_an_edit_on_what_one_has_seen_counts_and_a_later_one_does_not(server: Served) -> None:
    seen = server.post(entity("edited")).headers["etag"]
    assert server.post(tags("edited"), ["a"], If_Match=seen).status == 200
    late = server.post(tags("edited"), ["b"], If_Match=seen)
    assert code(late) == (412, "stale-entity")
    assert server.get(tags("edited")).json == ["a"]
    now = server.get(tags("edited")).headers["etag"]
    assert server.post(tags("edited"), ["b"], If_Match=now).status == 200


def test_what_must_not_exist_yet_is_made_once(server: Served) -> None:
    assert server.post(entity("once"), If_None_Match="*").status == 201
    assert code(server.post(entity("once"), {"description": "other"}, If_None_Match="*")) == (412, "stale-entity")
    assert code(server.post(tags("once"), ["x"], If_None_Match="*")) == (400, "bad-condition")


def test_what_must_exist_is_not_made(server: Served) -> None:
    assert code(server.post(entity("absent"), If_Match="*")) == (412, "stale-entity")
    assert server.get(entity("absent")).status == 404
    assert code(server.delete(entity("absent"), If_Match="*")) == (412, "stale-entity")
    event = {"type": "EntityRegistered", "entity": "dataset:writing/absent"}
    assert code(server.post(EVENTS, event, If_Match="*")) == (412, "stale-entity")
    assert server.get(entity("absent")).status == 404
    of_another = key()
    server.post(entity("present"), Idempotency_Key=of_another)
    assert code(server.post(entity("absent"), If_Match="*", Idempotency_Key=of_another)) == (412, "stale-entity")
    assert server.post(tags("present"), ["x"], If_Match="*").status == 200
    assert server.post(entity("present"), {"description": "new"}, If_Match="*").status == 201
    own = key()
    asked = [server.post(entity("present"), {"description": "once"}, If_Match="*", Idempotency_Key=own) for _ in "12"]
    assert [one.status for one in asked] == [201, 201]
    assert (asked[1].json["outcome"], asked[1].headers["idempotency-replayed"]) == ("duplicate", "true")
    server.delete(entity("present"))
    assert code(server.post(entity("present"), If_Match="*")) == (412, "stale-entity")


def test_pages_of_a_history_go_back_also_from_where_one_began(server: Served) -> None:
    positions = [server.post(entity("long")).headers["etag"].strip('"')]
    positions += [server.post(tags("long"), [f"t{n}"]).headers["etag"].strip('"') for n in range(5)]
    server.fold()
    path, found = f"/api/v1/history/{dataset('writing', 'long')}?limit=2&before={positions[5]}", []
    while path:
        answer = server.get(path)
        found.append([str(one["logical_timestamp"]) for one in answer.json])
        link = answer.headers.get("link", "")
        path = link.partition("<")[2].partition(">")[0]
    assert found == [positions[3:5], positions[1:3], positions[:1]]


def test_a_change_that_was_answered_is_in_history_and_differences_or_is_said_to_be_missing(server: Served) -> None:
    server.post(entity("told"))
    server.post(entity("still"))
    server.fold()
    server.post(tags("told"), ["new"])
    told, still = (str(dataset("writing", name)) for name in ("told", "still"))
    for path in ("history", "diff"):
        assert code(server.get(f"/api/v1/{path}/{told}")) == (503, "not-yet-visible")
        assert server.get(f"/api/v1/{path}/{still}").status == 200
    server.fold()
    assert server.get(f"/api/v1/history/{told}").json[-1]["user"]["tags"] == ["new"]
    assert server.get(f"/api/v1/diff/{told}").json["differences"]["user"]["additions"]["tags"] == ["new"]


def test_as_at_a_time_what_is_not_there_yet_is_not_said_to_have_been_absent(server: Served) -> None:
    server.post(entity("just-now"))
    now = int(time.time() * 1000)
    path = f"{entity('just-now')}?as_at={now}"
    assert code(server.get(path)) == (503, "not-yet-visible")
    assert code(server.get(f"{entity('never-at-all')}?as_at={now}")) == (404, "unknown-entity")
    server.fold()
    assert server.get(path).status == 200


def test_earlier_states_of_what_is_not_there_yet_are_not_said_to_have_been_absent_wherever_they_are_asked_for(
    server: Served,
) -> None:
    """Where two tables are read, and of what makes a run: as of a time whose facts the lake lacks."""
    server.post(entity("system-now"))
    of = run("writing", "app", "flow", "late", "r1")
    server.journal.emit(RunStarted(of, 1_700_000_000_000))
    server.journal.flush()
    now = int(time.time() * 1000)
    namespace = "/v3/namespaces/writing"
    paths = [
        f"{namespace}/datasets/system-now/metadata/properties/system", f"/api/v1/run/{of}", f"/api/v1/accesses/{of}",
        f"{namespace}/apps/app/flows/late/runs/r1/metadata/accesses",
    ]  # fmt: skip
    with ThreadPoolExecutor(8) as waiting:  # each waits as long as one may
        asked = [f"{path}?{point}={now}" for path in paths for point in ("as_of", "as_at")]
        answers = dict(zip(asked, map(code, waiting.map(server.get, asked)), strict=True))
    assert answers == dict.fromkeys(asked, (503, "not-yet-visible"))
    absent = [path.replace("system-now", "none").replace("late", "none") for path in paths]
    for path in absent:
        assert code(server.get(f"{path}?as_of={now}")) == (404, "unknown-entity"), path
    server.fold()
    for path in paths:
        assert server.get(f"{path}?as_of={now}").status == 200, path
        assert server.get(f"{path}?as_at=1600000000000").status == 404, path


def test_lines_wait_for_their_verdicts_together(server: Served) -> None:
    """No stream publishes here: the wait is that of one line, not of thirty behind each other."""
    lines = [{"type": "EntityRegistered", "entity": f"dataset:writing/line-{number}"} for number in range(30)]
    body, began = "\n".join(map(json.dumps, lines)).encode(), time.monotonic()
    answer = server.post(
        f"{EVENTS}?outcome=true", body, Content_Type="application/x-ndjson", Prefer="respond-async, wait=1"
    )
    assert time.monotonic() - began < 10
    assert [(one["line"], one["ok"], one["outcome"]) for one in answer.json["results"]] == [
        (number, True, "pending") for number in range(1, 31)
    ]


def test_what_is_gone_since_is_told_to_who_repeats_the_request_that_ended_it(server: Served) -> None:
    server.post(entity("ended"))
    own = key()
    ended = [server.delete(entity("ended"), If_Match="*", Idempotency_Key=own) for _ in "12"]
    assert [one.status for one in ended] == [200, 200]
    assert (ended[1].headers["idempotency-replayed"], ended[1].json["original"]["outcome"]) == ("true", "accepted")
    assert code(server.delete(entity("ended"), If_Match="*", Idempotency_Key=key())) == (412, "stale-entity")


def test_an_answer_is_not_far_longer_than_the_event_that_it_refuses(server: Served) -> None:
    many: dict[str, Any] = {"type": "TagsAdded", **{str(number): 1 for number in range(100_000)}}
    refused = server.post(EVENTS, many)
    assert (refused.status, len(refused.json["faults"])) == (400, 100)
    assert len(refused.body) < 100_000
    accesses: list[dict[str, Any]] = [{} for _ in range(20_000)]
    refused = server.post(EVENTS, {"type": "AccessesRecorded", "run": "run:a/b/flow/c/d", "accesses": accesses})
    assert (refused.status, len(refused.json["faults"])) == (400, 100)
    assert len(refused.body) < 100_000
    long = server.post(EVENTS, {"type": "Tags" * 500_000})
    assert code(long) == (400, "unknown-event-type")
    assert len(long.body) < 10_000
    near = server.post(EVENTS, {"type": "TagsAdded", "entity": "dataset:a/b", "tag": ["x"]})
    assert near.json["faults"][0] == {"field": "tag", "message": "TagsAdded has no such field; did you mean tags?"}


@pytest.mark.parametrize("tag", ['"x"', '"0"', '"007"', 'W/"12"', '"' + "9" * 40 + '"'])
def test_a_tag_that_names_no_state_matches_none(server: Served, tag: str) -> None:
    server.post(entity("tagged"))
    assert code(server.post(tags("tagged"), ["x"], If_Match=tag)) == (412, "stale-entity")
    assert server.get(tags("tagged")).json == []


def test_what_its_reader_has_already_is_not_sent_again(server: Served) -> None:
    seen = server.post(entity("kept")).headers["etag"]
    again = server.get(entity("kept"), If_None_Match=f'"other", {seen}')
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", seen)
    server.post(tags("kept"), ["x"])
    assert server.get(entity("kept"), If_None_Match=seen).status == 200


@pytest.mark.parametrize("condition", ["If_None_Match", "If_Match"])
def test_the_tag_of_a_state_opens_nothing_to_whoever_may_not_read_it(server: Served, condition: str) -> None:
    """Nor to another tenant, whose entity of that name is another one."""
    name = f"stolen-{condition.lower()}"
    seen = server.post(entity(name)).headers["etag"]
    for tag in (seen, "*"):
        refused = server.get(entity(name), key=TEAM_A, **{condition: tag})
        assert (refused.status, "etag" in refused.headers) == (403, False)
        there = server.get(entity(name), key=OTHER, **{condition: tag})
        assert (there.status, "etag" in there.headers) == (404, False)
        for method, path, body in (("POST", tags(name), ["x"]), ("DELETE", entity(name), None)):
            assert server.ask(method, path, body, key=TEAM_A, If_Match=tag).status == 403
    assert server.get(entity(name)).headers["etag"] == seen


def test_an_event_is_unknown_to_whoever_may_not_read_what_it_is_of(server: Served) -> None:
    """By its id and by its position, whether the stream has folded it or not; of another tenant nobody may."""
    server.post(entity("withheld"))
    written = server.post(tags("withheld"), ["secret-tag"])
    for is_folded in (False, True):
        if is_folded:
            server.fold()
        for at in (f"{EVENTS}/{written.json['event_id']}", f"{EVENTS}/{written.json['position']}"):
            if is_folded:
                assert b"withheld" in server.get(at).body
            for whose in (TEAM_A, OTHER):
                answer = server.get(at, key=whose, Prefer="wait=0")
                assert code(answer) == (404, "unknown-event"), (at, whose, is_folded)
                assert b"withheld" not in answer.body
                assert b"secret-tag" not in answer.body


def test_who_does_not_wait_gets_the_acknowledgement_and_where_to_ask(server: Served) -> None:
    server.post(entity("async"))
    answer = server.post(tags("async"), ["x"], Prefer="respond-async")
    assert (answer.status, answer.json["outcome"]) == (202, "pending")
    assert answer.headers["location"] == f"{EVENTS}/{answer.json['event_id']}"
    server.fold()
    told = server.get(answer.headers["location"])
    assert (told.status, told.json["places"][0]["outcome"]) == (200, "accepted")
    assert server.get(f"{EVENTS}/{answer.json['position']}").json["places"] == told.json["places"]


def test_what_is_not_heard_of_in_time_is_not_said_to_hold(server: Served) -> None:
    """200 to a change of rights means that this process goes by it; the verdict alone does not make that true."""
    server.principals.knows = False
    try:
        late = server.post(entity("unheard"), Prefer="wait=4")
        assert (late.status, late.json["outcome"]) == (202, "pending")
        eventually(server.principals.awaited.pop().cancelled, what="the end of the wait")
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(server.post, entity("heard"))
            eventually(lambda: server.principals.awaited)
            assert not answer.done()
            server.principals.awaited.pop().set_result(None)
            assert answer.result(30).status == 201
    finally:
        server.principals.knows = True
    assert server.get(entity("unheard")).status == 200


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ((), 7.0),
        (("respond-async",), 0.0),
        (("respond-async, wait=3",), 3.0),
        (("wait=3, respond-async",), 3.0),
        (("return=minimal", "wait=3; x=y, wait=5"), 3.0),
        (("wait=100",), 60.0),
        (("handling=lenient", "Respond-Async"), 0.0),
    ],
)
def test_preferences_mean_the_same_in_any_order_and_lines(lines: tuple[str, ...], seconds: float) -> None:
    headers = Headers(raw=[(b"prefer", line.encode()) for line in lines])
    assert wish_of(headers, creates=False, wait_s=7.0).wait_s == seconds


def test_what_an_asker_accepts_may_stand_in_several_lines(server: Served) -> None:
    with closing(HTTPConnection(server.address)) as connection:
        connection.putrequest("GET", f"{EVENTS.removesuffix('/events')}/search")
        for name, value in (("Authorization", f"Bearer {ADMIN}"), ("Accept", "text/html"), ("Accept", "*/*")):
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status != 406


@pytest.mark.parametrize("wait", ["-1", "x", "1.5"])
def test_a_wait_that_is_no_number_is_refused(server: Served, wait: str) -> None:
    assert code(server.post(entity("waited"), Prefer=f"wait={wait}")) == (400, "bad-preference")


# Retries


def test_a_request_that_is_sent_again_counts_once_and_gets_the_first_answer(server: Served) -> None:
    server.post(entity("retried"))
    own = key()
    first = server.post(tags("retried"), ["x"], Idempotency_Key=own)
    server.delete(f"{tags('retried')}/x")
    again = server.post(tags("retried"), ["x"], Idempotency_Key=own)
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.json["position"] == first.json["position"]
    assert again.headers["metajournal-position"] == first.headers["metajournal-position"] == first.json["position"]
    assert again.headers["etag"] == first.headers["etag"]
    assert server.get(tags("retried")).json == []


def test_a_refused_request_is_refused_again_in_the_same_way(server: Served) -> None:
    own = key()
    first = server.post(tags("never"), ["x"], Idempotency_Key=own)
    server.post(entity("never"))
    again = server.post(tags("never"), ["x"], Idempotency_Key=own)
    assert code(first) == code(again) == (404, "unknown-entity")
    assert server.get(tags("never")).json == []


def test_a_key_belongs_to_one_request(server: Served) -> None:
    """Of another body or condition nothing of the first is told; another entity's request is another one."""
    seen = server.post(entity("key")).headers["etag"]
    server.post(entity("key2"))
    own = key()
    assert server.post(tags("key"), ["x"], Idempotency_Key=own).status == 200
    others = [
        server.post(tags("key"), ["y"], Idempotency_Key=own),
        server.delete(f"{tags('key')}/x", Idempotency_Key=own),
        server.post(tags("key"), ["x"], Idempotency_Key=own, If_Match=seen),
    ]
    assert [code(one) for one in others] == [(422, "key-reused")] * 3
    assert not any(b"position" in one.body for one in others)
    assert server.get(tags("key")).json == ["x"]
    elsewhere = server.post(tags("key2"), ["x"], Idempotency_Key=own)  # a request of its own: keys are of one entity
    assert (elsewhere.status, elsewhere.json["outcome"]) == (200, "accepted")
    assert "idempotency-replayed" not in elsewhere.headers
    assert server.get(tags("key2")).json == ["x"]


def test_another_principal_with_the_same_key_learns_nothing(server: Served) -> None:
    at = "/v3/namespaces/team-a/datasets/shared/metadata/tags"
    server.post(f"{AT}/dataset:team-a/shared")
    own = key()
    assert server.post(at, ["x"], Idempotency_Key=own).status == 200
    other = server.post(at, ["x"], key=TEAM_A, Idempotency_Key=own)
    assert code(other) == (422, "key-reused")
    assert server.post(at, ["x"], key=OTHER, Idempotency_Key=own).status == 404


@pytest.mark.parametrize(
    "text", ["", "x", "01890000-0000-4000-8000-000000000000", "00000000-0000-7000-8000-000000000000"]
)
def test_a_key_that_is_none_is_refused_with_one_that_would_do(server: Served, text: str) -> None:
    name = f"none-{next(_numbers)}"
    answer = server.post(entity(name), Idempotency_Key=text)
    assert code(answer) == (400, "bad-idempotency-key")
    given = answer.json["hint"].split(" as ")[1].split(",")[0]
    assert server.post(entity(name), Idempotency_Key=given).status == 201


def test_a_registration_that_is_sent_again_has_the_time_of_its_key(server: Served) -> None:
    own = key(-60_000)
    first = server.post(entity("timed"), Idempotency_Key=own)
    again = server.post(entity("timed"), Idempotency_Key=own)
    assert (first.status, again.status) == (201, 201)
    assert again.headers["idempotency-replayed"] == "true"


# Events


@pytest.mark.parametrize("query", ["", "?unit"])
@pytest.mark.parametrize("header", ["If_Match", "Idempotency_Key"])
def test_conditions_and_keys_of_one_event_are_refused_for_several(server: Served, query: str, header: str) -> None:
    lines = "\n".join(json.dumps({"type": "EntityRegistered", "entity": f"dataset:writing/cond{n}"}) for n in range(2))
    asked: dict[str, str] = {header: key() if header == "Idempotency_Key" else '"1"'}
    answer = server.post(f"{EVENTS}{query}", lines.encode(), Content_Type="application/x-ndjson", **asked)
    assert code(answer) == (400, "bad-condition")
    assert server.get(entity("cond0")).status == 404


def test_a_line_that_is_no_text_does_not_stop_the_others(server: Served) -> None:
    lines = b'{"type":"TagsAdded","\\ud800":1}\n{"type":"EntityRegistered","entity":"dataset:writing/beside"}'
    answer = server.post(EVENTS, lines, Content_Type="application/x-ndjson")
    assert [one["ok"] for one in answer.json["results"]] == [False, True]


def test_an_event_alone_is_answered_by_its_verdict(server: Served) -> None:
    event = {"type": "EntityRegistered", "entity": "dataset:writing/event"}
    answer = server.post(EVENTS, event)
    assert (answer.status, answer.json["outcome"]) == (200, "accepted")
    assert server.get(entity("event")).status == 200


def test_lines_are_answered_one_by_one(server: Served) -> None:
    lines = [
        {"type": "EntityRegistered", "entity": "dataset:writing/line"},
        {"type": "TagsAdded", "entity": "dataset:writing/line", "tags": ["x"]},
        {"type": "TagsAdded", "entity": "dataset:writing/absent", "tags": ["x"]},
        {"type": "TagsAdded", "entity": "dataset:writing/line", "tags": []},
        {"type": "Nothing"},
        {"type": "TagsAdded", "entity": "dataset:writing/line", "tags": ["y"], "actor": "somebody"},
    ]
    body = "\n".join([json.dumps(one) for one in lines] + ["{", ""]).encode()
    server.fold()
    answer = server.post(f"{EVENTS}?outcome=false", body, Content_Type="application/x-ndjson")
    assert answer.status == 200
    results = answer.json["results"]
    assert [(one["line"], one["ok"]) for one in results] == [
        (1, True), (2, True), (3, True), (4, False), (5, False), (6, False), (7, False),
    ]  # fmt: skip
    assert answer.json["ok"] is False
    assert server.get(tags("line")).json == ["x"]


def test_a_unit_is_there_or_not(server: Served) -> None:
    def unit(*names: str) -> bytes:
        return "\n".join(
            json.dumps({"type": "EntityRegistered", "entity": f"dataset:writing/{name}"}) for name in names
        ).encode()

    answer = server.post(f"{EVENTS}?unit", unit("u1", "u2"), Content_Type="application/x-ndjson")
    assert (answer.status, len(answer.json["events"])) == (200, 2)
    assert server.get(entity("u2")).status == 200
    refused = server.post(f"{EVENTS}?unit", unit("u3", "a/b/c"), Content_Type="application/x-ndjson")
    assert refused.status == 400
    assert server.get(entity("u3")).status == 404


def test_whether_it_is_a_unit_is_true_or_false(server: Served) -> None:
    lines = b"\n".join(
        json.dumps({"type": "EntityRegistered", "entity": f"dataset:writing/{name}"}).encode()
        for name in ("u4", "a/b/c")
    )

    def asked(value: str) -> Got:
        return server.post(f"{EVENTS}?unit={value}", lines, Content_Type="application/x-ndjson")

    for value in ("1", "no", "TRUE"):
        assert (asked(value).status, asked(value).json["code"]) == (400, "bad-input")
    assert asked("true").status == 400
    assert server.get(entity("u4")).status == 404
    assert [one["ok"] for one in asked("false").json["results"]] == [True, False]
    assert server.get(entity("u4")).status == 200


def test_a_unit_that_is_committed_is_not_answered_as_one_to_send_again(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(self: Following, position: Position, wait_s: float) -> None:
        raise NotYetVisibleError(1, "Kafka does not show it yet.")

    monkeypatch.setattr(Following, "shown", late)
    lines = "\n".join(
        json.dumps({"type": "EntityRegistered", "entity": f"dataset:writing/{name}"}) for name in ("late1", "late2")
    )
    answer = server.post(f"{EVENTS}?unit", lines.encode(), Content_Type="application/x-ndjson")
    assert (answer.status, answer.json["ok"], answer.json["outcome"]) == (202, True, "pending")
    assert [one["entity"] for one in answer.json["events"]] == ["dataset:writing/late1", "dataset:writing/late2"]
    for one in answer.json["events"]:
        told = server.get(f"/api/v1/events/{one['event_id']}")
        assert [place["position"] for place in told.json["places"]] == [one["position"]]


def test_who_may_not_sends_nothing(server: Served) -> None:
    event = {"type": "EntityRegistered", "entity": "dataset:team-ab/x"}
    assert code(server.post(EVENTS, event, key=TEAM_A)) == (403, "forbidden")
    assert code(server.post(EVENTS, event, key=READER)) == (403, "forbidden")
    line = json.dumps(event).encode()
    answer = server.post(EVENTS, line, key=TEAM_A, Content_Type="application/x-ndjson")
    assert answer.json["results"][0]["error"]["code"] == "forbidden"
    assert code(server.post(f"{EVENTS}?unit", line, key=TEAM_A, Content_Type="application/x-ndjson"))[0] == 403
    system = {"type": "TagsAdded", "entity": "dataset:team-a/x", "tags": ["x"], "scope": "SYSTEM"}
    assert code(server.post(EVENTS, system, key=TEAM_A)) == (403, "forbidden")
    assert server.get(f"{AT}/dataset:team-ab/x").status == 404


# Names


@pytest.mark.parametrize(
    "name",
    ["a/b", "\0", "100%", "%2F", "..", ".", "?", "#", "\u202eabc", "a b", "ü", ";v=1", "x" * 1_010, "+", "&=", "%25"],
    ids=lambda name: name[:20],
)
def test_any_name_goes_through_every_path(server: Served, name: str) -> None:
    """The longest makes a URN of 1,024 bytes."""
    from urllib.parse import quote

    from metajournal import dataset

    part, urn = quote(name, safe=""), str(dataset("names", name))
    assert server.post(f"{AT}/dataset:names/{part}").status == 201
    at = f"/v3/namespaces/names/datasets/{part}/metadata"
    assert server.post(f"{at}/tags", [name]).status == 200
    assert server.post(f"{at}/properties", {name: name}).status == 200
    assert server.get(f"{AT}/dataset:names/{part}").json["urn"] == urn
    assert server.get(f"{AT}?urn={quote(urn, safe='')}").json["urn"] == urn
    assert server.get(at).json == {"properties": {name: name}, "tags": [name]}
    assert server.delete(f"{at}/tags/{part}").status == 200
    assert server.delete(f"{at}/properties/{part}").status == 200
    assert server.get(at).json == {"properties": {}, "tags": []}


def test_a_name_that_cannot_be_is_refused(server: Served) -> None:
    for part in ("%ff", "", "x" * 2000):
        answer = server.post(f"{AT}/dataset:names/{part}")
        assert answer.status in (400, 404), part


def placed(position: str, more: int) -> str:
    """A position so many behind another one."""
    place, _, value = position.rpartition("/")
    return f"{place}/{int(value) + more}"


def test_a_position_beyond_the_journals_end_is_refused_at_once(server: Served) -> None:
    made = server.post(entity("end"))
    beyond = placed(made.json["position"], 1_000_000)
    urn, query = "dataset:writing/end", quote(beyond, safe="")
    asked = [
        server.get(path, Metajournal_At_Least=token)
        for path in (entity("end"), f"/api/v1/history/{urn}", "/api/v1/search?query=x", "/api/v1/repositories")
        for token in (beyond, f"{made.json['position']},{beyond}")
    ]
    asked += [
        server.get(path)
        for path in (
            f"{entity('end')}?as_at={query}", f"/api/v1/diff/{urn}?from={query}", f"{tags('end')}?as_at={query}",
            f"/api/v1/search?query=x&as_at={query}", f"/api/v1/lineage/{urn}?start=0&end=now&as_at={query}",
        )
    ]  # fmt: skip
    began = time.monotonic()
    assert [code(answer) for answer in asked] == [(400, "position-beyond-end")] * len(asked)
    assert time.monotonic() - began < 10
    assert "its last position there is" in asked[0].json["detail"]


def test_an_earlier_state_of_what_was_just_answered_comes_as_soon_as_the_lake_holds_it(server: Served) -> None:
    made = server.post(entity("just"), {"tags": ["first"]})
    server.post(tags("just"), ["second"])
    point = quote(made.json["position"], safe="")
    with ThreadPoolExecutor(2) as pool:
        state = pool.submit(server.get, f"{entity('just')}?as_at={point}")
        diff = pool.submit(server.get, f"/api/v1/diff/dataset:writing/just?from={point}")
        assert not wait({state, diff}, 0.5).done, "they wait as for a token"
        server.fold()
        assert (state.result(30).status, state.result().json["user"]["tags"]) == (200, ["first"])
        assert diff.result(30).json["differences"]["user"]["additions"]["tags"] == ["second"]


def test_what_was_acknowledged_behind_an_open_unit_is_not_beyond_the_end(
    server: Served, gateway_settings: Settings
) -> None:
    """Readers are not shown it before the unit ends, and its sender has its position."""
    before = server.journal.emit(EntityRegistered(dataset("writing", "behind"))).position
    open_unit = Producer({**gateway_settings.kafka, "transactional.id": f"{before.topic}-open"})
    open_unit.init_transactions(30)
    open_unit.begin_transaction()
    open_unit.produce(before.topic, b"x", partition=before.partition)
    open_unit.flush(30)
    behind = server.journal.emit(EntityRegistered(dataset("writing", "behind"), tags=["x"])).position
    try:
        path = "/api/v1/lineage/dataset:writing/behind?start=0&end=now"
        answer = server.get(path, Metajournal_At_Least=str(behind))
        assert code(answer) == (503, "not-yet-visible")
    finally:
        open_unit.abort_transaction(30)
