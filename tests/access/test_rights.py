"""What rights allow, held against a small universe of entities in which each is looked at by itself."""

from __future__ import annotations

import re
import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.access import rights as declared
from metajournal.domains.access.rights import Rights, action_on, known_actions
from metajournal.domains.catalog.domain import PROGRAM_TYPES
from metajournal.schemas.domain import Actions, Domain, Kind
from metajournal.schemas.kinds import KINDS
from metajournal.schemas.urn import Urn
from metajournal.schemas.within import are_all_within
from tests.outside.taking_in import taken_in
from tests.properties import examples

NAMES = ("a", "ab", "z")
"""`z` stands in no pattern: it is any other name. `ab` begins as `a` does."""
PATHS: dict[str, list[tuple[str, ...]]] = {
    "dataset": list(product(NAMES, repeat=2)),
    "program": [
        (*head, word, name)
        for head in product(NAMES[:2], repeat=2)
        for word in sorted(PROGRAM_TYPES)
        for name in ("a", "z")
    ],
    "repo": [(name,) for name in NAMES],
    "branch": list(product(NAMES, repeat=2)),
    "file": [(name, "z", "z") for name in NAMES],
    "table": list(product(NAMES, repeat=2)),
    "access-principal": [(name,) for name in NAMES],
    "access-key": list(product(NAMES, repeat=2)),
    "thing": [path for length in (1, 2, 3) for path in product(NAMES, repeat=length)],
    "other": [("z",), ("a", "z"), ("z", "z")],
}
"""`thing` is a kind that nobody declares; `other` another, which no pattern names."""
UNIVERSE = [f"{kind}:{'/'.join(path)}" for kind, paths in PATHS.items() for path in paths]
PATTERNS = [
    "*", "*:a/*", *[f"{kind}:*" for kind in PATHS if kind != "other"],
    *[f"{kind}:a/*" for kind in ("dataset", "branch", "thing", "program", "access-key", "repo")],
    *[f"program:a/a/{word}/*" for word in sorted(PROGRAM_TYPES)], "program:a/a/*", "program:a/a/flow", "thing:a/ab/*",
    "dataset:a/ab", "repo:a", "repo:ab", "thing:a", "program:a/a/flow/a", "program:a/a/nothing/a", "dataset:a",
]  # fmt: skip
ROLES = {
    "reader": frozenset({"ReadRepo", "ReadEntity"}),
    "guard": frozenset({"ReadAccess", "WriteSystem", "WriteLineage"}),
    "unknown": frozenset({"ReadMinds"}),
    "of-repositories": frozenset({"ReadRepo"}),
    "of-access": frozenset({"ReadAccess"}), "of-lineage": frozenset({"WriteLineage"}),
}  # fmt: skip
NAMED = ("admin", "developer", "analyst", "emitter", *ROLES, "nobody-defined-it")
GRANTS = st.lists(st.tuples(st.sampled_from(NAMED), st.sampled_from(PATTERNS)), max_size=5)
CONSTANT = {
    "developer": "ReadRepo WriteRepo ReadEntity WriteEntity ReadFile WriteFile ReadTable WriteTable WriteLineage "
    "ReadPipeline",
    "analyst": "ReadRepo ReadEntity ReadFile ReadTable",
    "emitter": "WriteEntity WriteFile WriteTable WriteLineage",
}
ALL = (
    "CreateRepo DeleteRepo ReadRepo WriteRepo ReadEntity WriteEntity DeleteEntity ReadFile WriteFile DeleteFile "
    "ReadTable WriteTable DeleteTable WriteLineage WriteSystem ReadAccess WriteAccess ReadPipeline"
)
CLASSES = {
    "dataset": "Entity", "program": "Entity", "thing": "Entity", "other": "Entity", "repo": "Repo", "branch": "Repo",
    "file": "File", "table": "Table", "access-principal": "Access", "access-key": "Access",
}  # fmt: skip
WITH_NAMESPACE = ("dataset", "program", "table", "thing", "other")


def plainly(grants: list[tuple[str, str]], action: str, text: str) -> bool:
    """Whether an action is allowed, by the words of the page alone."""
    kind, _, path = text.partition(":")
    across = action in ("WriteLineage", "WriteSystem", "ReadPipeline") and CLASSES[kind] != "Access"
    if not across and not action.endswith(CLASSES[kind]):
        return False
    for role, pattern in grants:
        allowed = ALL if role == "admin" else CONSTANT.get(role) or " ".join(ROLES.get(role, ()))
        if action in allowed.split() and _fits(pattern, kind, path):
            return True
    return False


