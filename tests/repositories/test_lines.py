"""Change records of repositories on one line: of every event type, as the stream makes them."""

from __future__ import annotations

from typing import Any

import pytest

from metajournal.commands.tailing import record_line
from metajournal.consumers.filters import Filter
from metajournal.consumers.records import Change
from metajournal.domains.repositories.client import RepositoriesClient
from metajournal.domains.repositories.domain import DOMAIN
from metajournal.domains.repositories.lines import changed
from metajournal.schemas.positions import Position

ID = "3f" * 32
SAID = {
    "RepositoryCreated": ({"branch": "main", "storage_namespace": "s3://b"}, "created with branch main, objects in s3://b"),
    "RepositoryDeleted": ({}, "deleted"),
    "BranchCreated": ({"branch": "dev", "head": None}, "created at no commit"),
    "BranchDeleted": ({"branch": "dev"}, "deleted"),
    "ObjectsWritten": (
        {"objects": [["a", 1, "c"], ["b\n", 1, "c"]], "omitted": 1_000},
        "staged 1,002 objects: a, b\\n",
    ),
    "ObjectsDeleted": ({"objects": [["a", None, None]], "omitted": 0}, "staged the deletion of 1 object: a"),
    "Committed": ({"commit": ID, "message": "First\nload"}, "committed 3f3f3f3f3f3f: First load"),
    "Merged": ({"commit": ID, "message": "m", "source": "dev"}, "merged dev as 3f3f3f3f3f3f: m"),
    "BranchReset": ({"path": None, "prefix": "a/"}, "reset what is staged of paths that begin with a/"),
    "BranchReverted": ({"head": ID}, "reverted to 3f3f3f3f3f3f"),
    "ObjectsRegistered": ({"paths": ["a", "b"]}, "registered 2 objects: a, b"),
    "ObjectsUnregistered": ({"paths": ["a"]}, "unregistered 1 object: a"),
}  # fmt: skip


def record(name: str, payload: Any) -> dict[str, Any]:
    return {"logical_timestamp": 1, "client_id": "alice", "repo_id": "r1", "event_type": name, "event_payload": payload}


def test_every_event_type_has_its_words() -> None:
    assert {type_.split(".")[1] for type_ in DOMAIN.event_types} == SAID.keys()


@pytest.mark.parametrize("name", SAID)
def test_a_line_says_what_an_event_did(name: str) -> None:
    payload, line = SAID[name]
    assert changed(record(name, payload)) == (line, "alice")


@pytest.mark.parametrize(("reset", "line"), [
    ({"path": "a", "prefix": None}, "reset what is staged of a"),
    ({"path": None, "prefix": None}, "reset everything staged"),
])  # fmt: skip
def test_a_reset_says_of_what(reset: dict[str, Any], line: str) -> None:
    assert changed(record("BranchReset", reset))[0] == line


@pytest.mark.parametrize(
    "payload", [None, 7, [], {}, {"objects": 7, "omitted": "x"}, {"objects": ["a", []]}, {"paths": 1}]
)
def test_what_the_stream_cannot_have_written_is_still_a_line(payload: Any) -> None:
    for name in [*SAID, "Unheard"]:
        said, who = changed(record(name, payload))
        assert said
        assert who == "alice"


def test_the_general_tail_prints_the_domains_own_words() -> None:
    change = Change("branch:r1/main", Position("j", 0, 1), 0, "USER", "t", 1_700_000_000_000,
                    record("Committed", SAID["Committed"][0]), 0, domain="repositories")  # fmt: skip
    assert record_line(change, "default").plain == (
        "2023-11-14 22:13:20.000Z  branch:r1/main  committed 3f3f3f3f3f3f: First load  by alice"
    )


class Asked:
    """A journal that notes what is subscribed to."""

    def subscribe(self, domain: str, **asked: Any) -> tuple[str, Filter]:
        return domain, Filter.of(**asked)


def test_the_changes_of_a_repository_are_its_own_and_those_of_its_branches() -> None:
    journal: Any = Asked()
    repo = RepositoriesClient(journal)["r1"]
    found: Any = repo.changes()
    domain, wanted = found
    assert domain == "repositories"
    urns = [
        "repo:r1",
        "branch:r1/main",
        "branch:r1/dev%2Fx",
        "branch:r1/%5Ftx%2F1",
        "repo:r10",
        "branch:r10/main",
        "repo:r",
    ]
    assert [urn for urn in urns if wanted.wants(urn, "default", "t")] == urns[:4]
    of_branch: Any = repo.changes("dev/x")
    assert [urn for urn in urns if of_branch[1].wants(urn, "default", "t")] == ["branch:r1/dev%2Fx"]
