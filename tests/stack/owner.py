"""Starts a Stack and waits to be killed (run by test_stack_runs.py)."""

import signal
import sys

from metajournal.stack.services import Stack

with Stack(sys.argv[1]):
    sys.stdout.write("up\n")
    sys.stdout.flush()
    signal.pause()
