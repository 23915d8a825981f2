"""Events of files from what people type: times are read, and files without an id get one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .recording import prepared


def typed(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an event as JSON has them, made ready for its class."""
    files = values.get("files")
    return {**values, "files": [prepared(file) for file in files]} if isinstance(files, list) else values
