"""What an install shows in a terminal."""

from __future__ import annotations

from rich.progress import Progress as Bar

from metajournal.stack.progress import Progress, _InBar


def test_the_bar_pulses_until_the_first_byte_and_stays_full_while_nothing_is_downloaded_any_more() -> None:
    bar = Bar(disable=True)
    report = _InBar(bar)
    [task] = bar.tasks

    def stands() -> tuple[float, float | None]:
        return task.completed, task.total

    report(Progress("resolving", 0, 180))
    assert task.visible
    assert task.description.endswith("resolving")
    assert stands() == (0, None), "a bar of unknown length pulses"
    report(Progress("downloading", 45, 180))
    assert stands() == (45, 180)
    report(Progress("done", 180, 180))
    report(Progress("recording Spark's classes, once", 0, 0))
    assert stands() == (180, 180)
    assert task.description.endswith("once")
