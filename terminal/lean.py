"""Commands without pandas: they have no use for it, and loading it takes a third of a second and 25 MiB.

Arrow looks for it when it first meets a Python value (which might be one of pandas'), and does without where there is
none. Only for a process that runs one command: what Arrow has found is found for good.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

_LEFT_OUT: Final = "pandas"


class _LeavesOut:
    """An importer that finds nothing where it is asked for pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == _LEFT_OUT:
            raise ModuleNotFoundError(f"No module named {name!r} (this command does not need it)", name=name)


def leave_pandas_out() -> None:
    """Let the rest of this process do without pandas, where it is not loaded yet."""
    sys.meta_path.insert(0, _LeavesOut())
