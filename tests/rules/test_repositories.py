"""Verdicts about repositories: refs alone decide, in one order of reasons, and a plain model says the same."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.repositories import events as e
from metajournal.domains.repositories import rules
from metajournal.domains.repositories.documents import MAX_OBJECT_BYTES, _Made, change_record, payload_of
from metajournal.domains.repositories.rows import NOTHING_STAGED, BranchRow, commit_id, content_of, staged_digest
from metajournal.domains.repositories.urns import branch_urn, commit_urn, object_urn, repository_urn
from metajournal.domains.repositories.words import words
from metajournal.lake.spelling import spelled
from metajournal.rules import Accepted, At, Rejected, apply, reads
from metajournal.rules.tables import TABLE_OF, key_of
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import InvalidEventError
from metajournal.schemas.positions import position
from metajournal.schemas.registry import domain_named
from tests.builders import NOON, header_for
from tests.model import ModelRows
from tests.properties import examples
from tests.repositories.operations import operations
from tests.repositories.plain_model import Refs

REPO, MAIN, DEV = repository_urn("r1"), branch_urn("r1", "main"), branch_urn("r1", "dev")
OBJECT = {"path": "a", "size": 3, "checksum": "c1", "address": "s3://b/1"}
CREATED = e.RepositoryCreated(REPO, "main", "s3://b")
WRITTEN = e.ObjectsWritten(MAIN, [OBJECT])


class Journal:
    """Events through the rules one after another, each with the digest of its bytes; the rows that stand."""

    def __init__(self) -> None:
        self.entities: dict[tuple[str, str], Any] = {}
        self.facts: dict[Any, Any] = {}
        self.records = 0
        self.made: Any = None

    def judge(self, event: Any, **fields: Any) -> tuple[str, Any]:
        """Outcome or reason, and the reason's detail."""
        self.records += 1
        header = header_for(event, self.records, **fields)
        at = At(position(1, self.records), NOON + self.records, self.digest(event))
        announced = reads(header, event)
        rows = ModelRows(self.entities, header.tenant, header.aggregate, announced, self.facts)
        self.made = outcome = apply(header, event, at, rows)
        if isinstance(outcome, Rejected):
            return outcome.reason, outcome.detail
        if not isinstance(outcome, Accepted):
            return "unchanged", None
        assert [row.seq for row in outcome.rows] == [*range(len(outcome.rows))]
        self.entities |= {(row.tenant, row.urn): row for row in outcome.rows}
        for fact in outcome.facts:
            self.facts[TABLE_OF[type(fact)], fact.tenant, key_of(fact)] = fact
        return "accepted", None

    def digest(self, event: Any) -> bytes:
        """The digest of the event's record, were it the next one."""
        value = codec.encode(event, header_for(event, self.records))
        return blake2b(value, digest_size=16).digest()

    def accepted(self, *events: Any) -> Journal:
        for event in events:
            assert self.judge(event) == ("accepted", None), event
        return self

    def ref(self, urn: str) -> BranchRow:
        row: BranchRow = self.facts["branches", "default", (urn,)]
        return row

    def head(self, urn: str) -> str:
        return self.ref(urn).head or ""

    def live(self) -> set[str]:
        return {row.urn for row in self.entities.values() if not row.deleted}


def begun(*events: Any) -> Journal:
    return Journal().accepted(CREATED, *events)


def test_the_vectors_of_what_an_object_and_a_commit_are() -> None:
    assert content_of("c1", 3, None, {}).hex().startswith("1ac74c08")
    assert content_of("c1", 3, None, {"b": "1", "a": "2"}) == content_of("c1", 3, None, {"a": "2", "b": "1"})
    assert staged_digest(NOTHING_STAGED, b"d" * 16) == blake2b(bytes(16) + b"d" * 16, digest_size=16).hexdigest()
    journal = begun(WRITTEN)
    staged = journal.ref(MAIN).staging_digest or ""
    commit = e.Committed(MAIN, "first", {"b": "1", "a": "ß"})
    journal.accepted(commit)
    record = blake2b(codec.encode(commit, header_for(commit, 3)), digest_size=16).digest()
    assert journal.head(MAIN) == commit_id("default", "r1", [], staged, record)
    row = journal.facts["commits", "default", (commit_urn("r1", journal.head(MAIN)),)]
    assert (row.staging_digest, row.digest, row.parents, row.staging) == (staged, record.hex(), [], position(1, 1))
    assert list(row.metadata) == ["a", "b"]


