"""A request that is sent again with its Idempotency-Key, at every address that writes: it counts once.

The body of each row is written here by hand, and that of another request about the same entity. A row that none of
these lists names fails. Keys are of a minute ago, as those of a client that has waited: what has a time of its own has
that of its key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pytest

from metajournal import EntityRegistered, app, dataset, program, stream
from metajournal.consumers.finding import value_at
from metajournal.domains.access.events import KeyIssued, PrincipalRegistered, RoleDefined, RolesGranted
from metajournal.domains.access.urns import key_urn, principal_urn, role_urn
from metajournal.domains.catalog.naming import data
from metajournal.gateway.routing import Router, path_parts
from metajournal.gateway.table import Table
from metajournal.lake.tables import Lake
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.encoding.codec import decode
from metajournal.schemas.ids import id_bytes
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.schemas.times import time_ms
from tests.gateway.browsing import member
from tests.gateway.openlineage_client import event as run_event
from tests.gateway.serving import Got, Served, served
from tests.gateway.test_writing import key
from tests.wait import eventually

pytestmark = pytest.mark.services
SPACE: Final = "retries"
ACCESS: Final = "/api/v1/access"
EVENTS: Final = "/api/v1/events"
AGO_MS: Final = 60_000


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    body: Any = None


class Write(NamedTuple):
    """A request that makes an event.

    Args:
        name: of the row or, where one row takes many events, of the event.
        asked: the request.
        other: another request, about the same aggregate.
        status: of its answer.
    """

    name: str
    asked: Asked
    other: Asked
    status: int = 200


FORMS: Final = ("datasets/{}", "apps/{}", "apps/{}/flow/f", "streams/{}")
_METADATA: Final = (
    (Asked("POST", "/properties", {"a": "2"}), Asked("POST", "/properties", {"a": "3"})),
    (Asked("POST", "/tags", ["y"]), Asked("POST", "/tags", ["z"])),
    (Asked("DELETE", "/properties"), Asked("DELETE", "/properties/a")),
    (Asked("DELETE", "/properties/a"), Asked("DELETE", "/properties/b")),
    (Asked("DELETE", "/tags"), Asked("DELETE", "/tags/x")),
    (Asked("DELETE", "/tags/x"), Asked("DELETE", "/tags/y")),
    (Asked("DELETE", ""), Asked("DELETE", "/tags")),
)
"""Requests below the metadata of an entity that has the properties a and b and the tag x."""


def _metadata() -> Iterator[Write]:
    for form in FORMS:
        for number, (asked, other) in enumerate(_METADATA):
            at = f"/v3/namespaces/{SPACE}/{form.format(f'e{number}')}/metadata"
            first = asked._replace(path=at + asked.path)
            yield Write(f"{first.method} {first.path}", first, other._replace(path=at + other.path))


def _write(method: str, path: str, body: Any, other: Asked, status: int = 200) -> Write:
    return Write(f"{method} {path}", Asked(method, path, body), other, status)


def _grants(role: str) -> dict[str, Any]:
    return {"grants": [{"role": role, "pattern": "*"}]}


def _access(name: str, data: str = "d") -> dict[str, Any]:
    return {
        "programRun": {"namespace": SPACE, "app": "p", "programType": "FLOW", "name": "f", "runId": name},
        "data": {"namespace": SPACE, "type": "DATASET", "name": data}, "accessType": "READ",
    }  # fmt: skip


_KEY, _NO_KEY = "0" * 24, "1" * 24
_OF: Final = f"{ACCESS}/principals"
_STREAMS: Final = f"/v3/namespaces/{SPACE}/streams"
_RUN: Final = f"run:{SPACE}/p/flow/f"
_NEW, _GONE = f"/api/v1/entities/dataset:{SPACE}/new", f"/api/v1/entities/dataset:{SPACE}/gone"
WRITES: Final = (
    *_metadata(),
    _write("POST", _NEW, {"description": "one"}, Asked("POST", _NEW, {"description": "another"}), 201),
    _write("DELETE", _GONE, None, Asked("POST", _GONE)),
    _write("POST", "/v3/metadata/history", _access("r"), Asked("POST", "/v3/metadata/history", _access("r", "other"))),
    _write("POST", f"{_STREAMS}/w?source=x", None, Asked("POST", f"{_STREAMS}/w?source=y")),
    _write("POST", f"{_STREAMS}/b/batch?source=x", None, Asked("POST", f"{_STREAMS}/b/batch?source=y")),
    _write("POST", f"{_OF}/new", None, Asked("POST", f"{_OF}/new/grants", _grants("analyst")), 201),
    _write("DELETE", f"{_OF}/disabled", None, Asked("DELETE", f"{_OF}/disabled/grants")),
    _write("POST", f"{_OF}/granted/grants", _grants("analyst"), Asked("DELETE", f"{_OF}/granted/grants")),
    _write("DELETE", f"{_OF}/robbed/grants", None, Asked("DELETE", f"{_OF}/robbed")),
    _write(
        "DELETE", f"{_OF}/less/grants/analyst/*", None, Asked("DELETE", f"{_OF}/less/grants/analyst/dataset:*"),
    ),
    _write("DELETE", f"{_OF}/keyed/keys/{_KEY}", None, Asked("DELETE", f"{_OF}/keyed/keys/{_NO_KEY}")),
    _write("POST", f"{ACCESS}/roles/made", {"actions": ["ReadEntity"]},
           Asked("POST", f"{ACCESS}/roles/made", {"actions": ["WriteEntity"]})),
    _write("DELETE", f"{ACCESS}/roles/ended", None,
           Asked("POST", f"{ACCESS}/roles/ended", {"actions": ["ReadEntity"]})),
)  # fmt: skip
"""Requests whose answer waits for the verdict."""


def _event(kind: str, other: Mapping[str, Any], **fields: Any) -> Write:
    return Write(
        kind, Asked("POST", EVENTS, {"type": kind, **fields}), Asked("POST", EVENTS, {"type": kind, **fields, **other})
    )


def _file(digit: str) -> dict[str, Any]:
    metadata = {
        "start": 1_700_000_000_000,
        "where": SPACE,
        "what": "w",
        "data-version": "0",
        "id": "f",
        "hash": digit * 32,
    }
    return {"files": [{"url": "s3://a/1", "metadata": metadata}]}


def _objects(checksum: str) -> dict[str, Any]:
    return {"entries": [{"path": "a.csv", "size": 3, "checksum": checksum, "address": "s3://b/a"}]}


_AT_MS: Final = 1_700_000_000_000
_REPO, _MAIN = f"repo:{SPACE}", f"branch:{SPACE}/main"
EVENT_WRITES: Final = (
    _event("EntityRegistered", {"description": "two"}, entity=f"dataset:{SPACE}/v-new", description="one"),
    _event("PropertiesSet", {"properties": {"a": "3"}}, entity=f"dataset:{SPACE}/v-set", properties={"a": "2"}),
    _event("PropertiesRemoved", {"keys": ["b"]}, entity=f"dataset:{SPACE}/v-removed", keys=["a"]),
    _event("PropertiesReplaced", {"properties": {}}, entity=f"dataset:{SPACE}/v-replaced", properties={"c": "1"}),
    _event("TagsAdded", {"tags": ["z"]}, entity=f"dataset:{SPACE}/v-added", tags=["y"]),
    _event("TagsRemoved", {"tags": ["y"]}, entity=f"dataset:{SPACE}/v-untagged", tags=["x"]),
    _event("MetadataCleared", {"scope": "SYSTEM"}, entity=f"dataset:{SPACE}/v-cleared", scope="USER"),
    _event("EntityDeleted", {"type": "TagsAdded", "tags": ["y"]}, entity=f"dataset:{SPACE}/v-deleted"),
    _event("RunStarted", {"at": _AT_MS + 1}, run=f"{_RUN}/started", at=_AT_MS),
    _event("RunStopped", {"status": "FAILED"}, run=f"{_RUN}/stopped", at=_AT_MS, status="COMPLETED"),
    _event("AccessesRecorded", {"accesses": [{"data": f"dataset:{SPACE}/d", "access": "write", "at": _AT_MS}]},
           run=f"{_RUN}/accessed", accesses=[{"data": f"dataset:{SPACE}/d", "access": "read", "at": _AT_MS}]),
    _event("ExternalWrite", {"source": "y"}, stream=f"stream:{SPACE}/v", source="x", at=_AT_MS),
    _event("FilesRecorded", _file("b"), **_file("a")),
    _event("RepositoryCreated", {"storage_namespace": "s3://c"}, repository=_REPO, default_branch="main",
           storage_namespace="s3://b"),
    _event("ObjectsWritten", _objects("c2"), branch=_MAIN, **_objects("c1")),
    _event("Committed", {"message": "n"}, branch=_MAIN, message="m"),
    _event("ObjectsDeleted", {"paths": ["b.csv"]}, branch=_MAIN, paths=["a.csv"]),
    _event("BranchReset", {"path": "a.csv"}, branch=_MAIN),
    _event("BranchCreated", {"branch": f"branch:{SPACE}/other"}, branch=f"branch:{SPACE}/trial"),
    _event("BranchDeleted", {"branch": f"branch:{SPACE}/other"}, branch=f"branch:{SPACE}/trial"),
    _event("ObjectsRegistered", {"paths": ["b.csv"]}, repository=_REPO, paths=["a.csv"]),
    _event("ObjectsUnregistered", {"paths": ["b.csv"]}, repository=_REPO, paths=["a.csv"]),
    _event("RepositoryDeleted", {"type": "ObjectsRegistered", "paths": ["b.csv"]}, repository=_REPO),
)  # fmt: skip
"""Events of bodies, in the order in which each finds what it is about."""
UNAWAITED: Final = Write(
    "without waiting", Asked("POST", f"{_STREAMS}/a/async?source=x"), Asked("POST", f"{_STREAMS}/a/async?source=y"), 202
)
ISSUED: Final = Write(
    "a key", Asked("POST", f"{_OF}/holder/keys", {"label": "one"}),
    Asked("POST", f"{_OF}/holder/keys", {"label": "another"}), 201,
)  # fmt: skip
"""What is told once cannot be told again."""
READING: Final = {
    "POST /v3/namespaces/{ns}/datasets/{d}/lineage/next", "POST /v3/namespaces/{ns}/streams/{s}/lineage/next",
}  # fmt: skip
"""Rows that write nothing."""
ALONE: Final = (*WRITES, UNAWAITED, ISSUED)
"""Requests of which each is about something else, so that they may be sent at once."""
_AT_ONCE: Final = 8
SENDING: Final = {"POST /api/v1/lineage": run_event(), "POST /api/v1/lineage/batch": [run_event(hour=13)]}
"""Rows whose senders know no keys: each event is one by what it says."""


class Sent(NamedTuple):
    """The answers to a request, to the same one somewhat later, and to others with the same key.

    Args:
        at_ms: the time of its key.
        other: of another request.
        others: to the same one of somebody else.
        conditional: to the same one under a condition that it had not.
        judged: what the journal table has under that key, in its order.
    """

    at_ms: int
    first: Got
    again: Got
    other: Got
    others: Got
    conditional: Got
    judged: Sequence[Mapping[str, Any]]


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A server with what the requests are about."""
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        _begin(running)
        yield running


