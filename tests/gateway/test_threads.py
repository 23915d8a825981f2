"""Threads that read, and what a long request leaves to others: one asker holds nobody up."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from metajournal.domains.access.http import GrantBody, GrantsBody
from metajournal.gateway.bodies import Body, read_value
from metajournal.gateway.fields import _has_names
from metajournal.gateway.threads import OF_ONE, THREADS, WAITING_OF_ONE, Readers
from metajournal.gateway.typed_lines import MOST_LINES, read_lines, read_unit
from metajournal.schemas.errors import InvalidUnitError, UnavailableError

LINE = json.dumps({"type": "tags-added", "entity": "dataset:a/b", "tags": ["t"]})


async def until_busy(readers: Readers, count: int) -> None:
    """Wait until so many reads wait or run."""
    while readers.busy < count:
        await asyncio.sleep(0)


def test_one_asker_has_some_of_the_threads_and_others_are_read_for_meanwhile() -> None:
    gate, begun = threading.Event(), list[str]()

    def slow() -> str:
        begun.append("slow")
        assert gate.wait(60)
        return "slow"

    async def ask() -> tuple[list[str], str]:
        readers = Readers()
        try:
            many = [asyncio.ensure_future(readers.run(slow, asker="t/many")) for _ in range(3 * THREADS)]
            while len(begun) < OF_ONE:
                await asyncio.sleep(0.001)
            other = await asyncio.wait_for(readers.run(lambda: "other", asker="t/other"), 30)
            nobody = await asyncio.wait_for(readers.run(lambda: "nobody"), 30)
            assert begun == ["slow"] * OF_ONE
            gate.set()
            assert other == "other"
            return await asyncio.gather(*many), nobody
        finally:
            gate.set()
            readers.close()

    many, nobody = asyncio.run(ask())
    assert (many, nobody) == (["slow"] * 3 * THREADS, "nobody")


def test_one_asker_has_some_of_the_queue_and_is_told_so() -> None:
    gate = threading.Event()

    async def ask() -> None:
        readers = Readers()
        try:
            many = [asyncio.ensure_future(readers.run(gate.wait, asker="t/many")) for _ in range(WAITING_OF_ONE)]
            await until_busy(readers, WAITING_OF_ONE)
            with pytest.raises(UnavailableError, match="100 of your reads") as refused:
                await readers.run(gate.wait, asker="t/many")
            assert refused.value.code == "too-busy"
            assert await readers.run(lambda: 7, asker="t/other") == 7
            gate.set()
            await asyncio.gather(*many)
            assert readers.busy == 0
            assert await readers.run(lambda: 8, asker="t/many") == 8
        finally:
            gate.set()
            readers.close()

    asyncio.run(ask())


def test_a_queue_that_is_full_is_full_for_everybody() -> None:
    gate = threading.Event()

    async def ask() -> None:
        readers = Readers(2, 3)
        try:
            many = [asyncio.ensure_future(readers.run(gate.wait, asker=f"t/{number}")) for number in range(5)]
            await until_busy(readers, 5)
            with pytest.raises(UnavailableError, match="5 reads are waiting"):
                await readers.run(gate.wait, asker="t/other")
            gate.set()
            assert all(await asyncio.gather(*many))
        finally:
            gate.set()
            readers.close()

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("body", "kind"), [("[" + "{}," * 100_000 + "{}]", list[Any]), ('["' + "x" * 1_000_000 + '"]', list[str])]
)
def test_others_have_their_turns_while_a_large_body_is_read(body: str, kind: Any) -> None:
    """It is read in another thread; what its type cannot name wrongly is not looked at for names."""

    async def ask() -> tuple[int, Any]:
        turns = 0
        reading = asyncio.ensure_future(read_value(Body(body, is_lines=False), kind, optional=False))
        while not reading.done():
            turns += 1
            await asyncio.sleep(0)
        return turns, reading.result()

    turns, value = asyncio.run(ask())
    assert value == json.loads(body)
    assert turns > 2


@pytest.mark.parametrize(
    ("kind", "has"),
    [(list[Any], False), (dict[str, Any], False), (dict[str, str] | None, False), (int | str, False), (None, False),
     (GrantsBody, True), (list[GrantBody], True), (dict[str, list[GrantBody]] | None, True)],
)  # fmt: skip
def test_only_types_with_names_of_their_own_have_unknown_ones(kind: Any, has: bool) -> None:
    assert _has_names(kind) is has


def lines() -> Awaitable[object]:
    return read_lines(Body("\n".join([LINE] * MOST_LINES), is_lines=True), needs_of=lambda _: (), check=lambda _: None)


def unit() -> Awaitable[object]:
    text = "\n".join(["{}"] * MOST_LINES)
    return read_unit(Body(text, is_lines=True), needs_of=lambda _: (), check=lambda _: None)


@pytest.mark.thorough
@pytest.mark.parametrize(("read", "refused"), [(lines, False), (unit, True)])
def test_others_have_their_turns_while_many_lines_are_read(
    read: Callable[[], Awaitable[object]], refused: bool
) -> None:
    async def ask() -> int:
        turns = 0
        reading = asyncio.ensure_future(read())
        while not reading.done():
            turns += 1
            await asyncio.sleep(0)
        if refused:
            with pytest.raises(InvalidUnitError):
                reading.result()
        return turns

    assert asyncio.run(ask()) >= MOST_LINES // 100