def test_address_and_mtime_do_not_make_another_object() -> None:
    first, second = (
        begun(e.ObjectsWritten(MAIN, [{**OBJECT, **more}])).made.facts[1]
        for more in ({}, {"address": "elsewhere", "mtime": 5})
    )
    assert (
        first.content == second.content != begun(e.ObjectsWritten(MAIN, [{**OBJECT, "size": 4}])).made.facts[1].content
    )


def test_a_commit_moves_the_head_and_empties_the_staging_area() -> None:
    journal = begun(WRITTEN, e.ObjectsDeleted(MAIN, ["b", "c"]))
    dirty = journal.ref(MAIN)
    assert (dirty.head, dirty.staged_events, dirty.staged_rows, dirty.staging) == (None, 2, 3, position(1, 1))
    journal.accepted(e.Committed(MAIN, "m"))
    clean = journal.ref(MAIN)
    assert (clean.staged_events, clean.staged_rows, clean.staging_digest) == (0, 0, NOTHING_STAGED)
    assert clean.staging == position(1, 4)
    assert journal.entities["default", MAIN].record == {"head": clean.head}
    commit = journal.entities["default", commit_urn("r1", clean.head or "")]
    assert commit.record == {"branch": MAIN, "parents": [], "message": "m", "metadata": {}}
    assert dict(words(commit.record)) == {"message": "m"}


def test_reasons_come_in_one_order_with_what_is_needed_to_act() -> None:
    journal = Journal()
    assert journal.judge(WRITTEN) == ("unknown-entity", {"entity": "repo:r1"})
    assert journal.judge(e.RepositoryDeleted(REPO)) == ("unknown-entity", {"entity": "repo:r1"})
    journal.accepted(CREATED)
    assert journal.judge(CREATED) == ("exists", {"entity": "repo:r1"})
    assert journal.judge(e.ObjectsWritten(DEV, [OBJECT])) == ("unknown-entity", {"entity": "branch:r1/dev"})
    unknown = commit_urn("r1", "ab" * 32)
    assert journal.judge(e.BranchCreated(DEV, unknown)) == ("unknown-entity", {"entity": unknown})
    assert journal.judge(e.BranchReverted(MAIN, unknown)) == ("unknown-entity", {"entity": unknown})
    assert journal.judge(e.BranchDeleted(MAIN)) == ("protected", {"branch": MAIN})
    assert journal.judge(e.Committed(MAIN, "m")) == ("nothing-staged", {"branch": MAIN})
    assert journal.judge(e.BranchReset(MAIN)) == ("unchanged", None)
    journal.accepted(WRITTEN)
    held = journal.ref(MAIN)
    stale: dict[str, Any] = {"branch": MAIN, "expected": "ab" * 32, "found": ""}
    assert journal.judge(e.Committed(MAIN, "m", None, "ab" * 32, "11" * 16)) == ("stale-head", stale)
    stale = {"branch": MAIN, "expected": "11" * 16, "found": held.staging_digest}
    assert journal.judge(e.Committed(MAIN, "m", None, "", "11" * 16)) == ("stale-staging", stale)
    journal.accepted(e.Committed(MAIN, "m", None, "", held.staging_digest), e.BranchCreated(DEV))
    head = journal.head(MAIN)
    assert journal.judge(e.BranchCreated(DEV)) == ("exists", {"entity": DEV})
    assert journal.judge(e.BranchReverted(MAIN, commit_urn("r1", head))) == ("unchanged", None)
    assert journal.judge(e.Merged(DEV, MAIN, "", head)) == (
        "nothing-to-merge", {"source": DEV, "destination": MAIN}
    )  # fmt: skip
    journal.accepted(e.ObjectsWritten(DEV, [OBJECT]))
    dirty = {"branch": DEV, "staged_events": 1, "staged_rows": 1}
    assert journal.judge(e.Merged(MAIN, DEV, head, "")) == ("dirty", dirty)
    assert journal.judge(e.Merged(DEV, MAIN, "", head)) == ("dirty", dirty)
    assert journal.judge(e.BranchReverted(DEV, commit_urn("r1", head))) == ("dirty", dirty)
    resolve = e.Merged(MAIN, DEV, head, "", "none", "resolve", journal.ref(DEV).staging_digest)
    journal.accepted(resolve)
    commit = journal.facts["commits", "default", (commit_urn("r1", journal.head(DEV)),)]
    assert (commit.parents, commit.strategy, commit.staging is None) == ([head], "none", False)