def _begin(server: Served) -> None:
    names = [f"e{number}" for number in range(len(_METADATA))]
    entities = [make(SPACE, name) for make in (dataset, app, stream) for name in names]
    entities += [program(SPACE, name, "flow", "f") for name in names]
    entities += [
        dataset(SPACE, name) for name in
        ("gone", "v-set", "v-removed", "v-replaced", "v-added", "v-untagged", "v-cleared", "v-deleted")
    ]  # fmt: skip
    for entity in entities:
        server.journal.emit(EntityRegistered(entity, properties={"a": "1", "b": "1"}, tags=["x"]))
    for name in ("disabled", "granted", "robbed", "less", "keyed", "holder"):
        server.journal.emit(PrincipalRegistered(principal_urn(name)))
    for name in ("robbed", "less"):
        server.journal.emit(RolesGranted(principal_urn(name), [("analyst", "*")]))
    server.journal.emit(KeyIssued(key_urn("keyed", _KEY), "0" * 64, None, "a key"))
    server.journal.emit(RoleDefined(role_urn("ended"), ["ReadEntity"]))
    server.journal.flush()


@pytest.fixture(scope="module")
def root(server: Served) -> str:
    """The key of somebody who may do everything."""
    found = member(server.journal, "root", ("admin", "*"))
    eventually(lambda: server.get(f"{ACCESS}/me", key=found).status == 200)
    return found


