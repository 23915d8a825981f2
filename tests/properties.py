"""How many examples a property is tried with."""

from __future__ import annotations

import os
from typing import Final

FEW: Final = os.environ.get("METAJOURNAL_EXAMPLES") == "few"
"""Whether this is the inner loop (`make test-fast`), which tries a quarter of the examples."""
_LEAST: Final = 3


def examples(number: int) -> int:
    """The number of a property's examples, which all of `make test` tries."""
    return max(_LEAST, number // 4) if FEW else number


def byte_values(at: int) -> range:
    """The values that a byte at a place is changed to: all of them, in the inner loop every fourth."""
    return range(at % 4, 256, 4) if FEW else range(256)
