"""What Kafka's admin client answers, asked for again while a broker is away or only just back.

A cluster that is well has moments in which it refuses: a partition changes its leader, a broker was silent for longer
than its session. Left to others: what is asked (topics), which errors pass (kafka).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from ..schemas.errors import KafkaUnavailableError
from .kafka import is_passing, look_again

_ASKED_S: Final = 10.0
_FENCED: Final = "brokers are currently fenced"
"""In the error of a topic that cannot be made, where the brokers were only silent for a moment."""
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


def answers(
    admin: AdminClient,
    ask: Callable[[float], Mapping[_Asked, Future[_Answer]]],
    doing: str,
    timeout_s: float,
    *,
    fine: int | None = None,
) -> dict[_Asked, _Answer]:
    """The broker's answer of each, all asked again while one failed for a reason that may pass.

    Args:
        admin: who asks.
        ask: sends the request, given seconds to wait.
        doing: what it does, for the error.
        timeout_s: until when to ask again.
        fine: the code of an error that leaves an answer out.
    Raises:
        KafkaUnavailableError: one failed for good, or until the time was over.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found: dict[_Asked, _Answer] = {}
        failed: dict[_Asked, KafkaException] = {}
        for asked, future in ask(min(timeout_s, _ASKED_S)).items():
            try:
                found[asked] = future.result()
            except KafkaException as error:
                if error.args[0].code() != fine:
                    failed[asked] = error
        if not failed:
            return found
        late = time.monotonic() > deadline
        for asked, last in failed.items():
            problem: KafkaError = last.args[0]
            if late or not (is_passing(problem) or _FENCED in problem.str()):
                topic = _name_of(asked)
                raise KafkaUnavailableError(f"{doing} {topic} failed: {problem.str()}.", topic=topic) from last
        look_again(admin)


def _name_of(asked: object) -> str:
    match asked:
        case TopicPartition():
            return asked.topic
        case ConfigResource():
            return str(asked.name)
    return str(asked)
