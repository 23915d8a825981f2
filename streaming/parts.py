"""What one partition publishes: staged by the task that folded it, read back and published by the task after it.

Its records come first and its outcomes after them, since an outcome says that all before it is acknowledged.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from ..fold.documents import Documents, Outgoing
from ..fold.folded import SHELVED, Folded
from ..fold.published import outgoing
from ..fold.records import Place
from ..fold.steps import Made
from ..schemas.hashing import canonical_json
from ..schemas.topics import TopicNames
from .deadletters import dead_letter
from .outcomes import Ends, outcome_records, record
from .plan import Part, Plan, Published
from .staging import Staging


class StagedPart:
    """What one partition publishes, as files: its records, and its outcomes, which come after them."""

    def __init__(self, staging: Staging, place: Place) -> None:
        self._staging = staging
        self._place = place
        self._records = staging.writer(f"records-{_slug(place)}")
        self._said: list[Outgoing] = []

    def write(self, made: Made, names: TopicNames, tables: Mapping[str, pa.Table]) -> None:
        """Add what is published of a part's records, and what follows from their verdicts.

        Args:
            tables: the rows that they made, by table.
        """
        for block in made.blocks(names, tables):
            if isinstance(block, Documents):
                self._records.write_documents(block)
            else:
                self._records.write_columns(block)
        folded = made.with_spoken()
        self._records.write(dead_letters(folded, names))
        self._said += outcome_records(folded, names.outcomes(self._place.domain), {}, 0)

    def close(self) -> bool:
        """Whether there are records besides the outcomes."""
        self._staging.write(f"outcomes-{_slug(self._place)}", self._said)
        return self._records.close() > 0

    def discard(self) -> None:
        self._records.abandon()


def _slug(place: Place) -> str:
    return f"{place.topic}-{place.partition}"


def staged(folded: Folded, names: TopicNames) -> Iterator[Outgoing]:
    """All that a partition publishes before its outcomes, in (position, seq) order per topic."""
    yield from outgoing(folded, names)
    yield from dead_letters(folded, names)


def dead_letters(folded: Folded, names: TopicNames) -> Iterator[Outgoing]:
    """Copies of the shelved records."""
    if any(judged.verdict.outcome == SHELVED for judged in folded.judged):
        for judged in folded.judged:
            if judged.verdict.outcome == SHELVED:
                yield dead_letter(folded.place, judged, names.dlq)


class Publishing(Protocol):
    """What publishing needs: see publish.Publisher."""

    def publish(self, records: Iterable[Outgoing], between: Callable[[], None] = ...) -> int: ...

    def ends(self, topic: str, journal_partition: int) -> tuple[int, int]: ...


def publish_part(plan: Plan, part: Part, publisher: Publishing, now_ms: int) -> Published:
    """Publish one partition's records, wait for all acknowledgements, then its outcomes.

    Raises:
        KafkaUnavailableError: not all is acknowledged.
    """
    task = plan.tasks[part.key]
    place = task.place
    staging = plan.staging
    assert staging is not None  # a plan without it is never published
    count = 0
    if part.staged:
        count = publisher.publish(staging.read(f"records-{_slug(place)}"), between=lambda: _pass(plan, "mid-publish"))
    _pass(plan, "after-publish")
    ends = {topic: publisher.ends(topic, place.partition) for topic in plan.names.published(place.domain)}
    topic = plan.names.outcomes(place.domain)
    if part.verdicts:
        publisher.publish(_with_ends(staging.read(f"outcomes-{_slug(place)}"), ends, now_ms))
    else:
        publisher.publish([record(place, topic, task.start, part.end, (), ends, part.system_time, now_ms)])
    return Published(count, ends)


def _with_ends(records: Iterable[Outgoing], ends: Ends, now_ms: int) -> Iterator[Outgoing]:
    """Outcome records with what is known only now: the end offsets, and the time of writing."""
    for staged_record in records:
        value: dict[str, Any] = json.loads(staged_record.value or b"{}")
        value["ends"] = {name: {str(partition): offset} for name, (partition, offset) in ends.items()}
        value["written"] = now_ms
        time_ms = staged_record.time_ms or now_ms
        yield Outgoing(
            staged_record.topic,
            staged_record.journal_partition,
            staged_record.key,
            canonical_json(value),
            staged_record.headers,
            time_ms,
        )


def _pass(plan: Plan, point: str) -> None:
    if plan.kill is not None and plan.kill[1] == point:
        os.kill(plan.kill[0], signal.SIGKILL)
