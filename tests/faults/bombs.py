"""Values of a few bytes that promise gigabytes, read in this process: its test runs it as a child with a limit.

    python -m tests.faults.bombs

Prints how many were refused and the seconds of a processor that the slowest took, read in four ways. The process ends
early where memory is taken on a promise (its address space may grow by 256 MiB), where the stack runs over, or where
an error has no name.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from metajournal.domains.catalog.urns import dataset
from metajournal.fold.records import Place, Record, Shelved, read
from metajournal.schemas.encoding import bulk, codec
from metajournal.schemas.encoding.codegen import UnsupportedSchemaError
from metajournal.schemas.encoding.decoders import compile_reader
from metajournal.schemas.encoding.known import current_contracts
from metajournal.schemas.errors import NotSingleObject, Undecodable, UnknownFingerprint
from metajournal.schemas.hashing import DIGEST_HEADER, digest
from metajournal.schemas.limits import MAX_EVENT_BYTES
from tests.builders import header_for
from tests.faults.envelopes import PROMISES, events_about
from tests.faults.scale import times
from tests.streaming.harness import TOPIC

GROWTH_BYTES: Final = 256 << 20
NAMED: Final = (NotSingleObject, UnknownFingerprint, Undecodable)
PLACE: Final = Place(TOPIC, 0, 1, "catalog", frozenset())


def small() -> Iterator[bytes]:
    """A promise at every place (every third in the short version) of an event of every type.

    What stands behind it stays, or is filled with zeros.
    """
    one_of_each = {event.TYPE: event for event in events_about(dataset("a", "b"))}
    for event in one_of_each.values():
        value = codec.encode(event, header_for(event, 1))[:200]
        for at in range(10, len(value), times(3, 1)):
            for promise in PROMISES:
                yield value[:at] + promise + value[at:]
                yield value[:at] + promise + bytes(20)


def large() -> Iterator[bytes]:
    """As many bytes as an event may have, behind the prefix and the first fields of every type."""
    room = MAX_EVENT_BYTES - 200
    for contract in current_contracts().values():
        prefix = codec.single_object_prefix(contract)
        for unit in (b"\0", b"\2\0", b"\3\2", b"\x80", b"\xff", *times((), (b"\1", b"\2", b"\x7f", b"\2\2a"))):
            yield prefix + b"i" * 16 + b"\2a\2b\2c\2\2d\0\0\0\0\0\0\0\2e" + unit * (room // len(unit))


def recursive() -> Any:
    """measured.md: 5 KB of it end a process that follows them."""
    node = {"name": "Node", "type": "record", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    return {"name": "Bomb", "type": "record", "fields": [{"name": "node", "type": node}]}


def nothings() -> Any:
    """measured.md: 5 bytes of it make 100 million items."""
    return {"name": "Bomb", "type": "record", "fields": [{"name": "many", "type": {"type": "array", "items": "null"}}]}


def read_alone(value: bytes) -> Any:
    """The event, or the error's words."""
    try:
        return codec.decode(value)
    except NAMED as error:
        return str(error)


def refused(values: list[bytes]) -> int:
    """Read values alone, their headers alone, as records and side by side; gives how many are no events."""
    alone = [read_alone(value) for value in values]
    for value, one in zip(values, alone, strict=True):
        try:
            codec.decode_header_only(value)
        except NAMED:
            assert isinstance(one, str), "a header that cannot be read, of an event that can"
        record = Record(1 << 40, 0, b"a/b", value, [(DIGEST_HEADER, digest(value))])
        assert isinstance(read(record, PLACE), Shelved)
    together = [one if not isinstance(one, Exception) else str(one) for one in bulk.decode_all(values)]
    assert together == alone
    return sum(isinstance(one, str) for one in alone)


def timed(work: Callable[[], int]) -> tuple[int, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def address_space() -> int:
    """Bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> None:
    """Read all of them."""
    bulk.decode_all(list(small())[:2000])  # what is made once (readers, numpy's threads) is not theirs
    limit = address_space() + GROWTH_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for schema in (recursive(), nothings()):
        try:
            compile_reader(schema)
        except UnsupportedSchemaError:
            continue
        raise AssertionError(f"a reader of {schema} was made")
    few = list(small())
    count, slowest_s = 0, 0.0
    for some in [few[at : at + 1_000] for at in range(0, len(few), 1_000)]:
        count += refused(some)
    for value in large():
        found, taken_s = timed(lambda value=value: refused([value]))  # type: ignore[misc]
        count, slowest_s = count + found, max(slowest_s, taken_s)
    print(count, f"{slowest_s:.3f}")  # noqa: T201


if __name__ == "__main__":
    main()
