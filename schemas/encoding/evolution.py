"""May data written with one schema always be read with another? Avro's resolution rules as a static check.

`FULL_TRANSITIVE`: every version of a contract reads every other's data, so neither readers nor writers need to be
upgraded first. Aliases are refused on top of Avro's rules, because the generated decoder does not follow them.

Source: Avro specification 1.12, Schema Resolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any, Final

from .avro import PRIMITIVES, Schema, named_types

_PROMOTIONS: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}


def full_transitive_faults(versions: Sequence[Schema]) -> list[str]:
    """Why some version cannot read another's data; empty when all read all.

    Args:
        versions: expanded schemas of one event type.
    """
    faults = []
    for (version, writer), (to, reader) in permutations(enumerate(versions), 2):
        faults += [f"version {to} reading version {version}: {why}" for why in resolution_faults(writer, reader)]
    return faults


def resolution_faults(writer: Schema, reader: Schema) -> list[str]:
    """Why data of the writer's schema cannot always be read with the reader's; both are expanded."""
    return _Check(named_types(writer), named_types(reader)).faults(writer, reader, "")


class _Check:
    def __init__(self, writer_types: dict[str, Any], reader_types: dict[str, Any]) -> None:
        self._writer_types = writer_types
        self._reader_types = reader_types
        self._open: set[tuple[str, str]] = set()

    def faults(self, writer: Schema, reader: Schema, path: str) -> list[str]:
        writer, reader = _definition(writer, self._writer_types), _definition(reader, self._reader_types)
        if isinstance(writer, list):
            return [why for branch in writer for why in self.faults(branch, reader, path)]
        if isinstance(reader, list):
            return self._any_branch(writer, reader, path)
        writes, reads = _kind(writer), _kind(reader)
        if writes != reads:
            promoted = reads in _PROMOTIONS.get(writes, ())
            return [] if promoted else [f"{path or 'the whole'}: {reads} cannot read {writes}"]
        if writes in PRIMITIVES:
            return []
        match writes:
            case "array":
                return self.faults(writer["items"], reader["items"], f"{path}[]")
            case "map":
                return self.faults(writer["values"], reader["values"], f"{path}{{}}")
            case _:
                return self._named(writer, reader, path)

    def _any_branch(self, writer: Schema, reader: list[Schema], path: str) -> list[str]:
        if any(not self.faults(writer, branch, path) for branch in reader):
            return []
        return [f"{path or 'the whole'}: no branch of the union reads {_kind(writer)}"]

    def _named(self, writer: dict[str, Any], reader: dict[str, Any], path: str) -> list[str]:
        if writer["name"] != reader["name"]:
            return [f"{path or 'the whole'}: {reader['name']} cannot read {writer['name']}"]
        if "aliases" in reader:
            return [f"{path or 'the whole'}: aliases are not supported"]
        match writer["type"]:
            case "fixed":
                same = writer["size"] == reader["size"]
                return [] if same else [f"{path}: {reader['size']} bytes cannot read {writer['size']}"]
            case "enum":
                return _enum_faults(writer, reader, path)
            case _:
                return self._record(writer, reader, path)

    def _record(self, writer: dict[str, Any], reader: dict[str, Any], path: str) -> list[str]:
        pair = (writer["name"], reader["name"])
        if pair in self._open:  # a recursive type: judged where it was opened
            return []
        self._open.add(pair)
        written = {field["name"]: field for field in writer["fields"]}
        faults = []
        for field in reader["fields"]:
            place = f"{path}.{field['name']}" if path else field["name"]
            if "aliases" in field:
                faults.append(f"{place}: aliases are not supported")
            if field["name"] in written:
                faults += self.faults(written[field["name"]]["type"], field["type"], place)
            elif "default" not in field:
                faults.append(f"{place}: it has no default and is not written")
        self._open.discard(pair)
        return faults


def _definition(schema: Schema, types: dict[str, Any]) -> Schema:
    if isinstance(schema, str) and schema not in PRIMITIVES:
        return types[schema]
    return schema


def _kind(schema: Schema) -> str:
    return schema if isinstance(schema, str) else str(schema["type"])


def _enum_faults(writer: dict[str, Any], reader: dict[str, Any], path: str) -> list[str]:
    unknown = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
    return [f"{path}: it does not know {', '.join(unknown)}"] if unknown and "default" not in reader else []