@pytest.fixture(scope="module")
def second(server: Served, root: str) -> str:
    """The key of somebody else who may do everything."""
    found = member(server.journal, "second", ("admin", "*"))
    eventually(lambda: server.get(f"{ACCESS}/me", key=found).status == 200)
    return found


@pytest.fixture(scope="module")
def sent(server: Served, root: str, second: str) -> Mapping[str, Sent]:
    """What was answered to all of them: each is sent again when all were sent and folded."""
    own = {write.name: key(-AGO_MS) for write in (*ALONE, *EVENT_WRITES)}

    def ask(write: Write, asked: Asked, whose: str = root, **headers: str) -> Got:
        return server.ask(asked.method, asked.path, asked.body, key=whose, Idempotency_Key=own[write.name], **headers)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        first = {write.name: pool.submit(ask, write, write.asked) for write in ALONE}
        told = {write.name: ask(write, write.asked) for write in EVENT_WRITES}
        told |= {name: one.result() for name, one in first.items()}
        server.fold()  # so the first ones are read of the lake, and not one by one of the topics
        every = {name: pool.submit(ask, write, write.asked) for name, write in _named().items()}
        again = {name: one.result() for name, one in every.items()}
        every = {name: pool.submit(ask, write, write.other) for name, write in _named().items()}
        other = {name: one.result() for name, one in every.items()}
        every = {name: pool.submit(ask, write, write.asked, second) for name, write in _named().items()}
        others = {name: one.result() for name, one in every.items()}
        every = {name: pool.submit(ask, write, write.asked, If_Match='"1"') for name, write in _named().items()}
        conditional = {name: one.result() for name, one in every.items()}
    server.fold()
    judged = by_event(server)
    return {
        name: Sent(
            int.from_bytes(id_bytes(one)[:6]), told[name], again[name], other[name], others[name], conditional[name],
            judged[one],
        )
        for name, one in own.items()
    }  # fmt: skip


