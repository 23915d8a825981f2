"""What a topic's record in `<prefix>.epochs` tells of the epochs that were restored into it.

It stands in a field of the topic's own record, which older versions pass over: the journal table's marks are in the
present epoch before the record is written, so they begin behind what was restored as this version does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FIELD: Final = "restored"
GAP_HEADER: Final = "mj-gap"
"""Header of a record without key and value, which stands where the lost topic had none: a transaction's marker, or an
event whose transaction was aborted. Every other record so keeps its offset."""
Earlier = tuple[tuple[int, tuple[int, ...]], ...]


def restored_of(record: Mapping[str, Any]) -> Earlier:
    """The earlier epochs of a topic's record, oldest first, with the end offset of each partition.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: the field is damaged.
    """
    earlier = tuple((int(row["epoch"]), tuple(map(int, row["ends"]))) for row in record.get(FIELD, ()))
    if any(len(ends) != int(record["partitions"]) for _, ends in earlier):
        raise ValueError("an epoch has the ends of other partitions")
    return earlier


def restored_field(earlier: Earlier) -> dict[str, Any]:
    """The field of a topic's record."""
    return {FIELD: [{"epoch": epoch, "ends": list(ends)} for epoch, ends in earlier]}


def is_gap(headers: Any) -> bool:
    """Whether a record below a restored end only fills an offset. Elsewhere such a record is judged as any other."""
    return any(name == GAP_HEADER for name, _ in headers or ())
