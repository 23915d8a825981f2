"""How hard the fault tests push: a short version in every run, the long one with `make faults`.

Every fault is drawn from a seed that is printed, so a failing run can be repeated: `METAJOURNAL_SEED=<n> make faults`.
"""

from __future__ import annotations

import os
import random
from typing import TypeVar

T = TypeVar("T")
LONG = os.environ.get("METAJOURNAL_FAULTS") == "long"


def times(short: T, long: T) -> T:
    """How often or how much something is done: the first in `make test`, the second in `make faults`."""
    return long if LONG else short


def seeded(name: str) -> random.Random:
    """A random generator of its own for one test, with its seed printed."""
    seed = int(os.environ.get("METAJOURNAL_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"{name}: METAJOURNAL_SEED={seed}")  # noqa: T201  (how to repeat a failing run)
    return random.Random(f"{name}/{seed}")