def _named() -> Mapping[str, Write]:
    return {write.name: write for write in (*ALONE, *EVENT_WRITES)}


def by_event(server: Served) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The rows of the journal table by the id of their event, in the order of the journal."""
    columns = "event_id, topic, journal_partition, logical_timestamp, outcome, duplicate_of, event_time"
    rows = Lake(server.journal.settings.lake.path).journal.query(columns, "true")
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: int(row["logical_timestamp"])):
        found.setdefault(row["event_id"], []).append(row)
    return found


def test_every_row_that_is_no_question_is_in_one_of_these_lists(server: Served) -> None:
    rows = Table(server.journal.epochs.domains).endpoints
    router = Router(rows)

    def row_of(write: Write) -> str:
        route = router.find(path_parts(write.asked.path.partition("?")[0].encode()))
        return route.by_method[write.asked.method][0].name

    kept = {row_of(write) for write in (*WRITES, *EVENT_WRITES, UNAWAITED, ISSUED)}
    assert {row.name for row in rows if row.method != "GET"} == kept | READING | SENDING.keys()
    assert {row.name for row in rows if row.event is not None or row.lines} == kept
    assert {row.name for row in rows if row.sends is not None} == SENDING.keys()


@pytest.mark.parametrize("write", [*WRITES, *EVENT_WRITES], ids=lambda write: write.name)
def test_a_request_that_is_sent_again_has_the_first_answer_and_another_one_with_its_key_has_none(
    sent: Mapping[str, Sent], write: Write
) -> None:
    _, first, again, *_ = sent[write.name]
    assert (first.status, first.json["outcome"]) == (write.status, "accepted"), first.body
    assert "idempotency-replayed" not in first.headers
    assert (again.status, again.json["outcome"]) == (write.status, "duplicate"), again.body
    assert again.json["original"]["outcome"] == "accepted"
    assert again.headers["idempotency-replayed"] == "true"
    assert [again.json[name] for name in ("event_id", "position")] == [
        first.json[name] for name in ("event_id", "position")
    ]
    for name in ("metajournal-event-id", "metajournal-position", "etag"):
        assert again.headers.get(name) == first.headers.get(name), name
    assert_tells_nothing(sent[write.name])
    assert_counts_once(sent[write.name])


def assert_tells_nothing(sent: Sent) -> None:
    """Whoever sends another request with a key, or is somebody else, is refused; conditions are of one entity alone."""
    refused = [sent.other, sent.others]
    if sent.conditional.json["code"] == "bad-condition":
        assert sent.conditional.status == 400
    else:
        refused.append(sent.conditional)
    for answer in refused:
        assert (answer.status, answer.json["code"]) == (422, "key-reused"), answer.body
        assert not any(text in answer.body for text in (b'"position"', sent.first.json["position"].encode()))


def assert_counts_once(sent: Sent) -> None:
    """One event counts under a request's key, as of its time; all others are duplicates of it."""
    accepted, *others = sent.judged
    assert accepted["outcome"] == "accepted"
    assert (
        f"{accepted['topic']}/{accepted['journal_partition']}/{accepted['logical_timestamp']}"
        == (sent.first.json["position"])
    )
    assert time_ms(accepted["event_time"]) == sent.at_ms
    in_journal = 4 if "position" in sent.conditional.json or sent.conditional.status == 422 else 3
    assert [(one["outcome"], one["duplicate_of"]) for one in others] == [
        ("duplicate", accepted["logical_timestamp"])
    ] * in_journal


