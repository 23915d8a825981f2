"""Shapes of answers (`schemas.shapes`) as JSON Schema, the named ones each once.

An object is open: later versions may add members, so who reads an answer passes over what they do not know.
Source: JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..schemas.shapes import Map, Named

_TYPES: Final[Mapping[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean", None: "null"}
_ALL: Final = object


def is_shape(value: Any) -> bool:
    """Whether a value is a shape that is no type of Python."""
    return isinstance(value, Mapping | list | tuple)


class AnswerSchemas:
    """Schemas of shapes, which refer to those with names.

    Args:
        reference: how a name is referred to; has `{name}`.
    Attributes:
        named: the schemas of the names that were referred to.
    """

    def __init__(self, reference: str) -> None:
        self.named: dict[str, dict[str, Any]] = {}
        self._reference = reference

    def of(self, shape: Any) -> dict[str, Any]:
        """The schema of a shape."""
        if isinstance(shape, Named):
            if shape.name not in self.named:
                self.named[shape.name] = self._of_object(shape)
            return {"$ref": self._reference.format(name=shape.name)}
        if isinstance(shape, Map):
            return {"type": "object", "additionalProperties": self.of(shape.value)}
        if isinstance(shape, tuple):
            return {"anyOf": [self.of(one) for one in shape]}
        if isinstance(shape, list):
            return {"type": "array", "items": self.of(shape[0])}
        if isinstance(shape, Mapping):
            return self._of_object(shape)
        return {} if shape is _ALL else {"type": _TYPES[shape]}

    def _of_object(self, shape: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name.removesuffix("?"): self.of(part) for name, part in shape.items()},
            "required": [name for name in shape if not name.endswith("?")],
        }
