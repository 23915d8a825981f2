"""The reference page of events: the wire form of every type, from the contracts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .markdown import prose, table

ROOT: Final = Path(__file__).parents[1]


def events_page() -> list[str]:
    """The lines of the page."""
    header = json.loads((ROOT / "schemas" / "contracts" / "header.avsc").read_text("utf-8"))
    lines = [
        "# Events",
        "",
        *prose(
            "The wire form of every event type:",
            "Avro, one record for each type, the header first.",
            "In Python each is a class of the same name (`from metajournal import TagsAdded`), whose",
            "arguments are these fields after the header.",
            "The time `at` is milliseconds on the wire; emitters may also use ISO 8601 text with a zone",
            "(`2026-01-31T12:00:00Z`) or, in Python, an aware datetime.",
        ),
    ]
    for path in sorted((ROOT / "domains").glob("*/contracts/*.avsc")):
        contract = json.loads(path.read_text("utf-8"))
        domain, version = path.parents[1].name, path.name.split(".")[-2].removeprefix("v")
        lines += [f"## {domain}.{contract['name']}.{version}", "", contract.get("doc", ""), ""]
        fields = [field for field in contract["fields"] if field["name"] != "header"]
        lines += table(["field", "type", "meaning"], map(_field, fields))
    return [*lines, "## The header", "", header.get("doc", ""), "",
            *table(["field", "type", "meaning"], map(_field, header["fields"]))]  # fmt: skip


def _field(field: Mapping[str, Any]) -> tuple[str, str, str]:
    return f"`{field['name']}`", _avro(field["type"]), field.get("doc", "")


def _avro(kind: Any) -> str:
    if isinstance(kind, str):
        return kind.rpartition(".")[2]
    if isinstance(kind, list):
        return " or ".join(map(_avro, kind))
    match kind["type"]:
        case "array":
            return f"list of {_avro(kind['items'])}"
        case "map":
            return f"map of {_avro(kind['values'])}"
        case "enum":
            return " or ".join(kind["symbols"])
        case "record":
            return f"{kind['name']} ({', '.join(field['name'] for field in kind['fields'])})"
        case "fixed":
            return f"{kind['size']} bytes"
    return str(kind.get("logicalType", kind["type"]))
