"""Cursors of the queries over files: where a page ended, and the moment that all pages speak of.

A cursor is JSON behind a digest, as base64 of the alphabet that needs no quoting anywhere. It belongs to one query.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from ...lake.cuts import At, Bounds
from ...schemas.encoding.wire import MAX_LONG, MIN_LONG
from ...schemas.errors import FilesQueryError
from .order import PageKey
from .questions import FilesQuestion

_DIGEST_BYTES: Final = 8


def identity_of(tenant: str, question: FilesQuestion, as_at: At | None) -> str:
    """What a cursor belongs to: the tenant, the query and the point that it was asked at."""
    point = sorted((*key, value) for key, value in as_at.items()) if isinstance(as_at, Mapping) else str(as_at)
    text = json.dumps([tenant, question._asdict(), point], sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def cursor_of(identity: str, after: PageKey, bounds: Bounds) -> str:
    """The cursor of what comes behind a key."""
    body = json.dumps([1, identity, list(after), bounds.to_json(), bounds.final], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_check(body) + body).rstrip(b"=").decode()


def read_cursor(cursor: str, identity: str, topic: str) -> tuple[PageKey, Bounds]:
    """What a cursor says. Raises: FilesQueryError."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        body = raw[_DIGEST_BYTES:]
        if raw[:_DIGEST_BYTES] != _check(body):
            raise ValueError("another digest")
        version, belongs_to, (start, where, what, file_id), bounds, final = json.loads(body)
        texts = where, what, file_id
        if version != 1 or not _is_long(start, MIN_LONG) or not all(map(_is_text, texts)) or not _are_bounds(bounds):
            raise ValueError("another form")
        opened = PageKey(start, where, what, file_id), Bounds.from_json(topic, bounds, final is True)
    except (ValueError, TypeError, RecursionError):
        raise FilesQueryError(
            "The cursor cannot be read.",
            code="unreadable-cursor",
            hint="Pass the cursor of the previous page unchanged, or none for the first page.",
        ) from None
    if belongs_to != identity:
        raise FilesQueryError(
            "The cursor belongs to another query.",
            code="unreadable-cursor",
            hint="Use the same arguments as for the previous page, or no cursor.",
        )
    return opened


def _is_text(value: Any) -> bool:
    """Whether a value is a text that a table can hold: one without a lone surrogate."""
    return type(value) is str and value.encode("utf-8", "replace").decode() == value


def _is_long(value: Any, least: int) -> bool:
    return type(value) is int and least <= value <= MAX_LONG


def _are_bounds(value: Any) -> bool:
    """Whether a value is what `Bounds.to_json` gives: of a page with another behind it, at least one partition's."""
    return isinstance(value, list) and value != [] and all(_is_bound(*bound) for bound in value)


def _is_bound(partition: Any, below: Any, until_ms: Any) -> bool:
    return _is_long(partition, 0) and _is_long(below, 0) and (until_ms is None or _is_long(until_ms, MIN_LONG))


def _check(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST_BYTES, person=b"mj-files").digest()
