"""Cursors of the questions about lineage that are answered in pages: where a page ended, and the cut that all are of.

A cursor belongs to one question: it carries a sign of it, so that it is not taken for another one's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from ...lake.cuts import At, Bounds
from ...schemas.encoding.wire import MAX_LONG
from ...schemas.errors import InputError
from ...schemas.hashing import canonical_json, digest
from .questions import RunQuestion, RunsQuestion

OF_RUNS: Final = (int, str)
OF_ACCESSES: Final = (str, str, str)
"""What a page begins behind: a run's begin and URN, or an access's data, kind and component."""


def identity_of(tenant: str, question: RunsQuestion | RunQuestion, as_at: At | None) -> str:
    """What a cursor belongs to: the tenant, the question and the point that it was asked at."""
    point = sorted(map(str, as_at.items())) if isinstance(as_at, Mapping) else str(as_at)
    if isinstance(question, RunsQuestion):
        answered, window = "runs", (question.start_ms, question.end_ms)
    else:
        answered, window = "accesses", (0, 0)
    parts = [f"{answered} as of {question.as_of}", tenant, str(question.urn), *window, point]
    return digest(canonical_json(parts)).hex()[:16]


def cursor_of(identity: str, after: list[Any], bounds: Bounds) -> str:
    """The cursor of what comes behind an item."""
    return base64.urlsafe_b64encode(canonical_json([identity, bounds.to_json(), after])).decode().rstrip("=")


def read_cursor(cursor: str, identity: str, topic: str, place: tuple[type, ...]) -> tuple[list[Any], Bounds]:
    """What a cursor says. Raises: InputError: it is none of this question."""
    try:
        belongs_to, below, after = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        bounds = Bounds.from_json(topic, below, True)
        good = belongs_to == identity and _is_place(after, place)
    except (ValueError, TypeError, RecursionError):
        good = False
    if not good:
        raise InputError(
            "The cursor belongs to another query.", hint="Use the arguments of the first page, or no cursor."
        )
    return list(after), bounds


def _is_place(after: Any, place: tuple[type, ...]) -> bool:
    """Whether a value is a place, of numbers and texts that a table can hold."""
    if not isinstance(after, list) or tuple(map(type, after)) != place:
        return False
    return all(_is_text(part) if isinstance(part, str) else abs(part) <= MAX_LONG for part in after)


def _is_text(part: str) -> bool:
    return part.encode("utf-8", "replace").decode() == part
