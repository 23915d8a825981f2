"""The tables of access: keys with their hashes, and how many each principal has. What a row means stands in `rows`."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ...lake.columns import TIMESTAMP
from ...lake.plain import plain_table
from .rows import AccessKeyKey, AccessKeyRow, AccessPrincipalKey, AccessPrincipalRow

TABLES: Final = (
    plain_table(
        AccessKeyRow,
        AccessKeyKey,
        {
            "urn": pa.string(),
            "hash": pa.string(),
            "not_after": TIMESTAMP,
            "label": pa.string(),
            "once": pa.bool_(),
        },
        few=("once",),
    ),
    plain_table(AccessPrincipalRow, AccessPrincipalKey, {"urn": pa.string(), "live_keys": pa.int64()}),
)