def test_a_merge_has_the_destination_as_its_first_parent() -> None:
    journal = begun(WRITTEN, e.Committed(MAIN, "1"))
    journal.accepted(e.BranchCreated(DEV, commit_urn("r1", journal.head(MAIN))))
    journal.accepted(e.ObjectsWritten(DEV, [{**OBJECT, "path": "b"}]), e.Committed(DEV, "2"))
    into, source = journal.head(MAIN), journal.head(DEV)
    journal.accepted(e.Merged(DEV, MAIN, source, into, "source-wins", message="merge"))
    row = journal.facts["commits", "default", (commit_urn("r1", journal.head(MAIN)),)]
    assert (row.parents, row.staging, row.strategy, row.message) == ([into, source], None, "source-wins", "merge")


def test_a_repository_ends_with_its_branches_and_registered_objects_and_begins_with_nothing_of_them() -> None:
    journal = begun(WRITTEN, e.Committed(MAIN, "1"), e.BranchCreated(DEV), e.ObjectsRegistered(REPO, ["a/b", "c"]))
    old = commit_urn("r1", journal.head(MAIN))
    assert journal.ref(REPO).members == 4
    journal.accepted(e.RepositoryDeleted(REPO))
    assert journal.live() == {old}
    assert journal.judge(e.ObjectsWritten(DEV, [OBJECT]))[0] == "unknown-entity"
    journal.accepted(CREATED)
    assert journal.ref(REPO).members == 1
    assert journal.judge(e.ObjectsWritten(DEV, [OBJECT])) == ("unknown-entity", {"entity": DEV})
    assert journal.judge(e.BranchReverted(MAIN, old)) == ("unknown-entity", {"entity": old})
    assert journal.head(MAIN) == ""
    journal.accepted(e.ObjectsRegistered(REPO, ["c"]))
    assert journal.live() == {REPO, MAIN, object_urn("r1", "c"), old}


def test_tags_stay_on_a_branch_and_on_a_registered_object() -> None:
    journal = begun(TagsAdded(MAIN, ["gold"]), WRITTEN, e.Committed(MAIN, "1"), e.ObjectsRegistered(REPO, ["c"]))
    assert journal.entities["default", MAIN].user_tags == ("gold",)
    journal.accepted(TagsAdded(object_urn("r1", "c"), ["raw"]))
    assert journal.judge(e.ObjectsRegistered(REPO, ["c"])) == ("unchanged", None)
    assert journal.judge(e.ObjectsUnregistered(REPO, ["d"])) == ("unchanged", None)
    journal.accepted(e.ObjectsUnregistered(REPO, ["c", "d"]), e.ObjectsRegistered(REPO, ["c"]))
    assert journal.entities["default", object_urn("r1", "c")].user_tags == ()


def test_a_transactions_branch_is_no_entity_and_no_member() -> None:
    tx = branch_urn("r1", "_tx/1")
    journal = begun(e.BranchCreated(tx), e.ObjectsWritten(tx, [OBJECT]), e.Committed(tx, "m"))
    assert journal.ref(REPO).members == 1
    assert tx not in journal.live()
    reason, detail = journal.judge(e.BranchDeleted(tx), expected=0)
    assert (reason, detail[0]["field"]) == ("invalid", "header.expected")
    journal.accepted(e.BranchDeleted(tx))
    assert journal.judge(e.ObjectsWritten(tx, [OBJECT]))[0] == "unknown-entity"
    assert journal.judge(TagsAdded(tx, ["t"]))[0] == "unknown-entity"
    with pytest.raises(InvalidEventError, match="transaction"):
        _ = e.RepositoryCreated(REPO, "_tx/1", "s3://b").entities


def test_a_precondition_speaks_of_the_first_entity_and_comes_before_all_that_refs_say() -> None:
    journal = begun()
    stale = {"entity": MAIN, "expected": 7, "found": position(1, 1)}
    assert journal.judge(e.Committed(MAIN, "m"), expected=7) == ("stale-entity", stale)
    assert journal.judge(WRITTEN, expected=position(1, 1)) == ("accepted", None)
    assert journal.judge(e.BranchCreated(DEV), expected=0) == ("accepted", None)


def test_a_repository_has_no_more_members_than_its_deletion_can_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_MEMBERS", 3)
    journal = begun(e.ObjectsRegistered(REPO, ["a", "b"]))
    too_many = {"repository": "repo:r1", "members": 3, "limit": 3}
    assert journal.judge(e.BranchCreated(DEV)) == ("too-many", too_many)
    assert journal.judge(e.ObjectsRegistered(REPO, ["a", "c"])) == ("too-many", too_many)
    assert journal.judge(e.ObjectsRegistered(REPO, ["a", "b"])) == ("unchanged", None)
    journal.accepted(e.BranchCreated(branch_urn("r1", "_tx/1")), e.ObjectsUnregistered(REPO, ["a"]))
    journal.accepted(e.BranchCreated(DEV), e.BranchDeleted(DEV), e.ObjectsRegistered(REPO, ["a"]))


