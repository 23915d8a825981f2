"""What the gateway answered, held against the shape that the table of endpoints declares, by each test that asks."""

from __future__ import annotations

import json
from functools import cache
from http import HTTPStatus

from docs.json_shapes import faults
from metajournal.gateway.answer_schemas import is_shape
from metajournal.gateway.routing import Router, path_parts
from metajournal.gateway.table import Table
from metajournal.schemas.endpoints import Endpoint
from metajournal.schemas.registry import domains


@cache
def _router() -> Router:
    return Router(Table(domain.name for domain in domains() if domain.journal is None).endpoints)


def check_answer(method: str, path: str, status: int, body: bytes) -> None:
    """Hold the answer to a request against its shape. Raises: AssertionError: it has another one."""
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        return
    found = _router().find(path_parts(path.partition("?")[0].encode())).by_method.get(method)
    row = None if found is None else found[0]
    if isinstance(row, Endpoint) and is_shape(row.answer):
        wrong = faults(row.answer, json.loads(body))
        assert not wrong, f"{method} {path}: {wrong}"
