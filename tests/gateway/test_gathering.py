"""Short writes of one turn go out as one, everything in its order, and nothing is held that is long."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from metajournal.gateway.gathering import GatheringTransport

_LONG = 65_536


class Wire:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.ended = ""

    def write(self, data: bytes) -> None:
        assert not self.ended
        self.written.append(data)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def get_write_buffer_size(self) -> int:
        return 7

    def is_closing(self) -> bool:
        return bool(self.ended)


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_a_head_and_its_body_are_one_write() -> None:
    async def run() -> list[bytes]:
        wire = Wire()
        gathering = GatheringTransport(wire, asyncio.get_running_loop())
        gathering.write(b"head")
        gathering.write(b"body")
        assert (wire.written, gathering.get_write_buffer_size()) == ([], 15)
        await turn()
        assert gathering.get_write_buffer_size() == 7
        gathering.write(b"next")
        gathering.close()
        assert (wire.ended, gathering.is_closing()) == ("closed", True)
        await turn()
        return wire.written

    assert asyncio.run(run()) == [b"headbody", b"next"]


def test_nothing_is_written_to_a_connection_that_is_gone() -> None:
    async def run() -> Wire:
        wire = Wire()
        gathering = GatheringTransport(wire, asyncio.get_running_loop())
        gathering.write(b"head")
        wire.ended = "lost"
        await turn()
        gathering.write(b"body")
        gathering.close()
        return wire

    wire = asyncio.run(run())
    assert (wire.written, wire.ended) == ([], "closed")


def test_what_waits_is_dropped_with_its_connection() -> None:
    async def run() -> Wire:
        wire = Wire()
        gathering = GatheringTransport(wire, asyncio.get_running_loop())
        gathering.write(b"head")
        gathering.abort()
        await turn()
        return wire

    wire = asyncio.run(run())
    assert (wire.written, wire.ended) == ([], "aborted")


@given(st.lists(st.none() | st.sampled_from([0, 1, 10, 30_000, _LONG - 1, _LONG, _LONG + 1, 200_000]), max_size=20))
def test_whatever_is_written_goes_out_in_its_order(sizes: list[int | None]) -> None:
    """None: the end of a turn."""

    async def run() -> None:
        wire = Wire()
        gathering = GatheringTransport(wire, asyncio.get_running_loop())
        sent = b""
        for number, size in enumerate(sizes):
            if size is None:
                await turn()
                assert b"".join(wire.written) == sent
            else:
                data = bytes([number]) * size
                gathering.write(data)
                sent += data
                assert gathering.get_write_buffer_size() - 7 <= _LONG
                if size > _LONG:
                    assert wire.written[-1] is data
        gathering.close()
        assert b"".join(wire.written) == sent

    asyncio.run(run())
