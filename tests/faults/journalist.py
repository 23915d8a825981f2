"""A client that emits as long as it lives, writes down what it means to do before it does it, and goes on where its
last life ended: what has no acknowledgement in its book is sent again with the same ids and `repeat`.

Used as a process (`python -m tests.faults.journalist`) that tests kill at any moment, and read afterwards by its book:

    {"intent": n, "unit": id or null, "events": [[event id, URN, text], …]}      before, made durable
    {"done": n, "positions": [[partition, position], …]}                        after the acknowledgement
"""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from metajournal.client import Journal
from metajournal.domains.catalog.events import PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.ids import EventIds
from metajournal.producers.receipts import Receipt
from metajournal.producers.units import Unit
from metajournal.schemas.errors import KafkaUnavailableError, OutcomeUnknownError
from metajournal.schemas.ids import id_text
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn

AGGREGATES: Final = [dataset("faults", f"table_{number}") for number in range(9)]
_SINGLE: Final = 30
"""Single events under way at once, at most."""
_PLANNED: Final = 10
"""Intents that are made durable together, before the first of them is acted on."""
READY: Final = "ready"


def event_of(urn: Urn, text: str) -> PropertiesSet:
    """The event that an intent's line stands for."""
    return PropertiesSet(urn, {"last": text})


class Intent(NamedTuple):
    """One single event, or one unit."""

    number: int
    unit: str | None
    events: list[tuple[str, Urn, str]]
    """Id, entity and text of each."""


class Book:
    """What a client means to do and has done, one JSON object a line; outlives it."""

    def __init__(self, path: Path) -> None:
        self.intents: dict[int, Intent] = {}
        self.done: dict[int, list[tuple[int, int]]] = {}
        for line in path.read_text("utf-8").split("\n")[:-1] if path.exists() else []:
            self._take(json.loads(line))
        self._file: IO[str] | None = None
        self._path = path

    def _take(self, said: dict[str, Any]) -> None:
        if "intent" in said:
            events = [(event_id, Urn.parse(urn), text) for event_id, urn, text in said["events"]]
            self.intents[said["intent"]] = Intent(said["intent"], said["unit"], events)
        else:
            self.done[said["done"]] = [tuple(one) for one in said["positions"]]

    @property
    def open(self) -> list[Intent]:
        """What has no acknowledgement, in its order."""
        return [one for number, one in sorted(self.intents.items()) if number not in self.done]

    def write(self, said: dict[str, Any]) -> None:
        """Write a line, which outlives this process."""
        if self._file is None:
            self._mend()
            self._file = self._path.open("a", encoding="utf-8")
        self._file.write(json.dumps(said) + "\n")
        self._file.flush()
        self._take(said)

    def make_durable(self) -> None:
        """Return when what was written would outlive the machine too."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def _mend(self) -> None:
        """Drop half a line at the end: its writer was killed before it could act on it."""
        if self._path.exists():
            data = self._path.read_bytes()
            os.truncate(self._path, data.rfind(b"\n") + 1)


class Journalist:
    """One life of the client."""

    def __init__(self, journal: Journal, book: Book, draw: random.Random) -> None:
        self._journal = journal
        self._book = book
        self._draw = draw
        self._new_id = EventIds()
        self._next = max(book.intents, default=-1) + 1
        self._waiting: deque[tuple[Intent, Receipt]] = deque()
        self._asked_to_end = False

    def end(self) -> None:
        """Finish what is under way."""
        self._asked_to_end = True

    def resume(self) -> None:
        """Send again what an earlier life left open, in its order."""
        for intent in self._book.open:
            self._send(intent, repeat=True)
        self._settle(0)

    def work(self, count: int | None = None) -> None:
        """Emit single events and units, in turns drawn at random; until SIGTERM where None."""
        while not self._asked_to_end and (count is None or count > 0):
            intents = [self._intend(self._draw.choice((1, 1, 1, 1, 2, 5))) for _ in range(_PLANNED)]
            self._book.make_durable()
            for intent in intents:
                self._send(intent, repeat=False)
                self._settle(_SINGLE)
            count = None if count is None else count - len(intents)
        self._settle(0)

    def _intend(self, size: int) -> Intent:
        number, self._next = self._next, self._next + 1
        who = [self._draw.choice(AGGREGATES) for _ in range(size)]
        ids = [id_text(self._new_id(time.time_ns() // 1_000_000)) for _ in range(size + 1)]
        # The id makes the text one that nobody else says: an event that says what is said already changes nothing.
        events = [(ids[at], urn, f"n{number}-{at} {ids[at]}") for at, urn in enumerate(who)]
        intent = Intent(number, ids[-1] if size > 1 else None, events)
        self._book.write({"intent": number, "unit": intent.unit, "events": [[*map(str, one)] for one in events]})
        return intent

    def _send(self, intent: Intent, *, repeat: bool) -> None:
        if intent.unit is not None:
            # Single events are settled first: sent again after a unit, one would be out of its place.
            self._settle(0)
            self._commit(intent, repeat)
            return
        [(event_id, urn, text)] = intent.events
        receipt = self._journal.emit(event_of(urn, text), event_id=event_id, repeat=repeat, block_s=60)
        self._waiting.append((intent, receipt))

    def _commit(self, intent: Intent, repeat: bool) -> None:
        unit: Unit = self._journal.unit(unit_id=intent.unit, repeat=repeat)
        for event_id, urn, text in intent.events:
            unit.emit(event_of(urn, text), event_id=event_id)
        while not unit.committed:
            try:
                unit.commit()
            except (KafkaUnavailableError, OutcomeUnknownError) as error:
                print(error.code, flush=True)  # noqa: T201  (into the log)
        self._note(intent, list(unit.receipts))

    def _settle(self, keep: int) -> None:
        while len(self._waiting) > keep:
            intent, receipt = self._waiting.popleft()
            self._note(intent, [receipt])

    def _note(self, intent: Intent, receipts: list[Receipt]) -> None:
        places = [[one.position.partition, one.position.value] for one in receipts]
        self._book.write({"done": intent.number, "positions": places})


def main() -> None:
    settings: Settings
    settings, path, seed, count = pickle.load(sys.stdin.buffer)
    with Journal.connect(settings, connect_timeout_s=60) as journal:
        journalist = Journalist(journal, Book(Path(path)), random.Random(seed))
        signal.signal(signal.SIGTERM, lambda *_: journalist.end())
        print(READY, flush=True)  # noqa: T201  (who started it waits for this)
        journalist.resume()
        journalist.work(count)


if __name__ == "__main__":
    main()
