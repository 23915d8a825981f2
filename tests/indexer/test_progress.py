"""The vector: it moves only over what is shown, and never back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metajournal.indexer.fill.progress import Outcome, Progress, outcome_of

STATE, OUTCOMES, JOURNAL = ("state", 0), ("outcomes", 0), ("journal", 0)


def outcome(offset: int, to: int, end: int, time_ms: int = 0) -> Outcome:
    return Outcome(OUTCOMES, offset, JOURNAL, to, {STATE: end}, time_ms)


def progress() -> Progress:
    return Progress({}, {}, frozenset({"state"}))


def test_an_outcome_waits_for_the_refresh_that_shows_its_documents() -> None:
    current = progress()
    current.heard(outcome(0, to=10, end=5, time_ms=77))
    assert not current.settle()
    assert current.oldest_waiting_ms() == 77
    current.reached(STATE, 5)
    current.changed()
    assert not current.settle()
    assert current.offsets()[OUTCOMES] == 0
    current.refreshing()
    current.refreshed()
    assert current.settle()
    assert current.vector == {JOURNAL: 10}
    assert current.oldest_waiting_ms() is None
    assert current.offsets() == {STATE: 5, OUTCOMES: 1}


def test_a_refresh_shows_nothing_that_was_indexed_while_it_ran() -> None:
    current = progress()
    current.reached(STATE, 5)
    current.changed()
    current.refreshing()
    current.reached(STATE, 9)
    current.changed()
    current.heard(outcome(0, to=10, end=9))
    current.refreshed()
    assert not current.settle()
    assert current.unshown
    assert current.offsets()[STATE] == 5
    current.refreshing()
    current.refreshed()
    assert current.settle()
    assert not current.unshown


def test_offsets_that_are_not_shown_are_read_again_after_a_restart() -> None:
    current = progress()
    current.reached(STATE, 5)
    current.refreshing()
    current.refreshed()
    current.reached(STATE, 9)
    current.changed()
    current.settle()
    assert current.offsets()[STATE] == 5


def test_a_batch_without_documents_moves_the_vector_without_a_refresh() -> None:
    current = progress()
    current.heard(outcome(0, to=10, end=0))
    assert current.settle()


def test_an_outcome_whose_ends_lie_below_those_of_one_before_it_waits_for_these() -> None:
    current = progress()
    current.heard(outcome(0, to=10, end=5))
    current.heard(outcome(1, to=12, end=2))
    current.heard(Outcome(OUTCOMES, 2, JOURNAL, 13, {}, 0))
    current.reached(STATE, 4)
    assert not current.settle()
    assert current.offsets()[OUTCOMES] == 0
    current.reached(STATE, 5)
    assert current.settle()
    assert current.vector == {JOURNAL: 13}


def test_the_ends_of_one_journal_partition_hold_up_no_other_one() -> None:
    current, other = progress(), ("journal", 1)
    current.heard(outcome(0, to=10, end=5))
    current.heard(Outcome(OUTCOMES, 1, other, 7, {STATE: 2}, 0))
    current.reached(STATE, 2)
    assert current.settle()
    assert current.vector == {other: 7}


def test_a_repeated_outcome_never_lowers_the_vector() -> None:
    current = Progress({JOURNAL: 20}, {}, frozenset({"state"}))
    current.heard(outcome(3, to=10, end=0))
    assert not current.settle()
    assert current.vector == {JOURNAL: 20}
    assert current.oldest_waiting_ms() is None


def test_ends_of_other_topics_do_not_matter() -> None:
    data = {"topic": "j", "partition": 1, "to": 7, "ends": {"changes": {"0": 99}, "state": {"1": 3}}, "system_time": 5}
    assert outcome_of(data, OUTCOMES, 4, "state") == Outcome(OUTCOMES, 4, ("j", 1), 7, {("state", 1): 3}, 5)


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("state"), st.integers(0, 20)),
        st.tuples(st.just("outcome"), st.integers(0, 20)),
        st.tuples(st.just("refresh begins"), st.just(0)),
        st.tuples(st.just("refresh ends"), st.just(0)),
    ),
    max_size=40,
)


@given(_steps)
def test_in_any_order_the_vector_claims_only_what_a_refresh_has_shown(steps: list[tuple[str, int]]) -> None:
    current, indexed, begun, shown, offset = progress(), 0, -1, 0, 0
    for what, number in steps:
        before = dict(current.vector)
        if what == "state":
            indexed = max(indexed, number)
            current.reached(STATE, number)
            current.changed()
        elif what == "outcome":
            current.heard(outcome(offset, to=number, end=number))
            offset += 1
        elif what == "refresh begins":
            current.refreshing()
            begun = indexed
        elif begun >= 0:
            current.refreshed()
            shown, begun = max(shown, begun), -1
        current.settle()
        assert current.vector.get(JOURNAL, 0) <= shown
        assert current.vector.get(JOURNAL, 0) >= before.get(JOURNAL, 0)
        assert current.offsets().get(STATE, 0) <= shown