def _fits(pattern: str, kind: str, path: str) -> bool:
    if pattern.startswith("*:"):
        return kind in WITH_NAMESPACE and path.startswith(pattern[2:-1])
    if pattern == "*" or not pattern.endswith("*"):
        return pattern in ("*", f"{kind}:{path}")
    return f"{kind}:{path}".startswith(pattern[:-1])


def test_the_actions_are_those_of_the_page() -> None:
    assert known_actions() == {*ALL.split()}
    assert (declared.READ, declared.WRITE, declared.DELETE, declared.CREATE) == ("Read", "Write", "Delete", "Create")
    assert (declared.READ_ACCESS, declared.WRITE_ACCESS) == ("ReadAccess", "WriteAccess")
    assert (declared.WRITE_LINEAGE, declared.WRITE_SYSTEM) == ("WriteLineage", "WriteSystem")
    assert declared.READ_PIPELINE == "ReadPipeline"


@pytest.mark.thorough
@given(GRANTS)
@settings(max_examples=examples(120), deadline=None)
def test_what_may_be_done_is_what_the_page_says(grants: list[tuple[str, str]]) -> None:
    rights = Rights(grants, ROLES)
    for action in ALL.split():
        assert [one for one in UNIVERSE if rights.may(action, Urn.parse(one))] == [
            one for one in UNIVERSE if plainly(grants, action, one)
        ], action


@given(GRANTS, st.sampled_from(["Read", "Write", "Delete", "Create", *ALL.split()]))
@settings(max_examples=examples(200), deadline=None)
def test_within_is_what_may_be_done_to_each(grants: list[tuple[str, str]], action: str) -> None:
    rights = Rights(grants, ROLES)
    conditions = rights.within(action)
    for urn in map(Urn.parse, UNIVERSE):
        assert any(one.holds(urn) for one in conditions) == rights.may(action, urn), urn


@given(GRANTS, st.sampled_from(["Read", "Write", "Delete", *ALL.split()]))
@settings(max_examples=examples(60), deadline=None)
def test_everywhere_is_where_everything_it_is_possible_on_is_allowed(
    grants: list[tuple[str, str]], action: str
) -> None:
    rights, every = Rights(grants, ROLES), Rights([("admin", "*")], {})
    possible = [urn for urn in map(Urn.parse, UNIVERSE) if every.may(action, urn)]
    everywhere = rights.everywhere(action)
    assert not everywhere or all(rights.may(action, urn) for urn in possible)
    assert every.everywhere(action)


def test_everywhere_is_of_every_class_that_has_a_verb() -> None:
    assert not Rights([("analyst", "*")], {}).everywhere("Read"), "keys and roles may not be read"
    assert Rights([("analyst", "*")], {}).everywhere("ReadEntity")
    assert not Rights([("admin", f"{kind}:*") for kind in KINDS], {}).everywhere("Read"), "kinds that nobody declares"
    assert not Rights([("admin", "*:a/*")], {}).everywhere("Read")
    of_repositories = [("analyst", f"{kind}:*") for kind in KINDS if action_on("Read", kind) == "ReadRepo"]
    assert Rights(of_repositories, {}).everywhere("ReadRepo"), "on others it is not possible"
    assert not Rights([], {}).everywhere("Read")


BEGINNINGS = [f"{kind}:{path}" for kind in PATHS for path in ("", "a/", "ab/", "a/a/", "a/ab/")]


@given(GRANTS, st.sampled_from(["Read", "Write"]))
@settings(max_examples=examples(200), deadline=None)
def test_all_of_a_region_is_within_where_one_grant_takes_in_all_of_it(
    grants: list[tuple[str, str]], action: str
) -> None:
    rights = Rights(grants, ROLES)
    for beginning in BEGINNINGS:
        kind = beginning.partition(":")[0]
        taken_in = [
            (role, pattern)
            for role, pattern in grants
            if pattern == "*"
            or (pattern == "*:a/*" and kind in WITH_NAMESPACE and beginning.startswith(f"{kind}:a/"))
            or ((pattern.endswith(("/*", ":*"))) and beginning.startswith(pattern[:-1]))
        ]
        is_allowed = any(
            plainly([(role, "*")], f"{action}{CLASSES[kind]}", f"{kind}:a/a/flow/z") for role, _ in taken_in
        )
        assert are_all_within(beginning, rights.within(action)) == is_allowed, beginning
        if is_allowed:
            assert all(rights.may(action, Urn.parse(one)) for one in UNIVERSE if one.startswith(beginning))


