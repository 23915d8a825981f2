"""Damaged records and decompression bombs, read in a child process with little memory and a time limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.faults.scale import seeded, times

ROOT = Path(__file__).parents[2]


def in_a_child(*arguments: str, timeout_s: float) -> str:
    """Run a module of this folder, and give what it has printed: it must end well, and in time."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-3000:]}"
    print(done.stdout)  # noqa: T201  (what the run was)
    return done.stdout


def test_damaged_envelopes_are_each_decoded_or_refused_and_read_at_once_as_one_by_one() -> None:
    """The comparisons are made in the child; here it is made sure that every kind of verdict came up."""
    count = times(20_000, 200_000)
    seed = str(seeded("envelopes").random())
    said = in_a_child("tests.faults.envelopes", seed, str(count), timeout_s=600)
    found = {name: int(number) for name, number in (word.split("=") for word in said.split())}
    assert found.pop("peak_mib") < 1_000
    assert sum(found.values()) == count
    kinds = {"decoded", "bad-digest", "no-digest", "not-single-object", "undecodable", "unknown", "wrong-key"}
    assert found.keys() == kinds
    assert min(found.values()) >= 3
    assert found["undecodable"] > count / 4 > found["bad-digest"]


def test_bombs_of_a_few_bytes_take_neither_memory_nor_time_nor_the_process() -> None:
    """Counts, lengths and nestings that promise gigabytes: refused in a child that gets 256 MiB for them."""
    said = in_a_child("tests.faults.bombs", timeout_s=120)
    refused, slowest_s = said.split()
    assert int(refused) > 500
    assert float(slowest_s) < 5.0
