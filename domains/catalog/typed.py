"""Typed events of the catalog: an Avro schema may be given as the JSON object itself, not only as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def typed(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an event as JSON has them, made ready for its class."""
    schema = values.get("schema")
    if not isinstance(schema, Mapping):
        return values
    return {**values, "schema": json.dumps(schema, ensure_ascii=False, separators=(",", ":"))}
