"""The source's calls as its page has them, by curl and as they are typed: the documented status and body."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Final, NamedTuple

import pytest

from metajournal import EntityRegistered, app, dataset, program, stream
from metajournal.schemas.urn import Urn
from tests.gateway.serving import ADMIN, Served

BOTH: Final = {"key1": "value1", "key2": "value2"}
TAGS: Final = ["tag1", "tag2"]


class Form(NamedTuple):
    """A form of the source's addresses.

    Args:
        at: below a namespace, to write.
        read: the same to read; the source's page has streams in the singular there.
        urn: the entity.
    """

    at: str
    read: str
    urn: Urn


FORMS: Final = (
    Form("datasets/dataset1", "datasets/dataset1", dataset("ns1", "dataset1")),
    Form("apps/app1", "apps/app1", app("ns1", "app1")),
    Form("apps/app1/MAPREDUCE/pgm1", "apps/app1/MAPREDUCE/pgm1", program("ns1", "app1", "mapreduce", "pgm1")),
    Form("streams/stream1", "streams/stream1", stream("ns1", "stream1")),
    Form("streams/stream2", "stream/stream2", stream("ns1", "stream2")),
)


def curl(server: Served, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    """Status and body of a call."""
    command = ["curl", "--silent", "--show-error", "--request", method, f"http://{server.address}{path}",
               "--header", f"Authorization: Bearer {ADMIN}", "--write-out", "\n%{http_code}"]  # fmt: skip
    command += [] if body is None else ["--data", body]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    text, _, status = said.rpartition("\n")
    return int(status), json.loads(text) if text else None


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.read)
def test_metadata_of_each_form_are_annotated_retrieved_and_deleted(server: Served, form: Form) -> None:
    at, read = (f"/v3/namespaces/ns1/{path}/metadata" for path in (form.at, form.read))
    assert curl(server, "GET", f"{read}/properties")[0] == 404
    assert curl(server, "POST", f"{at}/properties", json.dumps(BOTH))[0] == 404
    server.journal.emit(EntityRegistered(form.urn)).position  # noqa: B018  (acknowledged)
    assert curl(server, "POST", f"{at}/properties", json.dumps({"key1": "other"}))[0] == 200
    assert curl(server, "POST", f"{at}/properties", json.dumps(BOTH))[0] == 200
    assert curl(server, "GET", f"{read}/properties") == (200, BOTH)
    status, system = curl(server, "GET", f"{read}/properties/system")
    assert (status, system["created_by"]) == (200, "tests")
    assert curl(server, "POST", f"{at}/tags", json.dumps(TAGS))[0] == 200
    assert curl(server, "GET", f"{read}/tags") == (200, TAGS)
    assert curl(server, "GET", read) == (200, {"properties": BOTH, "tags": TAGS})
    assert curl(server, "DELETE", f"{at}/properties/key1")[0] == 200
    assert curl(server, "DELETE", f"{at}/tags/tag1")[0] == 200
    assert curl(server, "GET", read) == (200, {"properties": {"key2": "value2"}, "tags": ["tag2"]})
    assert curl(server, "DELETE", f"{at}/properties")[0] == 200
    assert curl(server, "GET", f"{read}/properties") == (200, {})
    assert curl(server, "DELETE", f"{at}/tags")[0] == 200
    assert curl(server, "GET", f"{read}/tags") == (200, [])
    assert curl(server, "POST", f"{at}/tags", json.dumps(TAGS))[0] == 200
    assert curl(server, "DELETE", at)[0] == 200
    assert curl(server, "GET", read) == (200, {"properties": {}, "tags": []})


@pytest.mark.parametrize(("kind", "form"), [("DATASET", "datasets/d1"), ("STREAM", "streams/d1")])
def test_an_access_of_a_run_is_recorded_and_its_lineage_seen(server: Served, kind: str, form: str) -> None:
    at, made = f"/v3/namespaces/ns1/{form}", dataset if kind == "DATASET" else stream
    run = {"namespace": "ns1", "app": "app1", "programType": "MAPREDUCE", "name": "pgm1", "runId": f"r-{kind}"}
    said = {
        "programRun": run, "data": {"namespace": "ns1", "type": kind, "name": "d1"}, "accessType": "in",
        "metadata": {"user": {"key1": "value1"}, "system": {"k1": "v1"}},
    }  # fmt: skip
    server.journal.emit(EntityRegistered(made("ns1", "d1"))).position  # noqa: B018  (acknowledged)
    status, recorded = curl(server, "POST", "/v3/metadata/history", json.dumps(said))
    assert status == 200, recorded
    server.fold()
    accesses = f"/v3/namespaces/ns1/apps/app1/MAPREDUCE/pgm1/runs/r-{kind}/metadata/accesses"
    status, found = curl(server, "GET", accesses)
    assert (status, [(one["data"], one["access"]) for one in found]) == (200, [(str(made("ns1", "d1")), "read")])
    status, graph = curl(server, "GET", f"{at}/lineage?start=now-1h&end=now%2B1h&maxLevels=1")
    assert status == 200, graph
    assert str(program("ns1", "app1", "mapreduce", "pgm1")) in json.dumps(graph)
    status, beyond = curl(
        server,
        "POST",
        f"{at}/lineage/next",
        json.dumps({"start": "now-1h", "end": "now+1h", "maxLevels": 1, "after": [*graph["data"]]}),
    )
    assert status == 200, beyond
