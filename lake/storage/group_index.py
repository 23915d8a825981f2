"""Which row groups of a file can hold a rare value: hashes of a column's values by group, in the file's footer.

Statistics bound a column's values, which says nothing of values that come in any order, as work_ids do: each group then
spans all of them. So a file of a table that is asked for such values tells in its footer, group by group, the hashes of
the few values that there are. A hash may be that of another value, so a group that is named is looked into; one that is
not named holds none. A file without an index is read.
"""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from ..declared import SPECS

_KEY: Final = b"metajournal.groups"
_HASH: Final = pa.uint32()


class _Column(NamedTuple):
    """Attributes: hashes of all groups, one group's behind the other's; where each group's end."""

    hashes: pa.Array
    ends: tuple[int, ...]


GroupIndex = Mapping[str, _Column]


class IndexWriter:
    """Notes the groups of one file as they are written.

    Args:
        name: the table's.
    """

    def __init__(self, name: str) -> None:
        self._columns = SPECS[name].indexed
        self._found: dict[str, list[pa.Array]] = {column: [] for column in self._columns}

    def note(self, group: pa.Table) -> None:
        """Add the next group."""
        for column, only in self._columns.items():
            rows = group if only is None else group.filter(group[only])
            texts = pc.unique(rows[column].drop_null()).to_pylist()
            self._found[column].append(_hashes(texts))

    def metadata(self) -> dict[bytes, bytes]:
        """What goes into the footer."""
        if not self._columns:
            return {}
        index = {
            column: {"counts": list(map(len, groups)), "hashes": _written(pa.concat_arrays([_none(), *groups]))}
            for column, groups in self._found.items()
        }
        return {_KEY: json.dumps(index).encode()}


def read_index(metadata: Mapping[bytes, bytes] | None) -> GroupIndex:
    """The index in a footer's metadata; empty where there is none."""
    text = (metadata or {}).get(_KEY)
    if text is None:
        return {}
    columns: Mapping[str, Any] = json.loads(text)
    return {
        name: _Column(_read(written["hashes"]), tuple(accumulate(written["counts"])))
        for name, written in columns.items()
    }


def groups_with(index: GroupIndex, column: str, texts: Iterable[str]) -> set[int] | None:
    """Numbers of the groups that can hold one of some values; None where it is not known."""
    hashed = index.get(column)
    if hashed is None:
        return None
    places = pc.indices_nonzero(pc.is_in(hashed.hashes, value_set=_hashes(texts))).to_pylist()
    return {bisect_right(hashed.ends, place) for place in places}


def _hashes(texts: Iterable[str]) -> pa.Array:
    return pa.array([crc32(text.encode()) for text in texts], _HASH)


def _none() -> pa.Array:
    return pa.array([], _HASH)


def _written(hashes: pa.Array) -> str:
    _, data = hashes.buffers()
    raw = b"" if data is None else data.to_pybytes()[: 4 * len(hashes)]
    return base64.b64encode(raw).decode()


def _read(text: str) -> pa.Array:
    raw = base64.b64decode(text)
    return pa.Array.from_buffers(_HASH, len(raw) // 4, [None, pa.py_buffer(raw)])