def test_an_entity_that_is_full_takes_no_new_head() -> None:
    journal = begun(WRITTEN)
    full = journal.entities["default", MAIN]._replace(user_properties={"k": "x" * (512 * 1024)})
    journal.entities["default", MAIN] = full
    reason, detail = journal.judge(e.Committed(MAIN, "m"))
    assert (reason, detail["entity"], detail["limit_bytes"]) == ("too-large", MAIN, 512 * 1024)


WRONG: list[tuple[Any, str]] = [
    (e.RepositoryCreated("repo:Upper", "main", "s3://b"), "repository"),
    (e.RepositoryCreated(REPO, "a..b", "s3://b"), "default_branch"),
    (e.RepositoryCreated(REPO, "main", ""), "storage_namespace"),
    (e.RepositoryDeleted("dataset:a/b"), "repository"),
    (e.BranchCreated("branch:r1/%2Fx"), "branch"),
    (e.BranchCreated("branch:r1/x%2F"), "branch"),
    (e.BranchCreated("branch:r1/x%2F%2Fy"), "branch"),
    (e.BranchCreated(branch_urn("r1", "x" * 256)), "branch"),
    (e.BranchCreated(DEV, "commit:r2/" + "ab" * 32), "commit"),
    (e.BranchCreated(DEV, "commit:r1/abc"), "commit"),
    (e.BranchReverted(DEV, None), "commit"),  # type: ignore[arg-type]
    (e.BranchDeleted(DEV, "HEAD"), "expected_head"),
    (e.ObjectsWritten(MAIN, []), "entries"),
    (e.ObjectsWritten(MAIN, [OBJECT] * 2), "entries[1].path"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "path": f"p{n}"} for n in range(1001)]), "entries"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "path": "a\0b"}]), "entries[0].path"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "path": ""}]), "entries[0].path"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "path": "ß" * 513}]), "entries[0].path"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "path": "\ud800"}]), "entries[0].path"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "size": -1}]), "entries[0].size"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "size": True}]), "entries[0].size"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "checksum": ""}]), "entries[0].checksum"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "address": None}]), "entries[0].address"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "blocks": [("x", 1, "c")]}]), "entries[0].address"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "address": None, "blocks": [("x", -1, "c")]}]), "entries[0].blocks[0].size"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "blocks": [{"bad": 1}]}]), "entries[0].blocks[0]"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "blocks": [["x"]]}]), "entries[0].blocks[0]"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "blocks": {}}]), "entries[0].blocks"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "metadata": {"k": 1}}]), "entries[0].metadata['k']"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "metadata": {"k": "x" * 9000}}]), "entries[0].metadata"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "mtime": 1.5}]), "entries[0].mtime"),
    (e.ObjectsWritten(MAIN, [{**OBJECT, "colour": "red"}]), "entries[0]"),
    (e.ObjectsWritten(MAIN, "abc"), "entries"),  # type: ignore[arg-type]
    (e.ObjectsDeleted(MAIN, ["a", "a"]), "paths[1]"),
    (e.ObjectsDeleted(MAIN, [1]), "paths[0]"),  # type: ignore[list-item]
    (e.ObjectsRegistered(REPO, ["a//b"]), "paths[0]"),
    (e.ObjectsRegistered(REPO, ["/a"]), "paths[0]"),
    (e.ObjectsRegistered(REPO, ["ß" * 400]), "paths[0]"),
    (e.ObjectsUnregistered(REPO, []), "paths"),
    (e.Committed(MAIN, "x" * 65_537), "message"),
    (e.Committed(MAIN, "m", {"k": "x" * 262_144}), "metadata"),
    (e.Committed(MAIN, "m", staging_digest="xyz"), "staging_digest"),
    (e.Committed(MAIN, "m", allow_empty=1), "allow_empty"),  # type: ignore[arg-type]
    (e.Merged(MAIN, MAIN, "", ""), "source"),
    (e.Merged(MAIN, "branch:r2/main", "", ""), "source"),
    (e.Merged(MAIN, DEV, "", None), "destination_head"),  # type: ignore[arg-type]
    (e.Merged(MAIN, DEV, "", "", "ours"), "strategy"),
    (e.Merged(MAIN, DEV, "", "", "none", "keep"), "staged"),
    (e.Merged(MAIN, DEV, "", "", "none", "resolve"), "staging_digest"),
    (e.BranchReset(MAIN, "a", "b"), "prefix"),
    (e.BranchReset(MAIN, prefix=""), "prefix"),
]


