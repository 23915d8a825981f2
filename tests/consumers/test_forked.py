"""A forked child has its parent's SIGTERM handler and copies of its subscriptions; its own end as the parent's do."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from metajournal.consumers.ending import EXIT_CODE
from tests.processes import end_with_parent

_BEGIN = """
import os, signal, sys
from metajournal.consumers.ending import closed, opened
class Subscription:
    def __init__(self, name):
        self.name = name
        opened(self)
    def stop(self):
        print("stopped", self.name, flush=True)
    def close(self):
        pass
parents = Subscription("parent's")
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)
"""
_END = """
os.kill(os.getpid(), signal.SIGTERM)
"""
OWN = "own = Subscription('own')"
OF_A_THREAD = """
import threading
thread = threading.Thread(target=lambda: globals().update(own=Subscription('own')))
thread.start()
thread.join()
"""
SECOND = "first = Subscription('first')\nown = Subscription('own')\nclosed(first)"


def lines(text: str) -> list[str]:
    """What a program prints whose child ends itself with SIGTERM."""
    command = [sys.executable, "-c", _BEGIN + text + _END]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, preexec_fn=end_with_parent)
    return done.stdout.splitlines()


@pytest.mark.parametrize("text", [OWN, OF_A_THREAD, SECOND], ids=["own", "of a thread", "second"])
def test_sigterm_ends_the_subscriptions_of_a_forked_child_and_not_its_copies_of_others(text: str) -> None:
    assert lines(text) == ["stopped own", str(EXIT_CODE)]


@pytest.mark.parametrize("text", ["", "own = Subscription('own'); closed(own)"], ids=["none", "closed"])
def test_a_forked_child_without_a_subscription_ends_as_it_did_before(text: str) -> None:
    assert lines(text) == [str(-signal.SIGTERM)]
