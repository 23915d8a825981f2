"""Bodies as they come: in any pieces they are what was sent, much is unpacked beside the loop, and there is room."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.gateway import bodies
from metajournal.gateway.bodies import Held, Room, read_body
from metajournal.gateway.problems import HttpError
from metajournal.schemas.errors import InputError
from tests.properties import examples

LARGE = bodies._LARGE


def read(pieces: Sequence[bytes], room: Room, *, most_bytes: int = 1 << 20) -> str | None:
    """The text of a gzip body that comes in pieces."""

    async def came() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def whole() -> str | None:
        headers = {"content-encoding": "gzip"}
        body = await read_body(headers, came(), held=Held(room), most_bytes=most_bytes, deadline_s=30, lines=False)
        return None if body is None else body.text

    return asyncio.run(whole())


_SIZES = st.sampled_from([0, 1, LARGE - 1, LARGE, LARGE + 1, 2 * LARGE, 2 * LARGE + 1, 200_000]) | st.integers(
    0, 300_000
)
_MEMBERS = st.lists(st.tuples(_SIZES, st.sampled_from(["a", "ab", "0123456789é"]), st.integers(0, 9)), max_size=4)


@given(_MEMBERS, st.lists(st.integers(0, 1 << 20), max_size=5))
@settings(max_examples=examples(100), deadline=None)
def test_gzip_in_any_pieces_and_members_is_what_was_packed(
    members: list[tuple[int, str, int]], cuts: list[int]
) -> None:
    texts = [(unit * size)[:size] for size, unit, _ in members]
    packed = b"".join(gzip.compress(text.encode(), level) for text, (_, _, level) in zip(texts, members, strict=True))
    ends = sorted(cut % (len(packed) + 1) for cut in cuts)
    pieces = [packed[start:end] for start, end in zip([0, *ends], [*ends, len(packed)], strict=True)]
    room = Room(1 << 22, 1 << 22)
    assert read(pieces, room, most_bytes=1 << 22) == ("".join(texts) or None)
    assert room.left == (1 << 22) - len("".join(texts).encode())
    if packed:
        with pytest.raises(InputError, match="ends before its end"):
            read([packed[:-1]], Room(1 << 22, 1 << 22), most_bytes=1 << 22)


@pytest.mark.parametrize("more", [0, 1])
def test_what_unpacks_to_the_most_bytes_is_taken_and_a_byte_more_is_not(more: int) -> None:
    packed = gzip.compress(b"x" * ((1 << 20) + more))
    if more:
        with pytest.raises(HttpError, match="larger than 1,048,576 bytes"):
            read([packed], Room(1 << 30, 1 << 30))
    else:
        assert read([packed], Room(1 << 30, 1 << 30)) == "x" * (1 << 20)


def test_much_is_unpacked_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    names, rest = [], bodies._rest

    def watched(unpack: object, most_bytes: int) -> bytes:
        names.append(threading.current_thread().name)
        return rest(unpack, most_bytes)

    monkeypatch.setattr(bodies, "_rest", watched)
    assert read([gzip.compress(b"x" * 1000)], Room(1 << 30, 1 << 30)) == "x" * 1000
    assert names == []
    assert read([gzip.compress(b"x" * 500_000)], Room(1 << 30, 1 << 30)) == "x" * 500_000
    assert [name.startswith("metajournal-bodies") for name in names] == [True]


def test_no_more_is_held_than_there_is_room_for() -> None:
    room = Room(1000, 700)
    first, second, third = Held(room), Held(room), Held(room)
    first.asker, second.asker, third.asker = "ada", "bob", "ada"
    first.take(600)
    with pytest.raises(HttpError, match="as much as"):
        third.take(101)  # of one there is room for less than of all
    second.take(400)
    with pytest.raises(HttpError) as refused:
        second.take(1)
    assert (refused.value.status, refused.value.code) == (503, "busy")
    first.give_back()
    first.give_back()
    third.take(600)
    assert room.left == 0
    third.give_back()
    second.take(300)
    assert room.left == 300
    with pytest.raises(HttpError, match="as much as this process takes"):
        read([gzip.compress(b"x" * 2000)], Room(1000, 1000))
