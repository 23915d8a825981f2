"""Verdicts about principals, keys and roles: one order of reasons, and a plain model says the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from metajournal.domains.access import events as e
from metajournal.domains.access import rules
from metajournal.domains.access.rows import AccessKeyKey, AccessPrincipalKey
from metajournal.domains.access.urns import CONSTANT_ROLES, key_urn, pattern_fault, principal_urn, role_urn
from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet, TagsAdded
from metajournal.rules import Accepted, Rejected, Unchanged
from metajournal.schemas.encoding import codec
from metajournal.schemas.limits import MAX_ENTITY_BYTES, MAX_URN_BYTES
from metajournal.schemas.positions import position
from tests.access.plain_model import Access
from tests.builders import header_for
from tests.properties import examples
from tests.rules.harness import Catalog

HASH, ID = "ab" * 32, "0" * 24


def verdict(journal: Catalog, event: Any, **fields: Any) -> str:
    """What became of an event: its reason, "unchanged" or "accepted"."""
    outcome = journal.judge(event, **fields)
    if isinstance(outcome, Rejected):
        return outcome.reason
    assert isinstance(outcome, Accepted | Unchanged)
    return "accepted" if isinstance(outcome, Accepted) else "unchanged"


def begun(*events: Any) -> Catalog:
    journal = Catalog()
    for event in (e.PrincipalRegistered(principal_urn("ada")), *events):
        assert verdict(journal, event) == "accepted"
    return journal


def test_a_principal_that_is_enabled_again_has_its_grants_and_none_of_its_keys() -> None:
    ada, key = principal_urn("ada"), key_urn("ada", ID)
    journal = begun(e.RolesGranted(ada, [("admin", "*")]), e.KeyIssued(key, HASH), e.PrincipalDisabled(ada))
    assert journal.newest["default", ada].record == {"enabled": False, "grants": [["admin", "*"]]}
    row = journal.facts["access_keys", "default", AccessKeyKey(key)]
    assert (row.deleted, row.hash, journal.newest["default", key].deleted) == (True, None, True)
    assert verdict(journal, e.PrincipalRegistered(ada)) == "accepted"
    assert journal.newest["default", ada].record == {"enabled": True, "grants": [["admin", "*"]]}
    assert journal.newest["default", key].deleted
    assert verdict(journal, e.KeyIssued(key, HASH)) == "exists"
    assert journal.facts["access_principals", "default", AccessPrincipalKey(ada)].live_keys == 0


def test_the_hash_stands_in_the_row_of_the_key_and_not_in_its_entity() -> None:
    key = key_urn("ada", ID)
    journal = begun(e.KeyIssued(key, HASH, 5, "ci", True))
    assert journal.newest["default", key].record == {"not_after": 5, "label": "ci", "once": True}
    row = journal.facts["access_keys", "default", AccessKeyKey(key)]
    assert (row.hash, row.not_after, row.label, row.once, row.deleted) == (HASH, 5, "ci", True, False)
    assert verdict(journal, e.KeyRevoked(key)) == "accepted"
    row = journal.facts["access_keys", "default", AccessKeyKey(key)]
    assert (row.hash, row.not_after, row.label, row.once, row.deleted) == (None, 5, "ci", True, True)


def test_of_two_that_buy_with_one_code_one_wins() -> None:
    key = key_urn("ada", ID)
    journal = begun(e.KeyIssued(key, HASH, 5, "", True))
    issued = journal.newest["default", key].logical_timestamp
    assert verdict(journal, e.KeyRevoked(key), expected=issued) == "accepted"
    reason, detail = journal.rejected(e.KeyRevoked(key), expected=issued)
    assert (reason, detail["found"]) == ("stale-entity", 0)
    assert verdict(journal, e.KeyRevoked(key)) == "unchanged"


def test_a_login_leaves_the_position_of_its_principal() -> None:
    """So a precondition on what was granted is not broken by it."""
    ada = principal_urn("ada")
    journal = begun(e.KeyIssued(key_urn("ada", ID), HASH))
    assert journal.newest["default", ada].logical_timestamp == position(1, 1)


def test_the_rows_of_an_end_are_numbered_in_each_table() -> None:
    ada, keys = principal_urn("ada"), [key_urn("ada", f"{number:024x}") for number in range(3)]
    journal = begun(*[e.KeyIssued(key, HASH) for key in reversed(keys)], e.KeyRevoked(keys[1]))
    outcome = journal.judge(e.PrincipalDisabled(ada))
    assert isinstance(outcome, Accepted)
    assert [(row.urn, row.seq, row.deleted) for row in outcome.rows] == [
        (ada, 0, False), (keys[0], 1, True), (keys[2], 2, True)
    ]  # fmt: skip
    *ended, count = outcome.facts
    assert [(row.urn, row.seq, row.deleted) for row in ended] == [(keys[0], 0, True), (keys[2], 1, True)]
    assert (count.urn, count.seq, count.deleted, count.live_keys) == (ada, 0, False, 0)
    assert all(isinstance(rows, tuple) for rows in (outcome.rows, outcome.facts))


def test_a_key_that_ends_is_one_less() -> None:
    keys = [key_urn("ada", f"{number:024x}") for number in range(4)]
    journal = begun(*[e.KeyIssued(key, HASH) for key in keys])
    for left, key in zip((3, 2, 1), keys, strict=False):
        outcome = journal.judge(e.KeyRevoked(key))
        assert isinstance(outcome, Accepted)
        assert [(row.urn, row.seq, row.deleted) for row in outcome.rows] == [(key, 0, True)]
        ended, count = outcome.facts
        assert (ended.urn, ended.seq, ended.deleted, count.seq, count.live_keys) == (key, 0, True, 0, left)


def test_what_stands_already_changes_nothing() -> None:
    ada, key, role = principal_urn("ada"), key_urn("ada", ID), role_urn("mine")
    journal = begun(
        e.RolesGranted(ada, [("admin", "*")]), e.KeyIssued(key, HASH), e.RoleDefined(role, ["WriteRepo", "ReadRepo"]),
        e.KeyRevoked(key),
    )  # fmt: skip
    for event in (
        e.PrincipalRegistered(ada), e.RolesGranted(ada, [("admin", "*")]), e.RolesRevoked(ada, [("mine", "*")]),
        e.KeyRevoked(key), e.RoleDefined(role, ["ReadRepo", "WriteRepo", "ReadRepo"]),
    ):  # fmt: skip
        assert verdict(journal, event) == "unchanged"
    assert verdict(journal, e.RolesRevoked(ada, all=True)) == "accepted"
    assert verdict(journal, e.RolesRevoked(ada, all=True)) == "unchanged"
    assert verdict(journal, e.PrincipalDisabled(ada)) == "accepted"
    assert verdict(journal, e.PrincipalDisabled(ada)) == "unchanged"
    assert verdict(journal, e.RoleDeleted(role)) == "accepted"
    assert verdict(journal, e.RoleDeleted(role)) == "unchanged"


def test_the_actions_of_a_role_stand_in_order_and_once() -> None:
    role = role_urn("mine")
    journal = begun(e.RoleDefined(role, ["WriteRepo", "ReadRepo", "WriteRepo"]))
    assert journal.newest["default", role].record == {"actions": ["ReadRepo", "WriteRepo"]}


def test_who_began_something_and_when_is_kept_through_its_changes() -> None:
    ada, role = principal_urn("ada"), role_urn("mine")
    journal = begun(e.RoleDefined(role, ["ReadRepo"]))
    began = {urn: journal.newest["default", urn].system_properties for urn in (ada, role)}
    for event in (
        e.RolesGranted(ada, GRANTS), e.RolesRevoked(ada, GRANTS), e.PrincipalDisabled(ada), e.PrincipalRegistered(ada),
        e.RoleDefined(role, ["WriteRepo"]),
    ):  # fmt: skip
        urn = event.entities[0]
        assert verdict(journal, event, actor="bob") == "accepted"
        system = journal.newest["default", urn].system_properties
        assert (system["created_by"], system["creation_time"]) == ("alice", began[urn]["creation_time"])
        assert (system["last_updated_by"], system["last_update_time"]) == ("bob", str(journal.at.system_time))


ADA, NOBODY, KEY, UNKNOWN_KEY = "access-principal:ada", "access-principal:bob", f"access-key:ada/{ID}", "1" * 24
GRANTS = [("reader", "dataset:a/*")]
NOBODY_S_KEY = ("unknown-entity", e.KeyIssued.TYPE)
"""Of an event of a key, where not the key is named."""


@pytest.mark.parametrize(
    ("event", "fields", "reason"),
    [
        (e.RolesGranted(NOBODY, []), {"aggregate": "access-principal:x", "expected": 5}, "invalid"),
        (e.RolesGranted(NOBODY, GRANTS), {"aggregate": "access-principal:x", "expected": 5}, "wrong-aggregate"),
        (e.RolesGranted(NOBODY, GRANTS), {"expected": 5}, "stale-entity"),
        (e.RolesGranted(NOBODY, GRANTS), {}, "unknown-entity"),
        (e.RolesRevoked(NOBODY, GRANTS), {}, "unknown-entity"),
        (e.PrincipalDisabled(NOBODY), {}, "unknown-entity"),
        (e.KeyIssued(f"access-key:bob/{ID}", HASH), {}, "unknown-entity"),
        (e.KeyRevoked(f"access-key:ada/{UNKNOWN_KEY}"), {}, "unknown-entity"),
        (e.RoleDeleted("access-role:never"), {}, "unknown-entity"),
        (e.RoleDefined("access-role:gone", ["ReadRepo"]), {"expected": 5}, "stale-entity"),
        (e.RoleDefined("access-role:admin", ["ReadRepo"]), {"expected": 5}, "stale-entity"),
        *[(e.RoleDefined(f"access-role:{role}", ["ReadRepo"]), {}, "protected") for role in CONSTANT_ROLES],
        *[(e.RoleDeleted(f"access-role:{role}"), {}, "protected") for role in CONSTANT_ROLES],
        (e.RoleDefined("access-role:gone", ["ReadRepo"]), {}, "retired"),
        (e.KeyIssued(f"access-key:off/{ID}", HASH), {}, "disabled"),
        (e.KeyIssued(KEY, HASH), {"expected": 0}, "stale-entity"),
        (e.KeyIssued(KEY, "cd" * 32), {}, "exists"),
    ],
)
def test_the_first_of_several_reasons_is_given(event: Any, fields: dict[str, Any], reason: str) -> None:
    off = principal_urn("off")
    journal = begun(
        e.KeyIssued(key_urn("ada", ID), HASH), e.PrincipalRegistered(off), e.KeyIssued(key_urn("off", ID), HASH),
        e.PrincipalDisabled(off), e.RoleDefined(role_urn("gone"), ["ReadRepo"]), e.RoleDeleted(role_urn("gone")),
    )  # fmt: skip
    before = dict(journal.facts)
    event = type(event)(*[getattr(event, name) for name in _fields(event)])
    found, detail = journal.rejected(event, **fields)
    assert found == reason
    assert journal.facts == before
    if reason not in {"invalid", "wrong-aggregate"}:
        of = event.aggregate if reason == "disabled" or (reason, event.TYPE) == NOBODY_S_KEY else event.entities[0]
        assert (detail["entity"], type(detail["entity"])) == (str(of), str)  # as JSON has it
        assert len(detail) == (3 if reason == "stale-entity" else 1)


def _fields(event: Any) -> list[str]:
    names = [name for one in reversed(type(event).__mro__) for name in getattr(one, "__slots__", ())]
    return list(dict.fromkeys(names))


def test_a_thousand_keys_and_grants_are_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (rules.MAX_KEYS, rules.MAX_GRANTS) == (1000, 1000)
    monkeypatch.setattr(rules, "MAX_KEYS", 3)
    keys = [key_urn("ada", f"{number:024x}") for number in range(5)]
    journal = begun(*[e.KeyIssued(key, HASH) for key in keys[:3]])
    reason, detail = journal.rejected(e.KeyIssued(keys[3], HASH))
    assert (reason, detail) == ("too-large", {"entity": "access-principal:ada", "keys": 4, "limit": 3})
    assert type(detail["entity"]) is str
    assert verdict(journal, e.KeyRevoked(keys[0])) == "accepted"
    assert verdict(journal, e.KeyIssued(keys[3], HASH)) == "accepted"
    ada = principal_urn("ada")
    assert verdict(journal, e.RolesGranted(ada, [("r", f"dataset:{n}/*") for n in range(1000)])) == "accepted"
    reason, detail = journal.rejected(e.RolesGranted(ada, [("r", "*")]))
    assert (reason, detail["grants"], detail["limit"]) == ("too-large", 1001, 1000)


def test_grants_of_a_principal_are_no_larger_than_an_entity() -> None:
    ada, part = principal_urn("ada"), "x" * (MAX_URN_BYTES - 20)
    grants = [("r" * 100, f"dataset:{part}{number:04}") for number in range(900)]
    journal = begun(e.RolesGranted(ada, grants[:400]))
    reason, detail = journal.rejected(e.RolesGranted(ada, grants[400:]))
    assert reason == "too-large"
    size_bytes = sum(len(role) + len(pattern) + 6 for role, pattern in grants)
    assert size_bytes > MAX_ENTITY_BYTES
    assert detail == {
        "entity": "access-principal:ada", "grants": 900, "size_bytes": size_bytes, "limit": 1000,
        "limit_bytes": MAX_ENTITY_BYTES,
    }  # fmt: skip
    assert type(detail["entity"]) is str


def test_grants_may_have_just_the_size_of_an_entity(monkeypatch: pytest.MonkeyPatch) -> None:
    ada, grants = principal_urn("ada"), [("reader", "dataset:a/*"), ("mine", "*")]
    monkeypatch.setattr(rules, "MAX_ENTITY_BYTES", 6 + 11 + 6 + 4 + 1 + 6)
    assert verdict(begun(), e.RolesGranted(ada, grants)) == "accepted"
    monkeypatch.setattr(rules, "MAX_ENTITY_BYTES", 6 + 11 + 6 + 4 + 1 + 5)
    assert verdict(begun(), e.RolesGranted(ada, grants)) == "too-large"


@pytest.mark.parametrize(
    "event", [TagsAdded(ADA, ["x"]), PropertiesSet(KEY, {"a": "b"}), TagsAdded("access-role:mine", ["x"])]
)
def test_nothing_of_access_takes_annotations(event: Any) -> None:
    journal = begun(e.KeyIssued(key_urn("ada", ID), HASH), e.RoleDefined(role_urn("mine"), ["ReadRepo"]))
    reason, faults = journal.rejected(type(event)(*[getattr(event, name) for name in _fields(event)]))
    assert reason == "invalid"
    assert [fault["field"] for fault in faults] == ["entity"]
    assert "takes no annotations" in faults[0]["message"]
    assert journal.rejected(EntityRegistered(principal_urn("eve")))[0] == "invalid"


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (e.PrincipalRegistered("access-principal:Ada"), "principal"),
        (e.PrincipalRegistered("access-role:ada"), "principal"),
        (e.PrincipalRegistered("no URN"), "principal"),
        (e.RolesGranted(ADA, ()), "grants"),
        (e.RolesGranted(ADA, "admin"), "grants"),  # type: ignore[arg-type]
        (e.RolesGranted(ADA, [("Admin", "*")]), "grants[0].role"),
        (e.RolesGranted(ADA, [("admin", "dataset:team-a*")]), "grants[0].pattern"),
        (e.RolesGranted(ADA, [{"role": "admin"}]), "grants[0]"),
        (e.RolesRevoked(ADA), "grants"),
        (e.RolesRevoked(ADA, [("admin", "*")], all=True), "all"),
        (e.KeyIssued("access-key:ada/short", HASH), "key"),
        (e.KeyIssued(KEY, "the-secret-itself"), "hash"),
        (e.KeyIssued(KEY, HASH, -1), "not_after"),
        (e.KeyIssued(KEY, HASH, True), "not_after"),
        (e.KeyIssued(KEY, HASH, None, "x" * 257), "label"),
        (e.KeyIssued(KEY, HASH, None, "", 1), "once"),  # type: ignore[arg-type]
        (e.RoleDefined("access-role:mine", []), "actions"),
        (e.RoleDefined("access-role:mine", "ReadRepo"), "actions"),
        (e.RoleDefined("access-role:mine", ["read repo"]), "actions[0]"),
    ],
)
def test_a_fault_is_named_by_its_field(event: Any, field: str) -> None:
    again = type(event)(*[getattr(event, name) for name in _fields(event)])
    faults = again.validate()
    assert [fault.field for fault in faults] == [field]
    assert "the-secret-itself" not in faults[0].message


def test_what_is_wrong_with_a_pattern_reads_on_from_its_name() -> None:
    assert (pattern_fault("*:*") or "").startswith("of every kind must be *:namespace/*")


@pytest.mark.parametrize("pattern", ["*", "dataset:*", "dataset:a/*", "dataset:a/b", "*:a/*", "x-y:%2Fa/b%20c/*"])
def test_a_pattern_of_the_grammar_is_taken(pattern: str) -> None:
    assert pattern_fault(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        ("dataset:team-a*", "Use dataset:*, or dataset:team-a/*"),
        ("dataset:a/b*", "Use dataset:a/*, or dataset:a/b/*"),
        ("dataset:*/b", "Use dataset:*"),
        ("*:te*m/*", "Use *, or *:te/*"),
    ],
)
def test_a_star_inside_of_a_name_is_refused_with_what_would_do(pattern: str, instead: str) -> None:
    assert instead in (pattern_fault(pattern) or "")


@pytest.mark.parametrize(
    "pattern",
    ["", "x", "dataset:", ":a", "*:*", "*:a", "*:a/b/*", "dataset:a//*", "dataset:a/", "Dataset:a/*", "d:a b/*",
     "dataset:%61/*", "dataset:%2f/*", "dataset:%FF/*", "dataset:%4", "dataset:.a/*", "dataset:é/*", "a" * 1025],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    assert pattern_fault(pattern)


NAMES, ROLES = ("ada", "bob"), ("mine", "yours", "admin")
KEYS = tuple(f"{number:024x}" for number in range(4))
SOME_GRANTS = st.sets(st.tuples(st.sampled_from(ROLES), st.sampled_from(("*", "dataset:a/*"))), min_size=1)


class AgainstThePlainModel(RuleBasedStateMachine):
    """Events one after another, through the codec and the rules, and by the model."""

    def __init__(self) -> None:
        super().__init__()
        self.journal, self.model = Catalog(), Access(rules.MAX_GRANTS, rules.MAX_KEYS)

    def _both(self, event: Any, expected: str) -> None:
        header = header_for(event, self.journal.records + 1)
        decoded = codec.decode(codec.encode(event, header))
        assert decoded.event == event
        assert verdict(self.journal, decoded.event) == expected

    @rule(name=st.sampled_from(NAMES))
    def register(self, name: str) -> None:
        self._both(e.PrincipalRegistered(principal_urn(name)), self.model.register(name))

    @rule(name=st.sampled_from(NAMES))
    def disable(self, name: str) -> None:
        self._both(e.PrincipalDisabled(principal_urn(name)), self.model.disable(name))

    @rule(name=st.sampled_from(NAMES), grants=SOME_GRANTS)
    def grant(self, name: str, grants: set[tuple[str, str]]) -> None:
        self._both(e.RolesGranted(principal_urn(name), grants), self.model.grant(name, grants))

    @rule(name=st.sampled_from(NAMES), grants=st.none() | SOME_GRANTS)
    def revoke(self, name: str, grants: set[tuple[str, str]] | None) -> None:
        event = e.RolesRevoked(principal_urn(name), grants or (), all=grants is None)
        self._both(event, self.model.revoke(name, grants))

    @rule(name=st.sampled_from(NAMES), key=st.sampled_from(KEYS))
    def issue(self, name: str, key: str) -> None:
        self._both(e.KeyIssued(key_urn(name, key), HASH, 7, "x"), self.model.issue(name, key))

    @rule(name=st.sampled_from(NAMES), key=st.sampled_from(KEYS))
    def revoke_key(self, name: str, key: str) -> None:
        self._both(e.KeyRevoked(key_urn(name, key)), self.model.revoke_key(name, key))

    @rule(role=st.sampled_from(ROLES), actions=st.sets(st.sampled_from(("ReadRepo", "WriteRepo")), min_size=1))
    def define(self, role: str, actions: set[str]) -> None:
        self._both(e.RoleDefined(role_urn(role), sorted(actions)), self.model.define(role, actions, CONSTANT_ROLES))

    @rule(role=st.sampled_from(ROLES))
    def delete(self, role: str) -> None:
        self._both(e.RoleDeleted(role_urn(role)), self.model.delete(role, CONSTANT_ROLES))

    @invariant()
    def stands_alike(self) -> None:
        rows = {urn: row for (_, urn), row in self.journal.newest.items()}
        facts = {row.urn: row for (table, _, _), row in self.journal.facts.items() if table == "access_keys"}
        for name, principal in self.model.principals.items():
            grants = [list(grant) for grant in sorted(principal.grants)]
            assert rows[principal_urn(name)].record == {"enabled": principal.enabled, "grants": grants}
            for key, holds in principal.keys.items():
                urn = key_urn(name, key)
                assert (not rows[urn].deleted, not facts[urn].deleted) == (holds, holds)
                assert (facts[urn].hash, facts[urn].not_after, facts[urn].label) == (HASH if holds else None, 7, "x")
        roles = {urn: row.record and {*row.record["actions"]} for urn, row in rows.items() if row.kind == "access-role"}
        assert roles == {role_urn(role): actions for role, actions in self.model.roles.items()}


@pytest.mark.thorough
def test_whatever_comes_is_judged_as_the_plain_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_KEYS", 2)
    monkeypatch.setattr(rules, "MAX_GRANTS", 3)
    run_state_machine_as_test(
        AgainstThePlainModel, settings=settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
    )
