"""Which rows of staging areas no later reset covers, told as they pass in order; in memory is what covers one path.

`staging` says the same of the rows of one area at once. Source: docs/concepts.md.
"""

from __future__ import annotations


class Sweep:
    """Rows and partial resets of staging areas, one behind the other.

    They come by area, path (in the order of its bytes, which is that of its code points), and at one path the resets
    before the row. A path has one row in an area, and each prefix one reset: the newest ones.
    """

    def __init__(self) -> None:
        self._area = -1
        self._prefixes: list[tuple[str, int]] = []
        self._exactly = ("", -1)

    def reset(self, area: int, path: str, is_prefix: bool, position: int) -> None:
        """A reset of a path, or of all paths with a prefix."""
        self._reach(area, path)
        if is_prefix:
            around = self._prefixes[-1][1] if self._prefixes else -1
            self._prefixes.append((path, max(position, around)))
        else:
            self._exactly = path, position

    def stands(self, area: int, path: str, position: int) -> bool:
        """Whether a row is newer than every reset that covers its path."""
        self._reach(area, path)
        named, up_to = self._exactly
        if named == path and position <= up_to:
            return False
        return not self._prefixes or position > self._prefixes[-1][1]

    def _reach(self, area: int, path: str) -> None:
        if area != self._area:
            self._area, self._exactly = area, ("", -1)
            self._prefixes.clear()
        while self._prefixes and not path.startswith(self._prefixes[-1][0]):
            self._prefixes.pop()
