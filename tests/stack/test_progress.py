"""What an install shows in a terminal."""

from __future__ import annotations

from rich.progress import Progress as Bar

from metajournal.stack.progress import Progress, _InBar


def test_the_bar_pulses_until_the_first_byte_and_stays_full_while_nothing_is_downloaded_any_more() -> None:
    bar = Bar(disable=True)
    report = _InBar(bar)
    [task] = bar.tasks
    report(Progress("resolving", 0, 180))
    assert task.visible
    assert task.description.endswith("resolving")
    assert task.total is None, "a bar of unknown length pulses"
    report(Progress("downloading", 45, 180))
    assert (task.completed, task.total) == (45, 180)
    report(Progress("done", 180, 180))
    report(Progress("recording Spark's classes, once", 0, 0))
    assert (task.completed, task.total) == (180, 180)
    assert task.description.endswith("once")
