"""Event ids are UUIDv7, never equal, and grow within a process."""

from __future__ import annotations

import threading
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from metajournal.producers.ids import EventIds


@given(st.lists(st.integers(0, 2**47), min_size=1, max_size=50))
def test_ids_are_uuid7_and_grow_whatever_the_clock_does(times: list[int]) -> None:
    new_id = EventIds()
    ids = [new_id(now) for now in times]
    assert ids == sorted(set(ids))
    assert {UUID(bytes=one).version for one in ids} == {7}
    assert {UUID(bytes=one).variant for one in ids} == {"specified in RFC 4122"}
    latest = 0
    for now, one in zip(times, ids, strict=True):
        latest = max(latest, now)
        assert int.from_bytes(one[:6], "big") == latest


def test_threads_never_get_the_same_id() -> None:
    new_id, found = EventIds(), [list[bytes]() for _ in range(4)]

    def take(mine: list[bytes]) -> None:
        for number in range(5_000):
            mine.append(new_id(number // 10))

    threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for mine in found for one in mine}) == 20_000


def test_bits_beside_the_time_are_drawn_anew_for_each_millisecond() -> None:
    new_id = EventIds()
    drawn = {int.from_bytes(new_id(now)[6:8], "big") & 0xFFF for now in range(20_000)}
    assert len(drawn) > 4_000, "of 4,096, of which some 30 are missing by chance"


def test_two_sources_do_not_meet() -> None:
    assert EventIds()(5) != EventIds()(5)
