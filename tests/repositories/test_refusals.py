"""A refused decision is one class, whoever refuses it: the client beforehand, a commit, or a receipt's outcome."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from metajournal import Journal
from metajournal.domains.repositories import errors
from metajournal.domains.repositories.client import Repository
from metajournal.domains.repositories.domain import DOMAIN
from metajournal.domains.repositories.errors import (
    AlreadyThereError,
    DirtyBranchError,
    NothingStagedError,
    NothingToMergeError,
    NotThereError,
    ProtectedBranchError,
    StaleHeadError,
    StaleStagingError,
    TooManyMembersError,
)
from metajournal.producers.verdicts import Duplicate, Rejected
from metajournal.schemas.errors import RejectedError, UnknownEntityError
from metajournal.schemas.positions import Position
from metajournal.schemas.rejections import next_step
from metajournal.terminal.exits import PROBLEM, exit_code
from tests.consumers.stream import BrokerStream
from tests.repositories.operations import UNKNOWN
from tests.repositories.staying import committed, entry

PLACE = Position("any.prefix.journal.repositories", 0, 7)
MAIN = "branch:r1/main"
DEV = "branch:r1/dev"
REFUSED: dict[str, tuple[type[RejectedError], Any]] = {
    "unknown-entity": (NotThereError, {"entity": MAIN}),
    "exists": (AlreadyThereError, {"entity": MAIN}),
    "protected": (ProtectedBranchError, {"branch": MAIN}),
    "stale-head": (StaleHeadError, {"branch": MAIN, "expected": "", "found": "ab" * 32}),
    "stale-staging": (StaleStagingError, {"branch": MAIN, "expected": "00" * 16, "found": "11" * 16}),
    "dirty": (DirtyBranchError, {"branch": MAIN, "staged_events": 1, "staged_rows": 2}),
    "nothing-to-merge": (NothingToMergeError, {"source": MAIN, "destination": "branch:r1/dev"}),
    "nothing-staged": (NothingStagedError, {"branch": MAIN}),
    "too-many": (TooManyMembersError, {"repository": "repo:r1", "members": 10_000, "limit": 10_000}),
    "too-large": (RejectedError, {"entity": MAIN, "size_bytes": 1, "limit_bytes": 0}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_receipts_outcome_raises_the_class_of_its_reason_with_its_data(reason: str) -> None:
    kind, detail = REFUSED[reason]
    refused = Rejected(PLACE, reason, detail)
    for outcome in (refused, Duplicate(Position(PLACE.topic, 0, 9), PLACE, refused)):
        with pytest.raises(RejectedError) as caught:
            outcome.raise_if_rejected()
        error = caught.value
        assert (type(error), error.reason, error.position) == (kind, reason, PLACE)
        told: Any = error.detail
        assert detail.items() <= told.items()
        assert kind in (NotThereError, RejectedError) or detail.items() <= error.data.items()
        assert error.hint == next_step(reason, PLACE.topic)
        assert errors.refusal(error).hint == (error.hint if kind is RejectedError else kind.HINT)
        assert exit_code(error) == PROBLEM
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.reason, str(again)) == (kind, reason, str(error))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DirtyBranchError(MAIN, 1, 1), f"On {MAIN} 1 path is staged, in 1 event."),
        (DirtyBranchError(MAIN, 2, 1_000), f"On {MAIN} 1,000 paths are staged, in 2 events."),
        (NothingToMergeError(DEV, MAIN, "ab" * 32, "cd" * 32),
         f"{MAIN} already contains all commits of {DEV}, which is at abababababab."),
        (NothingToMergeError(DEV, MAIN, position=PLACE), f"{MAIN} already contains all commits of {DEV}."),
        (NothingToMergeError(DEV, MAIN), f"{DEV} has no commit that could be merged into {MAIN}."),
    ],
)  # fmt: skip
def test_a_refusal_says_it_of_one_and_of_many(error: RejectedError, message: str) -> None:
    assert error.message == message


@pytest.mark.parametrize("hint", [NotThereError.HINT, next_step("unknown-entity", PLACE.topic)])
def test_the_next_step_where_something_is_not_there_fits_a_deletion_too(hint: str) -> None:
    assert "`metajournal repo list`" in hint
    assert hint.endswith("must be created first, and need not be deleted.")


def test_every_reason_of_the_domain_is_looked_at_here() -> None:
    assert {*DOMAIN.reasons} == REFUSED.keys()


def test_what_is_not_there_is_an_unknown_entity_to_whoever_asks_for_that() -> None:
    with pytest.raises(UnknownEntityError) as unknown:
        Rejected(PLACE, "unknown-entity", {"entity": MAIN}).raise_if_rejected()
    assert (unknown.value.urn, unknown.value.message) == (MAIN, f"There is no entity {MAIN}.")


@pytest.mark.parametrize("detail", [None, "text", [], {"branch": MAIN}])
def test_what_another_version_may_say_otherwise_is_still_a_rejection(detail: Any) -> None:
    with pytest.raises(RejectedError) as caught:
        Rejected(PLACE, "stale-head", detail).raise_if_rejected()
    assert (type(caught.value), caught.value.detail) == (RejectedError, detail)


def test_of_another_domains_topic_the_same_reason_is_no_repositorys() -> None:
    with pytest.raises(RejectedError) as caught:
        Rejected(Position("any.journal.catalog", 0, 7), *("exists", {"entity": MAIN})).raise_if_rejected()
    assert type(caught.value) is RejectedError


def test_one_except_serves_what_the_client_and_what_the_rules_refuse(
    journal: Journal, repo: Repository, stream: BrokerStream
) -> None:
    main, dev = repo.branch("main"), repo.branch("dev")
    first = committed(main, "a")
    dev.create(first)
    main.write([entry("b")])
    sent = [
        (NotThereError, main.revert(UNKNOWN)),
        (DirtyBranchError, main.revert(first)),
        (StaleHeadError, main.reset(expected_head="")),
        (ProtectedBranchError, main.drop()),
        (AlreadyThereError, dev.create(first)),
        (StaleHeadError, dev.drop(expected_head=UNKNOWN)),
        (NotThereError, repo.branch("nowhere").write([entry("c")])[0]),
        (NotThereError, journal.repositories["nothing"].register(["a"])[0]),
        (NotThereError, journal.repositories["nothing"].delete()),
    ]
    stream.fold()
    outcomes = stream.outcomes()
    for kind, receipt in sent:
        with pytest.raises(kind):
            outcomes[receipt.position].raise_if_rejected()
    with pytest.raises(UnknownEntityError):
        repo.branch("nowhere").commit("m")
    with pytest.raises(UnknownEntityError):
        repo.branch("nowhere").merge_into("main")
