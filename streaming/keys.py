"""The Kafka keys of one journal partition: which of them name an entity that is alone in its aggregate.

Each distinct key is judged once for as long as the task lasts, and has a number from then on, so that events are told
apart by numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ..schemas.cursor import Numbers
from ..schemas.errors import InvalidUrnError
from ..schemas.header import TENANT_PATTERN
from ..schemas.kinds import KINDS
from ..schemas.partitions import partitions_of
from ..schemas.urn import Urn
from .folded import RowKey
from .records import Place

NOT_ALONE: Final = -1
_COLUMNS: Final = ("tenant", "urn", "kind", "namespace", "name")
_SHARED: Final = frozenset(row.aggregate_kind for row in KINDS.values())
"""Kinds of aggregates that hold more entities than themselves."""


class Keys:
    """Numbers for keys, from 0 on, and what they name.

    Args:
        place: the partition that the keys stand in; a key that belongs elsewhere gets no number.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._numbers: dict[bytes, int] = {}
        self._named: list[tuple[str, Urn]] = []
        self._columns = pa.schema([(name, pa.string()) for name in _COLUMNS]).empty_table()

    def __len__(self) -> int:
        """How many numbers there are."""
        return len(self._named)

    def numbers(self, keys: Sequence[bytes]) -> Numbers:
        """The number of each key; NOT_ALONE of one that names no entity which is alone in its aggregate."""
        known = self._numbers
        new = [key for key in keys if key not in known]
        for key, partition in zip(new, partitions_of(new, self._place.partitions), strict=True):
            named = self._judged(key) if partition == self._place.partition else None
            known[key] = NOT_ALONE if named is None else len(self._named)
            if named is not None:
                self._named.append(named)
        return np.array([known[key] for key in keys], np.int64)

    def _judged(self, key: bytes) -> tuple[str, Urn] | None:
        try:
            tenant, _, text = key.decode().partition("/")
            urn = Urn(text)
        except (UnicodeDecodeError, InvalidUrnError):
            return None
        alone = urn.aggregate == urn and urn.kind not in _SHARED and urn.domain == self._place.domain
        return (tenant, urn) if alone and TENANT_PATTERN.fullmatch(tenant) else None

    def number_of(self, key: RowKey) -> int:
        """The number of the key of (tenant, URN); NOT_ALONE where it has none."""
        return self._numbers.get("/".join(key).encode("utf-8", "surrogatepass"), NOT_ALONE)

    def key(self, number: int) -> RowKey:
        """Tenant and URN of a number."""
        tenant, urn = self._named[number]
        return tenant, str(urn)

    def columns(self, numbers: Numbers) -> dict[str, Any]:
        """The columns of the `entities` table that follow from the keys of these numbers."""
        if self._columns.num_rows < len(self._named):
            new = self._named[self._columns.num_rows :]
            self._columns = pa.concat_tables([self._columns, _columns(new)]).combine_chunks()
        found = self._columns.take(pa.array(numbers))
        return {**{name: found[name] for name in _COLUMNS}, "aggregate": found["urn"]}


def _columns(named: Sequence[tuple[str, Urn]]) -> pa.Table:
    tenants, urns = zip(*named, strict=True)
    texts = [tenants, urns, *zip(*((urn.kind, urn.namespace, urn.name) for urn in urns), strict=True)]
    return pa.table([pa.array(text, pa.string()) for text in texts], names=_COLUMNS)
