"""Named points at which a test can have the process killed, to prove that every step may be the last one."""

from __future__ import annotations

import os
import signal

POINTS = (
    "before-history",
    "after-history",
    "mid-publish",
    "after-publish",
    "after-outcomes",
    "after-journal",
)
"""Between the fold's steps 3 and 4, 4 and 5, inside 5 (records sent, not awaited), between the records and the
outcomes of 5, between 5 and 6, and after 6 before the caches advance."""
PUBLISHING = ("mid-publish", "after-publish")
"""Those of them that the wide way's tasks pass."""
TIDYING = ("compact-before-files", "compact-after-files", "compact-after-commit", "vacuum-before", "vacuum-after")
"""Around a compaction's files and its commit, and around the vacuum."""
SWAPPING = ("swap-before", "swap-after")
"""Around the replacement of the pointer that makes a rebuilt generation the live one."""
DERIVING = ("derive-before-files", "derive-after-files", "derive-before-commit", "derive-after-commit")
"""Around the files of a piece of derived tables, in the process that makes it, and around each table's commit of it."""
RESTORING = ("restore-made", "restore-writing", "restore-filled", "restore-marked", "restore-recorded")
"""Of `restore topics`: behind its topics' creation, each time some offsets are written, behind all of them, behind the
journal table's marks, and behind the records of the epochs topic."""


class CrashPoints:
    """Kills this process with SIGKILL at the n-th passing of one point.

    Args:
        spec: `<point>:<n>`, n from 1; None never kills.
    Raises:
        ValueError: the point is unknown or n is not a number.
    """

    def __init__(self, spec: str | None) -> None:
        self._point, self._left = "", 0
        if spec is not None:
            self._point, _, count = spec.partition(":")
            self._left = int(count or 1)
            known = (*POINTS, *TIDYING, *SWAPPING, *DERIVING, *RESTORING)
            if self._point not in known:
                raise ValueError(f"{self._point!r} is not a crash point; there are {', '.join(known)}")

    def pass_point(self, point: str) -> None:
        """Pass a point."""
        if self.strikes(point):
            os.kill(os.getpid(), signal.SIGKILL)

    def strikes(self, point: str) -> bool:
        """Pass a point; whether this is the passing at which the process ends (by whoever asks)."""
        if point != self._point:
            return False
        self._left -= 1
        return self._left == 0
