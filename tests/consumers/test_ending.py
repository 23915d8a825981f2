"""SIGTERM ends a program that subscribes as Ctrl-C does: its group goes on at once, not when its session expires."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from metajournal.consumers.ending import EXIT_CODE
from metajournal.consumers.subscription import changes
from metajournal.producers.topics import Epochs, ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.stack.home import SETTINGS_FILE, settings_text, write_private
from tests.consumers.wire import Event, Wire
from tests.installation import Installation
from tests.processes import end_with_parent
from tests.wait import eventually

pytestmark = pytest.mark.services
GOES_ON_S = 3.0
SLOWEST = 4
SESSION_S = 45
ROOT = Path(__file__).parents[2]

_BEGIN = """
import pickle, signal, sys, threading
from metajournal.consumers.subscription import changes
from metajournal.producers.topics import check_topics
settings = pickle.load(sys.stdin.buffer)
def subscribed():
    return changes(settings, check_topics(settings), group=settings.journal.prefix, since="earliest")
def show(records):
    for change in records:
        print(change.id, flush=True)
"""
BLOCK = "with subscribed() as records: show(records)"
PLAIN = "show(subscribed())"
THREAD = """records = subscribed()
reader = threading.Thread(target=show, args=(records,))
reader.start()
reader.join()"""
CLEANED = "try:\n    show(subscribed())\nfinally:\n    print('cleaned', flush=True)"
OWN = "signal.signal(signal.SIGTERM, lambda *_: records.stop())\nwith subscribed() as records: show(records)"
LATER = "with subscribed() as records:\n    signal.signal(signal.SIGTERM, lambda *_: records.stop()); show(records)"
CLOSED = "next(iter(subscribed_again := subscribed())); subscribed_again.close(); print('closed', flush=True); input()"


@pytest.fixture
def epochs(settings: Settings) -> Epochs:
    return ensure_topics(settings)


@pytest.fixture
def wire(settings: Settings, epochs: Epochs) -> Wire:
    wire = Wire(settings)
    wire.batch([Event(number, 0, scopes=("USER",)) for number in range(4)])
    return wire


@contextmanager
def program(settings: Settings, text: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of a user; it ends with the test."""
    with subprocess.Popen(
        [sys.executable, "-c", _BEGIN + text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=end_with_parent,
    ) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(pickle.dumps(settings))
            process.stdin.flush()
            yield process
        finally:
            process.kill()


def read(process: subprocess.Popen[bytes], lines: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(lines)]


def goes_on(settings: Settings, epochs: Epochs) -> None:
    """Another member of the group gets partitions long before a member that vanished would have been missed."""
    began = time.monotonic()
    with changes(settings, epochs, group=settings.journal.prefix, limit=1) as records:
        next(records)
    assert time.monotonic() - began < GOES_ON_S * SLOWEST < SESSION_S


@pytest.mark.parametrize("text", [BLOCK, PLAIN, THREAD], ids=["block", "loop", "thread"])
def test_sigterm_ends_a_subscriber_and_its_group_goes_on_at_once(
    settings: Settings, epochs: Epochs, wire: Wire, text: str
) -> None:
    with program(settings, text) as process:
        assert len(set(read(process, 4))) == 4
        process.terminate()
        assert process.wait(30) == EXIT_CODE
    wire.batch([Event(number, 1, scopes=("USER",)) for number in range(4)])
    goes_on(settings, epochs)


def test_the_member_that_stays_gets_the_partitions_of_the_one_that_was_ended(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    with program(settings, BLOCK) as process:
        read(process, 4)
        with program(settings, BLOCK) as other:
            offsets = count(1)

            def shares() -> bool:
                offset = next(offsets)
                wire.batch([Event(number, offset, scopes=("USER",)) for number in range(4)])
                assert other.stdout is not None
                return bool(select.select([other.stdout], [], [], 0.1)[0])

            eventually(shares, 10, "a partition for the second member")
            other.terminate()
            assert other.wait(30) == EXIT_CODE
        began = time.monotonic()
        last = next(offsets)
        wire.batch([Event(number, last, scopes=("USER",)) for number in range(4)])
        wanted = {f"{wire.position(Event(number, last))}/0/USER" for number in range(4)}
        while wanted:
            wanted.discard(read(process, 1)[0].decode().strip())
        assert time.monotonic() - began < GOES_ON_S * SLOWEST < SESSION_S


def test_the_blocks_of_the_program_are_left(settings: Settings, wire: Wire) -> None:
    with program(settings, CLEANED) as process:
        read(process, 4)
        process.terminate()
        assert read(process, 1) == [b"cleaned\n"]
        assert process.wait(30) == EXIT_CODE


@pytest.mark.parametrize("text", [OWN, LATER], ids=["before", "after"])
def test_a_handler_of_the_programs_own_counts_instead(settings: Settings, wire: Wire, text: str) -> None:
    with program(settings, text) as process:
        read(process, 4)
        process.terminate()
        assert process.wait(30) == 0


def test_once_it_is_closed_sigterm_does_what_it_did_before(settings: Settings, wire: Wire) -> None:
    with program(settings, CLOSED) as process:
        assert read(process, 1) == [b"closed\n"]
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM


def test_the_example_ends_so_too(settings: Settings, epochs: Epochs, wire: Wire, tmp_path: Path) -> None:
    write_private(tmp_path / SETTINGS_FILE, settings_text(settings))
    here = Installation(tmp_path)
    command = [sys.executable, str(ROOT / "examples" / "subscriber.py"), settings.journal.prefix]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=tmp_path, env={**os.environ, **here.environment}
    ) as process:
        read(process, 4)
        process.terminate()
        assert process.wait(30) == EXIT_CODE
    wire.batch([Event(number, 1, scopes=("USER",)) for number in range(4)])
    goes_on(settings, epochs)