def test_a_condition_makes_another_request_of_each_that_is_about_one_entity(sent: Mapping[str, Sent]) -> None:
    refused = [sent[write.name].conditional for write in _metadata()]
    assert [(one.status, one.json["code"]) for one in refused] == [(422, "key-reused")] * len(FORMS) * len(_METADATA)


@pytest.mark.parametrize("path", ["/v3/metadata/history", f"{_STREAMS}/w?source=x", f"{_STREAMS}/b/batch?source=x"])
def test_what_has_a_time_of_its_own_has_that_of_its_key(server: Served, sent: Mapping[str, Sent], path: str) -> None:
    at_ms, first, again, *_ = sent[f"POST {path}"]
    assert again.json["position"] == first.json["position"]
    value = value_at(server.journal.settings, Position.parse(first.json["position"]), timeout_s=30)
    assert value is not None
    event: Any = decode(value).event
    assert (event.accesses[0].at if hasattr(event, "accesses") else event.at) == at_ms


def test_what_is_not_waited_for_counts_once_too(server: Served, sent: Mapping[str, Sent]) -> None:
    """Nobody knows yet what becomes of it when it is answered, so each is told where it stands itself."""
    told = sent[UNAWAITED.name]
    answers = (told.first, told.again, told.other, told.others)
    assert [(one.status, one.json["outcome"]) for one in answers] == [(202, "pending")] * 4
    assert {one.json["event_id"] for one in answers} == {told.first.json["event_id"]}
    assert_counts_once(told)
    assert server.journal.why(told.again.json["position"]).steps[0].outcome == "duplicate"


def test_a_key_is_issued_once_and_told_once(server: Served, root: str, sent: Mapping[str, Sent]) -> None:
    _, first, again, other, others, *_ = sent[ISSUED.name]
    assert first.status == 201
    assert [(one.status, one.json["code"]) for one in (again, other, others)] == [(422, "key-reused")] * 3
    assert not any(b"mjk_" in one.body or b'"position"' in one.body for one in (again, other, others))
    assert_counts_once(sent[ISSUED.name])
    listed = server.get(f"{_OF}/holder/keys", key=root).json
    assert [(one["id"], one["label"]) for one in listed] == [(first.json["key_id"], "one")]


