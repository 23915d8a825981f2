"""The one JSON spelling of `schemas.hashing.canonical_json`, for documents of plain values, fifteen times as fast.

Only for what the fold itself makes: texts, whole numbers, booleans, None, and lists and mappings of them with text
keys. Of other values (floats above all) the two ways may differ; what the fast one refuses, the slow one judges.
"""

from __future__ import annotations

from typing import Any

import orjson

from ..schemas.hashing import canonical_json


def spelled(document: Any) -> bytes:
    """Canonical JSON of a document of texts, whole numbers, booleans, None, lists and dicts.

    Raises:
        ValueError, TypeError: as `canonical_json`; a lone surrogate, for one.
    """
    try:
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # its refusals: lone surrogates, subclasses as keys, numbers beyond 64 bits
        return canonical_json(document)
