"""Outcome records: what became of each position, once everything it speaks of is acknowledged.

A long range is split so that each record stays small; the end offsets stand in every part, since each part alone may be
the one that a reader waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..fold.documents import Outgoing
from ..fold.folded import ACCEPTED, Folded, Judged
from ..fold.records import Place
from ..schemas.hashing import canonical_json

_VERDICTS_PER_RECORD = 2_000
_BYTES_PER_RECORD = 1024 * 1024
Ends = Mapping[str, tuple[int, int]]
"""The partition and end offset of each topic that outcomes speak of."""


def outcome_records(folded: Folded, topic: str, ends: Ends, written_ms: int) -> Iterator[Outgoing]:
    """The outcome records of one partition's batch.

    Args:
        folded: the judged records.
        topic: the outcomes topic.
        ends: partition and end offset per change and state topic.
        written_ms: the stream's clock, milliseconds UTC; for people, orders nothing.
    """
    spoken = [judged_record for judged_record in folded.judged if judged_record.verdict.outcome != ACCEPTED]
    parts = list(_parts(spoken)) or [[]]
    start = folded.start
    for index, part in enumerate(parts):
        end = folded.end if index == len(parts) - 1 else part[-1].record.position + 1
        yield record(folded.place, topic, start, end, part, ends, folded.system_time, written_ms)
        start = end


def _parts(spoken: Sequence[Judged]) -> Iterator[list[Judged]]:
    """Runs of verdicts that fit into one record each: a detail may list a thousand faults."""
    part: list[Judged] = []
    size = 0
    for judged in spoken:
        size += len(canonical_json(_verdict(judged)))
        if part and (size > _BYTES_PER_RECORD or len(part) == _VERDICTS_PER_RECORD):
            yield part
            part, size = [], len(canonical_json(_verdict(judged)))
        part.append(judged)
    if part:
        yield part


def record(
    place: Place,
    topic: str,
    start: int,
    end: int,
    judged: Sequence[Judged],
    ends: Ends,
    system_time: int,
    written_ms: int,
) -> Outgoing:
    """One outcome record; with start == end it repeats how far an idle partition is."""
    value: dict[str, Any] = {
        "topic": place.topic,
        "partition": place.partition,
        "from": start,
        "to": end,
        "verdicts": [_verdict(judged_record) for judged_record in judged],
        "ends": {name: {str(partition): offset} for name, (partition, offset) in ends.items()},
        "system_time": system_time,
        "written": written_ms,
    }
    key = f"{place.topic}/{place.partition}".encode()
    return Outgoing(topic, place.partition, key, canonical_json(value), [], max(system_time, 0) or written_ms)


def _verdict(judged: Judged) -> list[Any]:
    return judged.verdict.wire(judged.record.position)
