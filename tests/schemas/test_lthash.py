"""LtHash16 against lanes that are added one by one, and with whatever order and grouping."""

from __future__ import annotations

from hashlib import shake_128
from struct import pack, unpack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.schemas import lthash, lthash_bulk
from metajournal.schemas.lthash import NOTHING, STATE_BYTES, LtHash16
from tests.properties import examples


def element(seed: int) -> bytes:
    """Of some seeds lanes that carry as much as can be."""
    return b"\xff" * STATE_BYTES if seed == 0 else shake_128(seed.to_bytes(4, "little")).digest(STATE_BYTES)


def lane_by_lane(added: list[int], removed: list[int]) -> bytes:
    lanes = [0] * 1024
    for sign, seeds in ((1, added), (-1, removed)):
        for seed in seeds:
            lanes = [
                (held + sign * one) % 65536 for held, one in zip(lanes, unpack("<1024H", element(seed)), strict=True)
            ]
    return pack("<1024H", *lanes)


SEEDS = st.lists(st.integers(0, 5), max_size=8)


@settings(max_examples=examples(60), deadline=None)
@given(SEEDS, SEEDS, st.randoms(use_true_random=False), st.integers(1, 5))
def test_it_is_the_sum_of_the_lanes_in_any_order_and_grouping(
    added: list[int], removed: list[int], random: object, most: int
) -> None:
    operations = [(LtHash16.add, seed) for seed in added] + [(LtHash16.remove, seed) for seed in removed]
    random.shuffle(operations)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lthash, "_MOST", most)
        hashed = LtHash16()
        for number, (operate, seed) in enumerate(operations):
            operate(hashed, element(seed))
            if number % 3 == 0:
                hashed = LtHash16(hashed.state)
    assert hashed.state == lane_by_lane(added, removed)
    at_once = LtHash16()
    at_once.update(map(element, added), map(element, removed))
    assert at_once.state == hashed.state
    assert lthash_bulk.updated(NOTHING, map(element, added), map(element, removed)) == hashed.state
    some = lthash_bulk.updated(added=map(element, added))
    assert lthash_bulk.updated(some, removed=map(element, removed)) == hashed.state


@pytest.mark.thorough
def test_fields_never_run_over() -> None:
    """More elements of the largest lanes than one field holds: (2^16 - 1) n modulo 2^16."""
    hashed, many = LtHash16(), 65_535 + 2
    hashed.update(element(0) for _ in range(many))
    assert hashed.state == pack("<1024H", *[(65_535 * many) % 65_536] * 1024)
    hashed.update(removed=(element(0) for _ in range(many)))
    assert hashed.state == NOTHING


@pytest.mark.parametrize("number", [1, 63, 64, 65, 200])
def test_many_elements_at_once_give_the_same_state(number: int) -> None:
    """Also where their number is no multiple of what is added together."""
    added, removed = [element(seed) for seed in range(number)], [element(seed) for seed in range(0, number, 3)]
    plain = LtHash16(element(7))
    plain.update(added, removed)
    assert lthash_bulk.updated(element(7), added, removed) == plain.state
    assert lthash_bulk.updated(plain.state, removed, added) == element(7)


def test_lanes_run_over_alike_in_both_forms() -> None:
    many = 65_535 + 2
    assert lthash_bulk.updated(added=(element(0) for _ in range(many))) == pack(
        "<1024H", *[65_535 * many % 65_536] * 1024
    )


@pytest.mark.parametrize("wrong", [b"", bytes(STATE_BYTES - 1), bytes(STATE_BYTES + 1)])
def test_an_element_of_another_length_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="2048 bytes"):
        LtHash16().add(wrong)
    with pytest.raises(ValueError, match="2048 bytes"):
        LtHash16(wrong)
    with pytest.raises(ValueError, match="2048 bytes"):
        lthash_bulk.updated(wrong)
    with pytest.raises(ValueError, match=f"not {len(wrong)}"):
        lthash_bulk.updated(added=[element(1), wrong])


def test_wrong_lengths_that_make_up_for_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="2048 bytes"):
        lthash_bulk.updated(removed=[bytes(STATE_BYTES - 2), bytes(STATE_BYTES + 2)])