@given(GRANTS, GRANTS)
@settings(max_examples=examples(300), deadline=None)
def test_rights_cover_others_exactly_if_nothing_is_allowed_by_those_and_not_by_these(
    grants: list[tuple[str, str]], others: list[tuple[str, str]]
) -> None:
    one, other = Rights(grants, ROLES), Rights(others, ROLES)
    excess = [
        (action, urn)
        for action in ALL.split()
        for urn in UNIVERSE
        if plainly(others, action, urn) and not plainly(grants, action, urn)
    ]
    assert one.covers(other) == (not excess), excess[:3]


@given(GRANTS, GRANTS)
@settings(max_examples=examples(100), deadline=None)
def test_grants_only_add(grants: list[tuple[str, str]], more: list[tuple[str, str]]) -> None:
    fewer, all_of_them = Rights(grants, ROLES), Rights([*grants, *more], ROLES)
    assert all_of_them.covers(fewer)
    assert fewer.covers(fewer)
    assert fewer.covers(all_of_them) == fewer.covers(Rights(more, ROLES))


def test_programs_of_every_type_are_all_programs_of_an_app() -> None:
    by_type = Rights([("analyst", f"program:a/b/{word}/*") for word in PROGRAM_TYPES], {})
    whole = Rights([("analyst", "program:a/b/*")], {})
    assert by_type.covers(whole)
    assert not Rights(by_type.grants[1:], {}).covers(whole)


def test_a_name_that_begins_alike_is_another() -> None:
    rights = Rights([("analyst", "dataset:team-a/*"), ("analyst", "repo:team-a")], {})
    assert rights.may("Read", Urn.parse("dataset:team-a/x"))
    for beside in ("dataset:team-ab/x", "dataset:team/x", "dataset:team-a%2Fx/y", "repo:team-ab", "stream:team-a/x"):
        assert not rights.may("Read", Urn.parse(beside)), beside


def test_no_namespace_is_a_principals_name_or_a_repositorys() -> None:
    rights = Rights([("admin", "*:ops/*")], {})
    assert rights.may("Delete", Urn.parse("dataset:ops/x"))
    assert rights.may("Write", Urn.parse("thing:ops/x/y"))
    for beside in ("access-key:ops/z", "branch:ops/main", "file:ops/x/y", "thing:ops", "access-principal:ops"):
        assert not rights.may("Read", Urn.parse(beside)), beside


@pytest.mark.parametrize("action", ["WriteSystem", "WriteLineage", "ReadPipeline", "ReadEntity", "Delete", "Create"])
def test_on_keys_principals_and_roles_is_allowed_what_is_of_their_class_alone(action: str) -> None:
    admin = Rights([("admin", "*")], {})
    for text in ("access-key:a/z", "access-principal:a", "access-role:a"):
        assert not admin.may(action, Urn.parse(text))
        assert admin.may("Read", Urn.parse(text))
        assert admin.may("WriteAccess", Urn.parse(text))


@pytest.mark.parametrize(
    ("action", "urn", "whole"),
    [
        ("Read", "dataset:a/b", "ReadEntity"), ("Write", "dataset:a/b", "WriteEntity"),
        ("Write", "repo:a", "WriteRepo"), ("Delete", "repo:a", "DeleteRepo"), ("Read", "unheard-of:a/b", "ReadEntity"),
        ("WriteLineage", "dataset:a/b", "WriteLineage"), ("ReadPipeline", "repo:a", "ReadPipeline"),
    ],
)  # fmt: skip
def test_an_action_is_told_by_the_name_that_roles_have(action: str, urn: str, whole: str) -> None:
    assert Rights([], {}).whole(action, Urn.parse(urn)) == whole


def test_a_role_cannot_be_redefined_by_a_journal() -> None:
    """Its rules refuse it; whoever writes past them gains nothing."""
    rights = Rights([("analyst", "*")], {"analyst": frozenset({"WriteEntity"})})
    assert not rights.may("Write", Urn.parse("dataset:a/b"))


