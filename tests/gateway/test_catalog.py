"""The source's metadata endpoints over a real server: each row in each of its forms, with the documented status."""

from __future__ import annotations

import pytest

from metajournal import EntityRegistered, app, dataset, program, stream
from metajournal.schemas.positions import Position
from metajournal.schemas.urn import Urn
from tests.gateway.serving import Served

FORMS = {
    "datasets/{}": lambda name: dataset("cdap", name),
    "apps/{}": lambda name: app("cdap", name),
    "apps/{}/flow/p": lambda name: program("cdap", name, "flow", "p"),
    "apps/{}/Workflows/p": lambda name: program("cdap", name, "workflow", "p"),
    "streams/{}": lambda name: stream("cdap", name),
}


@pytest.fixture(params=FORMS, ids=str)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def registered(server: Served, form: str, name: str) -> tuple[str, Urn]:
    """The address of a new entity, and its URN."""
    urn = FORMS[form](name)
    server.journal.emit(EntityRegistered(urn))
    server.journal.flush()
    return f"/v3/namespaces/cdap/{form.format(name)}/metadata", urn


def test_properties_are_set_read_and_removed(server: Served, form: str) -> None:
    at, _ = registered(server, form, "properties")
    assert server.post(f"{at}/properties", {"a": "1", "b": "2"}).status == 200
    assert server.get(f"{at}/properties").json == {"a": "1", "b": "2"}
    assert server.delete(f"{at}/properties/a").status == 200
    absent = server.delete(f"{at}/properties/a")
    assert (absent.status, absent.json["outcome"]) == (200, "unchanged")
    assert server.get(f"{at}/properties").json == {"b": "2"}
    assert server.delete(f"{at}/properties").status == 200
    assert server.get(f"{at}/properties").json == {}


def test_tags_are_added_read_and_removed(server: Served, form: str) -> None:
    at, _ = registered(server, form, "tags")
    assert server.post(f"{at}/tags", ["x", "y", "z"]).status == 200
    assert server.get(f"{at}/tags").json == ["x", "y", "z"]
    assert server.delete(f"{at}/tags/y").status == 200
    assert server.get(f"{at}/tags").json == ["x", "z"]
    assert server.delete(f"{at}/tags").status == 200
    assert server.get(f"{at}/tags").json == []


def test_metadata_is_read_and_cleared(server: Served, form: str) -> None:
    at, _ = registered(server, form, "metadata")
    server.post(f"{at}/tags", ["x"])
    server.post(f"{at}/properties", {"k": "v"})
    assert server.get(at).json == {"properties": {"k": "v"}, "tags": ["x"]}
    assert server.delete(at).status == 200
    assert server.get(at).json == {"properties": {}, "tags": []}


def test_system_properties_stand_apart(server: Served, form: str) -> None:
    at, _ = registered(server, form, "system")
    found = server.get(f"{at}/properties/system")
    assert found.status == 200
    assert found.json["created_by"] == "tests"
    assert found.headers["etag"].startswith("W/")
    assert server.get(f"{at}/properties/system", If_None_Match=found.headers["etag"]).status == 304
    assert server.get(f"{at}/properties").json == {}


def test_what_a_follower_has_is_not_waited_for_in_the_lake(server: Served) -> None:
    """No stream runs here: what the partition of the entity holds is there, what another one holds is not yet."""
    at, _ = registered(server, "datasets/{}", "ahead")
    own = server.post(f"{at}/tags", ["x"]).json["position"]
    found = server.get(f"{at}/properties/system", Metajournal_At_Least=own)
    assert (found.status, found.json["created_by"]) == (200, "tests")
    sent = (server.journal.emit(EntityRegistered(dataset("cdap", f"other-{number}"))) for number in range(100))
    other = next(one.position for one in sent if one.position.partition != Position.parse(own).partition)
    missing = server.get(f"{at}/properties/system", Metajournal_At_Least=str(other))
    assert (missing.status, missing.json["code"]) == (503, "not-yet-visible")


def test_an_unknown_entity_is_404_for_every_row(server: Served, form: str) -> None:
    at = f"/v3/namespaces/cdap/{form.format('nobody')}/metadata"
    answers = [server.get(at + path) for path in ("", "/tags", "/properties", "/properties/system")]
    answers += [server.post(f"{at}/tags", ["x"]), server.post(f"{at}/properties", {"k": "v"})]
    answers += [server.delete(at + path) for path in ("", "/tags", "/tags/t", "/properties", "/properties/k")]
    assert [(answer.status, answer.json["code"]) for answer in answers] == [(404, "unknown-entity")] * len(answers)


def test_a_stream_is_read_in_the_singular_too(server: Served) -> None:
    at, _ = registered(server, "streams/{}", "singular")
    server.post(f"{at}/tags", ["x"])
    assert server.get("/v3/namespaces/cdap/stream/singular/metadata/tags").json == ["x"]
    assert server.post("/v3/namespaces/cdap/stream/singular/metadata/tags", ["y"]).status == 405


@pytest.mark.parametrize("word", ["flow", "flows", "FLOW", "Flows"])
def test_program_types_are_singular_or_plural_in_any_case(server: Served, word: str) -> None:
    server.journal.emit(EntityRegistered(program("cdap", "types", "flow", "p")))
    server.journal.flush()
    assert server.get(f"/v3/namespaces/cdap/apps/types/{word}/p/metadata/tags").json == []