def test_a_key_that_is_asked_for_again_without_waiting_is_not_told_one_that_opens_nothing(
    server: Served, root: str
) -> None:
    own, at = key(), f"{_OF}/holder/keys"
    assert server.post(at, {"label": "first"}, key=root, Idempotency_Key=own).status == 201
    again = server.post(at, {"label": "first"}, key=root, Idempotency_Key=own, Prefer="respond-async")
    assert (again.status, again.json["code"], b"mjk_" in again.body) == (422, "key-reused", False)


def test_of_two_equal_requests_for_a_key_at_once_one_is_told_it(server: Served, root: str) -> None:
    """Also where neither would wait: each has a secret of its own, and one of the two is nobody's."""
    at = f"{_OF}/holder/keys"

    def asked(own: str, prefer: str) -> Got:
        return server.post(at, {"label": "twice"}, key=root, Idempotency_Key=own, Prefer=prefer)

    with ThreadPoolExecutor(2) as pool:
        for prefer in ("respond-async", "wait=20") * 4:
            answers = [*pool.map(asked, [key()] * 2, [prefer] * 2)]
            told = [one for one in answers if b"mjk_" in one.body]
            assert sorted(one.status for one in answers) == [201, 422], [one.body for one in answers]
            assert server.get("/api/v1/access/me", key=told[0].json["key"]).status == 200


def test_a_key_that_was_refused_is_refused_again_in_the_same_way(server: Served, root: str) -> None:
    own, at = key(), f"{_OF}/stranger/keys"
    answers = [server.post(at, {"label": "none"}, key=root, Idempotency_Key=own) for _ in range(2)]
    assert answers[0].status in (404, 409, 422), answers[0].body
    assert answers[0].json["code"] != "key-reused"
    assert [(one.status, one.json["code"]) for one in answers] == [(answers[0].status, answers[0].json["code"])] * 2


def test_a_key_without_rights_is_refused_before_its_body_is_read(server: Served) -> None:
    key = member(server.journal, "nothing-granted")
    eventually(lambda: server.get("/api/v1/access/me", key=key).status == 200)
    for path in ("/api/v1/lineage", "/api/v1/lineage/batch", "/api/v1/events"):
        answer = server.post(path, b"[" * 100_000, key=key)
        assert (answer.status, answer.json["code"]) == (403, "forbidden"), path


def test_a_line_that_is_sent_again_with_its_id_counts_once(server: Served, root: str) -> None:
    """Lines have no header of their own: each says its id, and that it may be there already."""
    server.journal.emit(EntityRegistered(dataset(SPACE, "line"))).position  # noqa: B018  (acknowledged)
    own = key(-AGO_MS)
    line = {"type": "TagsAdded", "entity": f"dataset:{SPACE}/line", "tags": ["y"], "event_id": own, "repeat": True}
    said = [{**line, "tags": tags} for tags in (["y"], ["y"], ["z"])]
    for one in said:
        answer = server.post(EVENTS, json.dumps(one).encode(), key=root, Content_Type="application/x-ndjson")
        assert [(one["ok"], one["event_id"]) for one in answer.json["results"]] == [(True, own)]
    server.fold()
    assert [step.outcome for step in server.journal.why(own).steps] == ["accepted", "duplicate", "duplicate"]
    assert server.get(f"/v3/namespaces/{SPACE}/datasets/line/metadata/tags", key=root).json == ["y"]


@pytest.mark.parametrize("row", SENDING)
def test_openlineage_that_is_sent_again_changes_nothing(server: Served, root: str, row: str) -> None:
    own, urn = key(-AGO_MS), quote(str(data("s3://shop", "orders")), safe="")
    seen = []
    for _ in range(2):
        answer = server.post(row.removeprefix("POST "), SENDING[row], key=root, Idempotency_Key=own)
        assert answer.status == 200, answer.body
        server.fold()
        asked = (f"/api/v1/{what}?urn={urn}" for what in ("entities", "history", "lineage"))
        seen.append([server.get(one, key=root).json for one in asked])
    assert seen[0] == seen[1]
    assert seen[0][2]["relations"]