@pytest.mark.parametrize(("event", "field"), WRONG)
def test_what_has_not_its_form_names_the_field(event: Any, field: str) -> None:
    assert field in [fault.field for fault in event.validate()], event.validate()


@pytest.mark.parametrize(
    "event",
    [
        CREATED,
        e.RepositoryDeleted(REPO),
        e.BranchCreated(branch_urn("r1", "f/x")),
        e.BranchCreated(DEV, commit_urn("r1", "ab" * 32)),
        e.BranchDeleted(DEV, ""),
        e.ObjectsWritten(
            MAIN,
            [
                {**OBJECT, "content_type": "text/csv", "metadata": {"ä": "ß"}, "mtime": -1},
                e.Entry("b\n\u202e", 2**63 - 1, "c", blocks=(e.Block("x", 0, "y"),)),
            ],
        ),
        e.ObjectsDeleted(MAIN, ["a", "ä"]),
        e.Committed(MAIN, "m", {"k": "v"}, "", "11" * 16, True),
        e.Merged(DEV, MAIN, "ab" * 32, "", "dest-wins", "resolve", "11" * 16, "m", {"k": "v"}),
        e.BranchReset(MAIN, prefix="a/"),
        e.BranchReverted(MAIN, commit_urn("r1", "ab" * 32)),
        e.ObjectsRegistered(REPO, ["a/b", "c d"]),
        e.ObjectsUnregistered(REPO, ["a/b"]),
    ],
)
def test_an_event_comes_back_from_its_bytes_as_it_was(event: Any) -> None:
    assert event.validate() == []
    decoded = codec.decode(codec.encode(event, header_for(event)))
    assert decoded.event == event
    assert decoded.event.entities == event.entities == decoded.header.entities


def test_every_event_type_has_a_class_and_a_rule_that_says_what_it_reads() -> None:
    declared = domain_named("repositories")
    assert declared is not None
    assert {event.TYPE for event in e.EVENTS} == {*declared.event_types} == rules.RULES.keys() == rules.READS.keys()


def test_objects_of_a_change_record_fit_and_the_rest_is_counted() -> None:
    journal = begun()
    paths = [f"{chr(1) * 900}{number:04}" for number in range(1000)]  # six bytes of JSON for each
    journal.accepted(e.ObjectsWritten(MAIN, [{**OBJECT, "path": path} for path in paths]))
    header = header_for(e.ObjectsDeleted(MAIN, ["a"]), type="repositories.ObjectsWritten.1")
    objects = list(journal.made.facts[1:])
    record = change_record(1, header, payload_of(header, _Made([], [], objects, [], [])))
    payload = record["event_payload"]
    shown = len(payload["objects"])
    assert 0 < shown < 1000 == shown + payload["omitted"]
    assert payload["objects"][0] == [paths[0], 3, "c1"]
    assert MAX_OBJECT_BYTES - 6_000 < len(spelled(payload["objects"])) <= MAX_OBJECT_BYTES + 2


class Machine(RuleBasedStateMachine):
    """Any operations on two repositories, each deleted and made again now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.journal, self.refs = Journal(), Refs()

    @rule(data=st.data())
    def operate(self, data: st.DataObject) -> None:
        event = data.draw(operations(self.refs))
        assert event.validate() == []
        self.journal.records += 1
        digest = self.journal.digest(event)
        self.journal.records -= 1
        wanted = self.refs.judge(event, digest)
        assert self.journal.judge(event)[0] == wanted
        self.compare()

    def compare(self) -> None:
        held, entities = {}, set()
        for name, repository in self.refs.repositories.items():
            entities |= {repository_urn(name), *(object_urn(name, path) for path in repository.objects)}
            entities |= {branch_urn(name, one) for one in repository.branches if not one.startswith("_tx/")}
            members = len(repository.objects) + sum(not one.startswith("_tx/") for one in repository.branches)
            row = self.journal.ref(repository_urn(name))
            assert (row.deleted, row.members) == (False, members)
            for one, branch in repository.branches.items():
                held[branch_urn(name, one)] = (branch.head, branch.digest, branch.events, branch.paths)
        for urn, wanted in held.items():
            row = self.journal.ref(urn)
            assert not row.deleted
            assert (row.head or "", row.staging_digest, row.staged_events, row.staged_rows) == wanted
        assert {urn for urn in self.journal.live() if not urn.startswith("commit:")} == entities


def test_any_operations_give_the_verdicts_and_refs_of_a_plain_model() -> None:
    limits = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(Machine, settings=limits)
