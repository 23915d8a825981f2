"""The Kafka keys of one journal partition: which of them name an entity that is alone in its aggregate.

Each distinct key is judged once for as long as the task lasts, and has a number from then on, so that events are told
apart by numbers. Keys that differ in a plain last part only are judged as one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.folded import RowKey
from ....fold.records import Place
from ....schemas.encoding.cursor import Numbers
from ....schemas.errors import InvalidUrnError
from ....schemas.header import TENANT_PATTERN
from ....schemas.kinds import KINDS
from ....schemas.limits import MAX_URN_BYTES
from ....schemas.partitions import partitions_of
from ....schemas.urn import Urn

NOT_ALONE: Final = -1
_SHARED: Final = frozenset(row.aggregate_kind for row in KINDS.values())
"""Kinds of aggregates that hold more entities than themselves."""
_PLAIN: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._$~+-]*")
"""A last part that names itself: see `schemas.urn`."""


class _Front(NamedTuple):
    """What keys have in common that differ in their last part only."""

    tenant: str
    kind: str
    namespace: str | None


class Keys:
    """Numbers for keys, from 0 on, and what they name.

    Args:
        place: the partition that the keys stand in; a key that belongs elsewhere gets no number.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._numbers: dict[bytes, int] = {}
        self._judged: dict[bytes, _Front | None] = {}
        self._keys: list[bytes] = []
        self._fronts: list[_Front] = []
        self._names: list[bytes] = []
        self._columns = _columns([], [], [])

    def __len__(self) -> int:
        """How many numbers there are."""
        return len(self._keys)

    def numbers(self, keys: Sequence[bytes]) -> Numbers:
        """The number of each key; NOT_ALONE of one that names no entity which is alone in its aggregate."""
        known = self._numbers
        new = [key for key in dict.fromkeys(keys) if key not in known]
        for key, partition in zip(new, partitions_of(new, self._place.partitions), strict=True):
            known[key] = self._add(key) if partition == self._place.partition else NOT_ALONE
        return np.array([known[key] for key in keys], np.int64)

    def _add(self, key: bytes) -> int:
        front, _, last = key.rpartition(b"/")
        if len(key) > MAX_URN_BYTES or not _PLAIN.fullmatch(last):
            judged_front, last = self._alone(key)
        elif front in self._judged:
            judged_front = self._judged[front]
        else:
            judged_front, _ = self._alone(key)
            self._judged[front] = judged_front
        if judged_front is None:
            return NOT_ALONE
        self._keys.append(key)
        self._fronts.append(judged_front)
        self._names.append(last)
        return len(self._keys) - 1

    def _alone(self, key: bytes) -> tuple[_Front | None, bytes]:
        """What a key names, and its last part decoded; None where that is not alone in its aggregate."""
        try:
            tenant, _, text = key.decode().partition("/")
            urn = Urn(text)
        except (UnicodeDecodeError, InvalidUrnError):
            return None, b""
        alone = urn.aggregate == urn and urn.kind not in _SHARED and urn.domain == self._place.domain
        if not alone or not TENANT_PATTERN.fullmatch(tenant):
            return None, b""
        return _Front(tenant, urn.kind, urn.namespace), urn.name.encode()

    def number_of(self, key: RowKey) -> int:
        """The number of the key of (tenant, URN); NOT_ALONE where it has none."""
        return self._numbers.get("/".join(key).encode("utf-8", "surrogatepass"), NOT_ALONE)

    def key(self, number: int) -> RowKey:
        """Tenant and URN of a number."""
        tenant, _, urn = self._keys[number].decode().partition("/")
        return tenant, urn

    def columns(self, numbers: Numbers) -> dict[str, Any]:
        """The columns of the `entities` table that follow from the keys of these numbers."""
        done = self._columns.num_rows
        if done < len(self):
            new = _columns(self._keys[done:], self._fronts[done:], self._names[done:])
            self._columns = pa.concat_tables([self._columns, new]).combine_chunks()
        own_columns = self._columns.take(pa.array(numbers))
        return {**{name: own_columns[name] for name in own_columns.column_names}, "aggregate": own_columns["urn"]}


def _columns(keys: Sequence[bytes], fronts: Sequence[_Front], names: Sequence[bytes]) -> pa.Table:
    numbered: dict[_Front, int] = {}
    which = pa.array([numbered.setdefault(front, len(numbered)) for front in fronts], pa.int64())
    shared = [
        pa.array([front[field] for front in numbered], pa.string()).take(which) for field in range(len(_Front._fields))
    ]
    urns = pc.list_element(pc.split_pattern(_texts(keys), "/", max_splits=1), 1)
    return pa.table([*shared, urns, _texts(names)], names=[*_Front._fields, "urn", "name"])


def _texts(values: Sequence[bytes]) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string())
