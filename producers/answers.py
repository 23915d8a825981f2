"""What Kafka's admin client answers, asked for again while a broker is away or only just back.

A cluster that is well has moments in which it refuses: a partition changes its leader, a broker was silent for longer
than its session. A client that saw such a moment goes by what it saw for minutes, so another one asks again.
Left to others: what is asked (topics), which errors pass (kafka).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ListOffsetsResultInfo

from ..schemas.errors import KafkaUnavailableError
from ..schemas.settings import Settings
from .kafka import ErrorLog, is_passing, make_admin, servers_of, wait_for_broker

_ASKED_S: Final = 10.0
_PAUSE_S: Final = 0.1
_FENCED: Final = "brokers are currently fenced"
"""In the error of a topic that cannot be made, where the brokers were only silent for a moment."""
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


class Administrator:
    """Asks the brokers through an admin client, and through another one where that is refused for a moment.

    Args:
        settings: how to reach Kafka.

    Attributes:
        client: the one that asks now.
        errors: what it told.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.errors = ErrorLog()
        self.client = make_admin(settings, self.errors)

    def connect(self, timeout_s: float) -> Self:
        """Return once a broker answers.

        Raises:
            KafkaUnavailableError: none did in time.
        """
        wait_for_broker(self.client, self.errors, servers=servers_of(self._settings), timeout_s=timeout_s)
        return self

    def answers(
        self,
        ask: Callable[[AdminClient, float], Mapping[_Asked, Future[_Answer]]],
        doing: str,
        timeout_s: float,
        *,
        fine: int | None = None,
    ) -> dict[_Asked, _Answer]:
        """The broker's answer of each, all asked again while one failed for a reason that may pass.

        Args:
            ask: sends the request, given the client and seconds to wait.
            doing: what it does, for the error.
            timeout_s: until when to ask again.
            fine: the code of an error that leaves an answer out.
        Raises:
            KafkaUnavailableError: one failed for good, or until the time was over.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            answered: dict[_Asked, _Answer] = {}
            failed: dict[_Asked, KafkaException] = {}
            for asked, future in ask(self.client, min(timeout_s, _ASKED_S)).items():
                try:
                    answered[asked] = answer = future.result()
                    if isinstance(answer, ListOffsetsResultInfo):
                        offset_told(answer)
                except KafkaException as error:
                    if error.args[0].code() != fine:
                        failed[asked] = error
            if not failed:
                return answered
            _raise_lasting(failed, doing, late=time.monotonic() > deadline)
            time.sleep(_PAUSE_S)
            self.client = make_admin(self._settings, self.errors)


def offset_told(answer: ListOffsetsResultInfo) -> int:
    """The offset of an answer about a partition's end.

    Raises:
        KafkaException: no broker answered in time, which Kafka's client tells as an offset below 0 without an error.
    """
    offset = int(answer.offset)
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "No broker answered in time"))
    return offset


def _raise_lasting(failed: Mapping[_Asked, KafkaException], doing: str, *, late: bool) -> None:
    for asked, error in failed.items():
        problem: KafkaError = error.args[0]
        if late or not (is_passing(problem) or _FENCED in problem.str()):
            topic = _name_of(asked)
            raise KafkaUnavailableError(f"{doing} {topic} failed: {problem.str()}.", topic=topic) from error


def _name_of(asked: object) -> str:
    match asked:
        case TopicPartition():
            return asked.topic
        case ConfigResource():
            return str(asked.name)
    return str(asked)
