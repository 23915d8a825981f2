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
    "Files: journal.files": ["domains.files.client:FilesClient"],
    "Lineage: journal.lineage": ["domains.lineage.client:LineageClient"],
    "Repositories: journal.repositories": [
        "domains.repositories.client:RepositoriesClient",
        "domains.repositories.client:Repository",
        "domains.repositories.client:Branch",
        "domains.repositories.transactions:Transaction",
    ],
    "Access: journal.access": ["domains.access.client:AccessClient", "domains.access.directory:Directory"],
    "What emit returns": [
        "producers.receipts:Receipt", "Accepted", "Unchanged", "Rejected", "Shelved", "Duplicate",
        "producers.verdicts:UnitOutcome",
    ],
    "Waiting without a thread": ["producers.waiting.futures:AwaitableFuture"],
    "What follow returns": ["consumers.followers:Follow", "consumers.facts:AggregateRows"],
    "Arguments of a subscription": ["consumers.subscription:Subscription", "consumers.filters:Filter"],
    "What a subscription returns": ["consumers.records:Change", "consumers.records:State"],
    "Arguments of a search": [
        "indexer.search.searching:Search.search", "indexer.search.searching:Search.suggest_names",
        "indexer.search.searching:Search.suggest_keys",
    ],
    "What a search returns": [
        "indexer.search.results:Results", "indexer.search.results:Hit", "indexer.search.results:Count",
    ],
    "What lake queries return": [
        "lake.reading:Answer", "rules.entity:EntityRow", "domains.lineage.values:LineagePage",
        "domains.files.queries:FilesPage",
        "domains.files.rows:FileRecordRow", "domains.repositories.queries:RepositoryInfo",
        "domains.repositories.queries:BranchInfo", "domains.repositories.queries:CommitInfo",
        "domains.repositories.queries:LogPage", "domains.repositories.garbage:GarbagePlan",
        "domains.repositories.garbage:GarbageCounts", "domains.repositories.garbage:Block",
        "domains.repositories.garbage:LayerUse", "domains.repositories.garbage:UnreachedCommit",
        "domains.repositories.garbage:OldTransaction",
    ],
    "Names": ["Urn", "urn", "dataset", "stream", "app", "program", "run", "file_urn", "Position"],
    "Events of the catalog": [
        "EntityRegistered", "EntityDeleted", "PropertiesSet", "PropertiesReplaced", "PropertiesRemoved", "TagsAdded",
        "TagsRemoved", "MetadataCleared",
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
        "The public API: `from metajournal import Journal, TagsAdded, dataset`. [Errors](errors.md) and",
        "[the fields of events on the wire](events.md) have pages of their own.",
        "",
    ]
    for title, names in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _documented(name)
    return [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]


def _documented(name: str) -> Iterator[str]:
    module, _, path = name.rpartition(":")
    documented: Any = import_module(f"metajournal.{module}") if module else metajournal
    for part in path.split("."):
        documented = getattr(documented, part)
    yield from _entry(path.rpartition(".")[2], documented)
    if inspect.isclass(documented) and not issubclass(documented, tuple):
        for method, of in _members(documented):
            yield from _entry(f"{path}.{method}", of)


def _members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Methods and properties that users call."""
    for name, member in inspect.getmembers(kind):
        function = member.fget if isinstance(member, property) else member
        ours = (getattr(function, "__module__", None) or "").startswith("metajournal") and callable(function)
        if ours and not inspect.isclass(function) and not name.startswith("_") and name not in _NOT_FOR_USERS:
            yield name, member


_NOT_FOR_USERS: Final = frozenset({
    "aggregate", "cut_off", "delivered", "emitter", "entities", "entity", "from_wire", "lake", "opened", "queries",
    "raise_if_rejected", "validate",
})  # fmt: skip


def _entry(name: str, documented: Any) -> Iterator[str]:
    yield from (f"### {name}", "")
    shown = _signature(name, documented)
    if shown:
        yield from (f"    {shown}", "")
    yield from _document(inspect.getdoc(documented) or "")


_MADE_BY_USERS = ("metajournal.schemas", "metajournal.producers.units")
"""Where classes stand that users make themselves; besides them, the events of the domains."""


def _signature(name: str, documented: Any) -> str:
    """How it is called, a line; empty for what users do not make themselves, and for a property."""
    if isinstance(documented, property):
        return ""
    if inspect.isclass(documented) and not (
        documented.__module__.startswith(_MADE_BY_USERS) or documented.__module__.endswith(".events")
    ):
        return ""
    parts, bare = [], False
    for parameter in inspect.signature(documented).parameters.values():
        if parameter.name in ("self", "_cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not bare:
            parts.append("*")
            bare = True
        bare = bare or parameter.kind is parameter.VAR_POSITIONAL
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        hint = "" if parameter.annotation is parameter.empty or stars else f": {_hint(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        parts.append(f"{stars}{parameter.name}{hint}{default}")
    return f"{name}({', '.join(parts)})"


def _hint(annotation: Any) -> str:
    hint = getattr(annotation, "__forward_arg__", annotation)
    return hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))


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
    parts[::2] = [text.replace("<", "\\<") for text in parts[::2]]
    return "`".join(parts)