def test_what_is_no_pattern_allows_nothing() -> None:
    assert Rights([("admin", "dataset:a*"), ("admin", "")], {}) == Rights([], {})


def test_every_kind_of_a_domain_is_of_its_class() -> None:
    for text in UNIVERSE:
        kind = text.partition(":")[0]
        assert action_on("Read", kind) == f"Read{CLASSES[kind]}"
    assert all(re.fullmatch("[A-Z][a-z]+[A-Z][a-z]+", action) for action in known_actions())


# Every pattern against every other, which examples drawn by chance may miss


def allowed(grants: list[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """What grants allow, by the words of the page alone."""
    return frozenset((action, urn) for action in ALL.split() for urn in UNIVERSE if plainly(grants, action, urn))


@pytest.mark.parametrize("role", ["admin", "of-repositories", "of-access", "of-lineage"])
def test_a_pattern_covers_another_exactly_if_it_takes_in_all_of_it(role: str) -> None:
    by_pattern = {pattern: allowed([(role, pattern)]) for pattern in PATTERNS}
    rights = {pattern: Rights([(role, pattern)], ROLES) for pattern in PATTERNS}
    for own, other in product(PATTERNS, repeat=2):
        assert rights[own].covers(rights[other]) == (by_pattern[other] <= by_pattern[own]), (own, other)


@pytest.mark.thorough
@pytest.mark.parametrize("role", ["admin", "analyst", "guard"])
def test_within_is_what_may_be_done_with_each_pattern(role: str) -> None:
    for pattern, action in product(PATTERNS, ["Read", "Write", "ReadAccess", "WriteSystem"]):
        rights = Rights([(role, pattern)], ROLES)
        conditions = rights.within(action)
        for urn in map(Urn.parse, UNIVERSE):
            may = rights.may(action, urn)
            assert any(one.holds(urn) for one in conditions) == may == plainly_on([(role, pattern)], action, urn)


def plainly_on(grants: list[tuple[str, str]], action: str, urn: Urn) -> bool:
    whole = f"{action}{CLASSES[urn.kind]}" if action in ("Read", "Write") else action
    return plainly(grants, whole, str(urn))


def test_apps_called_like_types_of_programs_are_not_all_apps() -> None:
    called = Rights([("admin", f"program:a/{word}/*") for word in PROGRAM_TYPES], {})
    assert not called.covers(Rights([("admin", "program:a/*")], {}))


@pytest.mark.parametrize("empty", ["program:a/a/nothing/*", "program:a/a/flow/x/*", "dataset:a/b/*", "repo:a/*"])
def test_a_pattern_that_takes_in_nothing_is_covered_by_nothing(empty: str) -> None:
    assert Rights([], {}).covers(Rights([("admin", empty)], {}))
    assert not Rights([], {}).covers(Rights([("admin", "thing:a/b/c/d/*")], {}))


@pytest.mark.parametrize(
    "empty", ["dataset:a", "dataset:a/b/*", "repo:a/*", "access-role:x", "access-role:a/*", "program:a/a/flow/x/*"]
)
def test_a_pattern_that_takes_in_nothing_does_not_allow_what_is_of_no_entity(empty: str) -> None:
    """It is covered by nothing, so else somebody could give the pipeline who may not see it."""
    rights = Rights([("admin", empty), ("developer", empty)], {})
    assert not any(rights.anywhere(action) for action in ("ReadPipeline", "WriteSystem", "WriteLineage"))
    for pattern in ("dataset:a/b", "undeclared:a/b", "*", "*:a/*", "repo:a"):
        assert Rights([("developer", pattern)], {}).anywhere("ReadPipeline")
    assert not Rights([("analyst", "*")], {}).anywhere("ReadPipeline")


def test_many_patterns_are_held_against_many_in_proportion_to_their_number() -> None:
    """Who has a thousand grants and gives a thousand kept the gateway from everything else for seconds."""

    def calls(count: int) -> int:
        patterns = [
            *(f"dataset:a/d{number}" for number in range(count)),
            *(f"*:n{number}/*" for number in range(count)),
        ]
        own, given_ = (Rights([("admin", pattern) for pattern in patterns], {}) for _ in range(2))
        counted = 0

        def count_calls(frame: object, event: str, arg: object) -> None:
            nonlocal counted
            counted += event == "call"

        sys.setprofile(count_calls)
        try:
            assert own.covers(given_)
        finally:
            sys.setprofile(None)
        return counted

    assert calls(320) < 2.5 * calls(160)


def test_patterns_of_all_kinds_that_are_known_are_not_everything() -> None:
    named = [*KINDS, "any-0", "any-1"]
    every = Rights([("admin", f"{kind}:*") for kind in named], {})
    assert not every.covers(Rights([("admin", "*")], {}))
    assert not every.covers(Rights([("admin", "*:a/*")], {}))
    assert every.covers(Rights([("admin", "any-1:*"), ("admin", "dataset:a/*")], {}))


def test_grants_are_told_in_order() -> None:
    grants = [("analyst", f"dataset:a/d{number:02}") for number in range(40)]
    assert Rights([*grants[::-1], *grants], {}).grants == tuple(grants)


def test_one_that_is_in_a_region_does_not_hide_a_later_one_that_is_named() -> None:
    own = Rights([("admin", pattern) for pattern in ("dataset:a/b", "dataset:c/*", "dataset:d/x")], {})
    assert own.covers(Rights([("admin", "dataset:c/q"), ("admin", "dataset:d/x")], {}))


def test_rights_are_values() -> None:
    one = Rights([("developer", "dataset:b/*"), ("analyst", "dataset:a/*"), ("analyst", "dataset:a/*")], ROLES)
    same = Rights([("nobody-defined-it", "*"), ("analyst", "dataset:a/*"), ("developer", "dataset:b/*")], ROLES)
    assert one == same
    assert hash(one) == hash(same)
    assert one != Rights(one.grants[:1], ROLES)
    assert one != Rights([*one.grants, ("admin", "*")], ROLES)
    assert one != one.grants
    assert one.grants == (("analyst", "dataset:a/*"), ("developer", "dataset:b/*"))
    assert repr(one) == "Rights([('analyst', 'dataset:a/*'), ('developer', 'dataset:b/*')])"
    differing = product(("admin", "developer", "analyst", "emitter"), ("dataset:a/*", "dataset:b/*"))
    assert len({hash(Rights([grant], {})) for grant in differing}) == 8
    roles = [("reader", pattern) for pattern in PATTERNS] + [("guard", pattern) for pattern in reversed(PATTERNS)]
    assert hash(Rights(roles, ROLES)) == hash(Rights(reversed(roles), ROLES))


def test_what_a_domain_from_outside_declares_can_be_allowed() -> None:
    games = Domain("games", "", (Kind("game", "games"),), actions=Actions("Game", ("Read", "Play")))
    assert "PlayGame" not in known_actions()
    with taken_in(games):
        assert {"ReadGame", "PlayGame"} <= known_actions()
        assert Rights([("admin", "*")], {}).may("PlayGame", Urn.parse("game:chess"))
        roles = {"player": frozenset({"PlayGame"})}
        rights = Rights([("player", "game:chess")], roles)
        assert [rights.may(action, Urn.parse("game:chess")) for action in ("PlayGame", "Read")] == [True, False]
        assert not rights.may("PlayGame", Urn.parse("game:go"))
    assert "PlayGame" not in known_actions()


def test_what_is_within_is_worked_out_once() -> None:
    rights = Rights([("developer", "dataset:a/*")], {})
    assert rights.within("Read") is rights.within("Read")
    assert rights.within("Read") != rights.within("Delete")


def test_anywhere_is_on_anything() -> None:
    rights = Rights([("developer", "dataset:a/*"), ("unknown", "*")], ROLES)
    assert [action for action in (*ALL.split(), "ReadMinds") if rights.anywhere(action)] == [
        action for action in ALL.split() if action in CONSTANT["developer"].split()
    ]


def test_an_action_that_a_class_does_not_have_is_none() -> None:
    assert (action_on("Create", "repo"), action_on("Create", "dataset"), action_on("CreateEntity", "dataset")) == (
        "CreateRepo", None, None,
    )  # fmt: skip
    assert (action_on("Delete", "thing"), action_on("Delete", "access-key")) == ("DeleteEntity", None)
    assert (action_on("Reading", "dataset"), action_on("ReadPipeline", "dataset")) == (None, "ReadPipeline")
    assert action_on("ReadPipeline", "access-key") is None
