"""Where journal partitions end, asked once for all who ask meanwhile: for processes that read on behalf of many.

One thread and one consumer that fetches nothing; they begin with the first question and end after a minute unasked.
Invariant: an answer comes from a question to Kafka that began after whoever gets it had asked, so it holds everything
that was acknowledged before.
"""

from __future__ import annotations

import copy
import threading
import time
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ..producers.kafka import ErrorLog, asked_again, make_consumer
from ..producers.topics import Epochs
from ..producers.waiting.futures import AwaitableFuture, fail, resolve
from ..schemas.errors import InputError, KafkaUnavailableError, MetajournalError
from ..schemas.positions import Position, position
from ..schemas.settings import Settings

_ANSWER_S: Final = 2.0
_LIMIT_S: Final = 5.0
_UNASKED_S: Final = 60.0
_Place = tuple[str, int]
_Asked = dict[_Place, list[AwaitableFuture[Position]]]


class AskedEnds:
    """The last committed positions of journal partitions.

    Args:
        settings: how to reach Kafka.
        epochs: the journal topics.
    """

    def __init__(self, settings: Settings, epochs: Epochs) -> None:
        self._settings = settings
        self._epochs = epochs
        self._asked: _Asked = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def last(self, topic: str, partition: int) -> AwaitableFuture[Position]:
        """The last position that a partition holds now: that of its newest committed record, or the one before its
        first.

        Raises:
            InputError: it is closed; a KafkaUnavailableError comes with the future.
        """
        future: AwaitableFuture[Position] = AwaitableFuture()
        with self._changed:
            if self._closed:
                raise InputError("The journal is closed.", code="closed", hint="Connect again: Journal.connect().")
            self._asked.setdefault((topic, partition), []).append(future)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="metajournal-ends", daemon=True)
                self._thread.start()
        return future

    def close(self) -> None:
        """End the thread; whoever waits is told."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        errors = ErrorLog()
        consumer = make_consumer(self._settings, errors, role="ends", **{"isolation.level": "read_committed"})
        try:
            while (asked := self._next()) is not None:
                for place, futures in asked.items():
                    self._answer(consumer, errors, place, futures)
        finally:
            consumer.close()

    def _next(self) -> _Asked | None:
        """What is asked for now; None where nobody asks any more: then the thread is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._asked or self._closed, _UNASKED_S)
            asked, self._asked = self._asked, {}
            if asked and not self._closed:
                return asked
            self._thread = None
        error = InputError("The journal is closed.", code="closed", hint="Connect again: Journal.connect().")
        _fail(asked, error)
        return None

    def _answer(self, consumer: Consumer, errors: ErrorLog, place: _Place, futures: list[Any]) -> None:
        try:
            last = self._ask(consumer, errors, place)
        except MetajournalError as error:
            _fail({place: futures}, error)
        else:
            for future in futures:
                resolve(future, last)

    def _ask(self, consumer: Consumer, errors: ErrorLog, place: _Place) -> Position:
        try:
            _, high = asked_again(
                consumer,
                partial(consumer.get_watermark_offsets, TopicPartition(*place), timeout=_ANSWER_S),
                time.monotonic() + _LIMIT_S,
                stopping=lambda: self._closed or errors.hopeless is not None,
            )
        except KafkaException as error:
            text = f"The end of {place[0]}/{place[1]} cannot be read: {error.args[0].str()}."
            raise KafkaUnavailableError(text) from error
        return Position(*place, position(self._epochs[place[0]].epoch, int(high)) - 1)


def _fail(asked: _Asked, error: MetajournalError) -> None:
    for futures in asked.values():
        for future in futures:
            fail(future, copy.copy(error))
