"""Which layers of a commit become one, so that it never has many and few rows are written more than a few times.

A layer's tier is the logarithm of its rows to the base 4. A new layer takes in those right before it of a lower tier;
then, while the last four are of one tier, they become one; both until neither applies. So tiers never rise from old to
new, and none has more than three layers. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MOST_ALIKE: Final = 3


def tier(rows: int) -> int:
    """The tier of a layer of some rows, of one at least."""
    return (rows.bit_length() - 1) // 2


def to_join(rows: Sequence[int]) -> int:
    """How many of the last layers become one next; asked again with what that gave, until it is 0.

    Args:
        rows: of each layer, the oldest first; the last one is the new one. A layer without rows is left out before.
    Returns:
        0, or a number of at least 2.
    """
    if not rows:
        return 0
    newest = tier(rows[-1])
    lower = 0
    while lower + 1 < len(rows) and tier(rows[-2 - lower]) < newest:
        lower += 1
    if lower:
        return lower + 1
    alike = rows[-_MOST_ALIKE - 1 :]
    return len(alike) if len(alike) > _MOST_ALIKE and all(tier(one) == newest for one in alike) else 0


def drops_tombstones(layers: int, joined: int) -> bool:
    """Whether a join begins at nothing: no older layer has what its deletions would hide.

    Args:
        layers: of the commit.
        joined: how many of the last ones become one.
    """
    return joined == layers
