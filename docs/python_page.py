"""The reference page of the Python interface: signatures and docstrings of what users hold in their hands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import metajournal

SECTIONS: Final = {
    "The journal": ["Journal", "producers.units:Unit"],
    "What an emit gives": [
        "producers.receipts:Receipt", "Accepted", "Unchanged", "Rejected", "Shelved", "Duplicate",
        "producers.verdicts:UnitOutcome",
    ],
    "What is waited for without a thread": ["producers.waiting.futures:AwaitableFuture"],
    "What following gives": ["consumers.followers:Follow"],
    "Arguments of a subscription": ["consumers.subscription:Subscription", "consumers.filters:Filter"],
    "What a subscription gives": ["consumers.records:Change", "consumers.records:State"],
    "Arguments of a search": [
        "indexer.search.searching:Search.search", "indexer.search.searching:Search.suggest_names",
        "indexer.search.searching:Search.suggest_keys",
    ],
    "What a search gives": [
        "indexer.search.results:Results", "indexer.search.results:Hit", "indexer.search.results:Count",
    ],
    "What the lake answers": [
        "lake.reading:Answer", "rules.entity:EntityRow", "domains.lineage.questions:Page",
        "domains.files.queries:FilesPage",
        "domains.files.rows:FileRecordRow",
    ],
    "Names": ["Urn", "urn", "dataset", "stream", "app", "program", "run", "file_urn", "Position"],
    "Events of the catalog": [
        "EntityRegistered", "EntityDeleted", "PropertiesSet", "PropertiesRemoved", "TagsAdded", "TagsRemoved",
        "MetadataCleared",
    ],
    "Events of files": ["FilesRecorded", "FileRecord", "FileMetadata", "file_record", "content_hash"],
    "Events of lineage": ["RunStarted", "RunStopped", "AccessesRecorded", "Access", "ExternalWrite"],
}  # fmt: skip
"""What the page tells of: names of the package, or "module:name" of what its functions take and give."""
_HEADING: Final = re.compile(r"(Args|Attributes|Returns|Raises|Yields)\b[^:]*:$")
_ITEM: Final = re.compile(r"([\w*, ]+|[A-Z]\w+): (.*)")


def python_page() -> list[str]:
    """The lines of the page."""
    lines = [
        "# Python",
        "",
        "`from metajournal import Journal, TagsAdded, dataset`: what stands here. [Errors](errors.md) and",
        "[the fields of events on the wire](events.md) have pages of their own.",
        "",
    ]
    for title, names in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _told(name)
    return [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]


def _told(name: str) -> Iterator[str]:
    module, _, path = name.rpartition(":")
    held: Any = import_module(f"metajournal.{module}") if module else metajournal
    for part in path.split("."):
        held = getattr(held, part)
    yield from _entry(path.rpartition(".")[2], held)
    if inspect.isclass(held) and not issubclass(held, tuple):
        for method, of in _members(held):
            yield from _entry(f"{path}.{method}", of)


def _members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Methods and properties that users call."""
    for name, held in inspect.getmembers(kind):
        function = held.fget if isinstance(held, property) else held
        ours = (getattr(function, "__module__", None) or "").startswith("metajournal") and callable(function)
        if ours and not inspect.isclass(function) and not name.startswith("_") and name not in _NOT_FOR_USERS:
            yield name, held


_NOT_FOR_USERS: Final = frozenset({
    "aggregate", "delivered", "emitter", "entities", "entity", "file_queries", "from_wire", "lake", "lineages",
    "raise_if_rejected", "validate",
})  # fmt: skip


def _entry(name: str, held: Any) -> Iterator[str]:
    yield from (f"### {name}", "")
    shown = _signature(name, held)
    if shown:
        yield from (f"    {shown}", "")
    yield from _document(inspect.getdoc(held) or "")


_MADE_BY_USERS = ("metajournal.schemas", "metajournal.producers.units")
"""Where classes stand that users make themselves; besides them, the events of the domains."""


def _signature(name: str, held: Any) -> str:
    """How it is called, a line; empty for what users do not make themselves, and for a property."""
    if isinstance(held, property):
        return ""
    if inspect.isclass(held) and not (
        held.__module__.startswith(_MADE_BY_USERS) or held.__module__.endswith(".events")
    ):
        return ""
    parts, bare = [], False
    for one in inspect.signature(held).parameters.values():
        if one.name in ("self", "_cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not bare:
            parts.append("*")
            bare = True
        bare = bare or one.kind is one.VAR_POSITIONAL
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        hint = "" if one.annotation is one.empty or stars else f": {_hint(one.annotation)}"
        default = "" if one.default is one.empty else f" = {_default(one.default)}"
        parts.append(f"{stars}{one.name}{hint}{default}")
    return f"{name}({', '.join(parts)})"


def _hint(annotation: Any) -> str:
    told = getattr(annotation, "__forward_arg__", annotation)
    return told if isinstance(told, str) else getattr(told, "__name__", str(told))


def _default(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float | bool | tuple | None) else "…"


def _document(text: str) -> Iterator[str]:
    """A docstring as Markdown: paragraphs, and a list below each of its headings."""
    listed = False
    for line in text.splitlines():
        words = line.strip()
        if _HEADING.fullmatch(words):
            listed = True
            yield from ("", f"*{words}*", "")
        elif not words:
            yield ""
        elif listed and (item := _ITEM.fullmatch(words)) and line.startswith("    ") and not line.startswith("     "):
            yield f"- `{item[1]}`: {_escaped(item[2])}"
        elif listed and line.startswith("    "):
            yield f"  {_escaped(words)}"
        else:
            listed = False
            yield line if line.startswith("    ") else _escaped(words)
    yield ""


def _escaped(words: str) -> str:
    parts = words.split("`")
    parts[::2] = [one.replace("<", "\\<") for one in parts[::2]]
    return "`".join(parts)
