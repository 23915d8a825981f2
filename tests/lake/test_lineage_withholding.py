"""Pages of what may be seen against a list of it, and ids of answers that lead back to their data."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.lineage import withholding
from metajournal.domains.lineage.values import dotted, of_dotted
from metajournal.schemas.errors import InputError
from metajournal.schemas.urn import urn
from tests.properties import examples


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 6), st.integers(1, 5))
@settings(max_examples=examples(300), deadline=None)
def test_pages_are_full_and_have_all_that_may_be_seen(seen: list[bool], count: int, at_once: int) -> None:
    def read(after: int | None, most: int) -> Sequence[int]:
        begin = 0 if after is None else after + 1
        return [*range(len(seen))][begin : begin + most]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(withholding, "AT_ONCE", at_once)
        after, told = None, list[int]()
        while True:
            page = withholding.seen_rows(read, lambda row: row, lambda row: seen[row], after, count)
            told += page
            if len(page) < count:
                break
            after = page[-1]
    assert told == [number for number, is_seen in enumerate(seen) if is_seen]


def test_much_that_is_withheld_is_passed_over_in_few_reads() -> None:
    """Each read may begin anew, so that their number must not grow with what is left out."""
    asked: list[int] = []

    def read(after: int | None, most: int) -> Sequence[int]:
        asked.append(most)
        begin = 0 if after is None else after + 1
        return range(100_000)[begin : begin + most]

    assert withholding.seen_rows(read, lambda row: row, lambda _: False, None, 20) == []
    assert len(asked) <= 12
    assert max(asked) <= 16_000


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.sampled_from(["dataset", "stream", "thing"]), NAMES, NAMES)
@settings(max_examples=examples(300), deadline=None)
def test_an_id_of_an_answer_leads_back_to_its_data(kind: str, namespace: str, name: str) -> None:
    entity = urn(kind, namespace, name)
    assert of_dotted(dotted(entity)) == entity


@pytest.mark.parametrize("text", ["", "orders", "dataset.a", "dataset..b", "dataset.a.%FF", "flow.a.b.c", "run.a.b"])
def test_what_is_no_id_of_data_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        of_dotted(text)
