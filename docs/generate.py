"""The reference pages, made from the code: `python -m docs.generate` writes them, `--check` says which are out of date.

Whatever a page says stands in the code already (a docstring, a contract's `doc`, an option's help); this only sets it
as tables. A test runs `--check`, so the pages cannot differ from the code that they describe.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any, get_type_hints

import click

from metajournal.cli import main as command_line
from metajournal.commands.exits import exit_code
from metajournal.config import is_secret
from metajournal.lake.columns import PARTITION_COLUMNS, SCHEMAS, SORTED_BY
from metajournal.producers.kafka import CONSUMER_SAFETY, PRODUCER_SAFETY
from metajournal.producers.topics import wanted_topics
from metajournal.schemas.errors import MetajournalError
from metajournal.schemas.settings import Settings
from metajournal.streaming.options import JAVA_SECURITY

from .python_page import python_page

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
ROOMS = ("schemas", "rules", "lake", "producers", "consumers", "streaming", "indexer", "stack", "commands")
MADE = "<!-- Made by `python -m docs.generate` from the code; do not edit. -->"


def main(arguments: list[str]) -> int:
    """Write the pages; with --check only tell which differ, and end with 1 where one does."""
    stale = [name for name, text in pages().items() if _held(name) != text]
    for name in stale:
        if "--check" in arguments:
            sys.stdout.write(f"docs/reference/{name} is out of date: run `make docs`\n")
        else:
            PAGES.mkdir(exist_ok=True)
            (PAGES / name).write_text(pages()[name], "utf-8")
    return int("--check" in arguments and bool(stale))


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    made = {
        "README.md": _contents(),
        "configuration.md": _configuration(),
        "command-line.md": _command_line(),
        "errors.md": _errors(),
        "events.md": _events(),
        "python.md": python_page(),
        "topics-and-tables.md": _topics_and_tables(),
    }
    return {name: f"{MADE}\n\n" + "\n".join(lines).rstrip() + "\n" for name, lines in made.items()}


def _held(name: str) -> str:
    page = PAGES / name
    return page.read_text("utf-8") if page.exists() else ""


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    head = list(columns)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(_cell(one) for one in row) + " |" for row in rows), ""]


def _cell(value: object) -> str:
    parts = " ".join(str(value).replace("|", "\\|").split()).split("`")
    parts[::2] = [one.replace("<", "\\<") for one in parts[::2]]  # outside of code it would be taken for HTML
    return "`".join(parts)


def _prose(*sentences: str) -> list[str]:
    return [*fill(" ".join(sentences), 118, break_long_words=False, break_on_hyphens=False).splitlines(), ""]


def _first(text: str | None) -> str:
    """The first sentence or paragraph of a docstring."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


# Contents


def _contents() -> list[str]:
    return [
        "# Reference",
        "",
        "- [Configuration](configuration.md): every key, its default, its environment variable",
        "- [Command line](command-line.md): every command and option",
        "- [Errors](errors.md): every code, what it means, what to do",
        "- [Python](python.md): the journal and what it takes and gives",
        "- [Events](events.md): every event type with its fields",
        "- [Topics and tables](topics-and-tables.md): what is in Kafka and in the lake",
        "",
        "These pages are made from the code by `make docs`. The words are explained in [Concepts](../concepts.md).",
    ]


# Configuration


def _configuration() -> list[str]:
    lines = [
        "# Configuration",
        "",
        *_prose(
            "Where a key is said more than once, the first of these wins: an argument",
            "(`Journal.connect(client={...})`, or `metajournal --set SECTION.KEY=VALUE COMMAND`), the",
            "environment (`METAJOURNAL__SECTION__KEY`), the file that `--config` or `METAJOURNAL_CONFIG`",
            "names or else `metajournal.toml` in the working folder, the file that `metajournal up` left in",
            "its home (`METAJOURNAL_HOME`, `~/.metajournal`), the default.",
            "Unknown keys are refused.",
            "`metajournal config show --origin` says where each value comes from.",
            "A secret can also be said by the name of a file that holds it, with `_file` (in `[kafka]`:",
            "`.file`) behind its key; it is never shown.",
        ),
    ]
    for section in dataclasses.fields(Settings):
        held = getattr(Settings(), section.name)
        if dataclasses.is_dataclass(held):
            lines += [f"## [{section.name}]", "", _first(type(held).__doc__), ""]
            lines += _table(["key", "type", "default", "environment", "meaning"], _keys(section.name, held))
    return lines + _kafka_keys()


def _keys(section: str, held: Any) -> Iterator[tuple[object, ...]]:
    hints = get_type_hints(type(held))
    said = _field_docs(type(held))
    for one in dataclasses.fields(held):
        default = getattr(held, one.name)
        variable = f"METAJOURNAL__{section.upper()}__{one.name.upper()}"
        secret = " Secret." if is_secret(f"{section}.{one.name}") and "ecret" not in said.get(one.name, "") else ""
        shown = "" if default is None or isinstance(default, Mapping) else f"`{json.dumps(default)}`"
        variable += "__NAME" if isinstance(default, Mapping) else ""
        yield f"`{one.name}`", _type(hints[one.name]), shown, f"`{variable}`", said.get(one.name, "") + secret


def _type(hint: Any) -> str:
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    if hint in names:
        return names[hint]
    text = str(hint)
    if "Mapping" in text:
        return "names and texts"
    return "text" if "str" in text else text.replace(" | None", "")


def _field_docs(kind: type[Any]) -> dict[str, str]:
    """The text behind each field of a class."""
    tree = ast.parse((ROOT / "schemas" / "settings.py").read_text("utf-8"))
    [body] = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__]
    found = {}
    for before, node in pairwise(body):
        text = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else None
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(text, str):
            found[before.target.id] = " ".join(text.split())
    return found


def _kafka_keys() -> list[str]:
    fixed = sorted({**CONSUMER_SAFETY, **PRODUCER_SAFETY}.items())
    return [
        "## [kafka]",
        "",
        *_prose(
            "librdkafka's own dotted keys, handed on to every client:",
            "`bootstrap.servers` (default `127.0.0.1:9092`), `security.protocol`, `sasl.mechanism`,",
            "`sasl.username`, `sasl.password`, `ssl.ca.location` and all others.",
            "In the environment a dot is an underscore:",
            "`METAJOURNAL__KAFKA__BOOTSTRAP_SERVERS`.",
        ),
        "These are fixed, since the journal's promises rest on them; another value is refused:",
        "",
        *_table(["key", "value"], ((f"`{key}`", f"`{value}`") for key, value in fixed)),
        *_prose(
            "These are translated for Spark's Java client; `sasl.username` and `sasl.password` become its JAAS",
            "entry, a client's certificate and key (`.location` or `.pem`, the key in PKCS 8) its PEM key store.",
            "Any other `ssl.` or `sasl.` key stops the stream with an error: Spark would connect otherwise than",
            "everybody else.",
        ),
        *_table(["librdkafka", "Java"], ((f"`{key}`", f"`{java}`") for key, java in JAVA_SECURITY.items())),
    ]


# Command line


def _command_line() -> list[str]:
    lines = [
        "# Command line",
        "",
        *_prose(
            "Exit codes: 0 fine, 1 found a problem, 2 usage or configuration, 3 cannot reach a service, 4 not allowed,",
            "130 interrupted, 141 the reader of a pipe went away.",
            "Ctrl-C is how `tail` and `status --watch` end, and they end with 0; so do `stream` and `index`.",
        ),
        "Before every command:",
        "",
        *_options(command_line),
    ]
    for path, command in _commands("metajournal", command_line):
        lines += [f"## {path}", "", *_help(path, command), *_options(command)]
    return lines


def _commands(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if type(command) is not click.Group or command.invoke_without_command:  # one that does something by itself
            yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(f"{path} {name}", command)


def _help(path: str, command: click.Command) -> list[str]:
    usage = " ".join([path, *command.collect_usage_pieces(click.Context(command))])
    lines = [f"    {usage}", ""]
    for part in (command.help or "").split("\n\n"):
        example = "\b" in part
        text = part.replace("\b", "").strip()
        shown = [f"    {line.strip()}" for line in text.splitlines()] if example else [" ".join(text.split())]
        lines += [*shown, ""]
    return lines


def _options(command: click.Command) -> list[str]:
    rows = []
    for one in command.params:
        if isinstance(one, click.Option) and not one.hidden:
            name = ", ".join(f"`{text}`" for text in one.opts)
            default = "" if one.default in (None, (), False) or not one.show_default else f" Default: {one.default}."
            rows.append((f"{name} {'' if one.is_flag else _metavar(one)}", (one.help or "") + default))
    return _table(["option", "meaning"], rows) if rows else []


def _metavar(option: click.Option) -> str:
    return option.metavar or (
        "|".join(option.type.choices) if isinstance(option.type, click.Choice) else option.type.name.upper()
    )


# Errors


def _errors() -> list[str]:
    lines = [
        "# Errors",
        "",
        *_prose(
            "Every error is a `MetajournalError`:",
            "`code` for programs, `message` (one sentence), `hint` (the next step), and its data as",
            "attributes.",
            "The command line prints `error[code]: message` and the next step on standard error; with",
            "`--json` one object on standard output.",
        ),
        "## By class",
        "",
    ]
    rows = [(f"`{kind.__name__}`", f"`{kind.CODE}`", _exit(kind), _first(kind.__doc__), kind.HINT) for kind in _kinds()]
    lines += _table(["class", "code", "exit code", "meaning", "next step"], rows)
    lines += ["## By code", "", "Codes that a class has besides its own; `…` stands for what the case fills in.", ""]
    return lines + _table(["code", "class", "sentence", "next step"], sorted(_raised()))


def _kinds() -> list[type[MetajournalError]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            import_module(".".join(["metajournal", *(one for one in parts if one != "__init__")]))
    found: list[type[MetajournalError]] = []
    waiting: list[type[MetajournalError]] = [MetajournalError]
    while waiting:
        kind = waiting.pop(0)
        if kind.__module__.startswith("metajournal.") and kind not in found:
            found.append(kind)
        waiting += kind.__subclasses__()
    return sorted(found[1:], key=lambda kind: kind.__name__)


def _exit(kind: type[MetajournalError]) -> int:
    error = kind.__new__(kind)
    error.code = kind.CODE
    return exit_code(error)


def _raised() -> Iterator[tuple[str, str, str, str]]:
    """Every error that the code makes with a code of its own: (code, class, sentence, next step)."""
    for path in [*ROOT.glob("*.py"), *(one for room in ROOMS for one in (ROOT / room).rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and (code := _text(_keyword(node, "code"))):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                if name.endswith(("Error", "Expired")):
                    hint = _text(_keyword(node, "hint")) or "that of the class"
                    yield f"`{code}`", f"`{name}`", _text(_sentence(node)) or "that of the class", hint


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


def _sentence(call: ast.Call) -> ast.expr | None:
    texts = [one for one in call.args if isinstance(one, ast.JoinedStr | ast.Constant | ast.BinOp)]
    return texts[0] if texts else None


def _text(node: ast.expr | None) -> str:
    """A text of the source, with … for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(one) if isinstance(one, ast.Constant) else "…" for one in node.values)
    if isinstance(node, ast.BinOp):
        return f"{_text(node.left) or '…'}{_text(node.right) or '…'}"
    return ""


# Events


def _events() -> list[str]:
    folder = ROOT / "schemas" / "contracts"
    header = json.loads((folder / "header.avsc").read_text("utf-8"))
    lines = [
        "# Events",
        "",
        *_prose(
            "The wire form of every event type:",
            "Avro, one record a type, the header first.",
            "In Python each is a class of the same name (`from metajournal import TagsAdded`), whose",
            "arguments are these fields behind the header.",
            "The time `at` is milliseconds on the wire; whoever emits may also give ISO 8601 text with a zone",
            "(`2026-01-31T12:00:00Z`) or, in Python, an aware datetime.",
        ),
    ]
    for path in sorted(folder.glob("*/*.avsc")):
        contract = json.loads(path.read_text("utf-8"))
        domain, version = path.parent.name, path.name.split(".")[-2].removeprefix("v")
        lines += [f"## {domain}.{contract['name']}.{version}", "", contract.get("doc", ""), ""]
        fields = [one for one in contract["fields"] if one["name"] != "header"]
        lines += _table(["field", "type", "meaning"], map(_field, fields))
    return [*lines, "## The header", "", header.get("doc", ""), "",
            *_table(["field", "type", "meaning"], map(_field, header["fields"]))]  # fmt: skip


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
            return f"{kind['name']} ({', '.join(one['name'] for one in kind['fields'])})"
        case "fixed":
            return f"{kind['size']} bytes"
    return str(kind.get("logicalType", kind["type"]))


# Topics and tables


def _topics_and_tables() -> list[str]:
    settings = Settings()
    lines = [
        "# Topics and tables",
        "",
        "## Topics",
        "",
        *_prose(
            "With the default prefix and number of partitions.",
            "Retention is the operator's to change; what else is listed is checked at every start.",
        ),
    ]
    rows = []
    for one in wanted_topics(settings):
        wanted = ", ".join(f"`{key}={one.config[key]}`" for key in sorted(one.config))
        rows.append((f"`{one.topic}`", one.partitions, _topic(one.topic), wanted))
    lines += _table(["topic", "partitions", "holds", "configuration"], rows)
    lines += ["## Tables", "", "Delta tables under `lake.path`; which folder holds which is said by `tables.json`.", ""]
    for name, schema in SCHEMAS.items():
        order = f"Compaction sorts it by {', '.join(SORTED_BY[name])}."
        by = f" Partitioned by {', '.join(PARTITION_COLUMNS[name])}." if name in PARTITION_COLUMNS else ""
        lines += [f"### {name}", "", TABLES.get(name, ""), "", order + by, ""]
        columns = ((f"`{one.name}`", _arrow(one.type), "" if one.nullable else "never null", COLUMNS.get(one.name, ""))
                   for one in schema)  # fmt: skip
        lines += _table(["column", "type", "", "meaning"], columns)
    return lines


def _topic(name: str) -> str:
    part = name.split(".")[1]
    return {
        "schemas": "the schemas that the journal's records were written with",
        "epochs": "epoch, id and number of partitions of each journal topic; shelved positions",
        "dlq": "copies of shelved records, with the reason in their headers",
        "journal": "the events: the truth, never compacted, kept for ever",
        "changes": "what changed, JSON with CloudEvents headers",
        "state": "the whole current document of each entity, compacted",
        "outcomes": "the verdict of every position that was not plainly accepted, and how far the stream is",
    }.get(part, "")


def _arrow(kind: Any) -> str:
    return (
        str(kind)
        .replace("timestamp[us, tz=UTC]", "timestamp, UTC")
        .replace("<item: ", "<")
        .replace("date32[day]", "date")
    )


TABLES = {
    "journal": "Every record of the journal topics, as it came, with its decoded header and its outcome.",
    "entities": "Existence and annotations of every kind of entity: one row for each change of one entity.",
    "runs": "What is known of each run: one row for each fact that changed it.",
    "accesses": "Which run touched which data, and how.",
    "relations": "Which program has ever touched which data: the way from data to `accesses`.",
    "external_writes": "The first write of each outside source to each stream on each day.",
    "file_records": "One row for each record of one file in one of its day buckets.",
}
COLUMNS = {
    "tenant": "whose it is",
    "urn": "the entity",
    "aggregate": "URN of the unit of order that it belongs to",
    "domain": "domain of the journal topic",
    "journal_partition": "partition of the journal topic",
    "logical_timestamp": "the event's position: epoch × 2^40 + offset",
    "seq": "number of the row among those of its event",
    "system_time": "when the broker appended the event, never going back within a partition",
    "append_time": "when the broker appended the event, as it said",
    "event_time": "when it happened, as the emitter said",
    "event_id": "UUIDv7 of the event",
    "actor": "who did it",
    "deleted": "the row says that its key is gone",
    "topic": "journal topic",
    "system_date": "day of system_time",
    "outcome": "accepted, unchanged, rejected, duplicate or shelved",
    "reason": "why it was rejected or shelved",
    "detail": "JSON: what the reason speaks of",
    "duplicate_of": "logical timestamp of the original",
    "event_type": "domain, name and version",
    "entities": "URNs that the event names",
    "expected": "logical timestamp that its entity had to have",
    "unit_id": "id of its unit",
    "unit_index": "its place in the unit, from 0",
    "unit_count": "events in the unit",
    "cause": "id of the event that led to it",
    "repeat": "it may stand in the journal already",
    "key": "key of the Kafka record",
    "event_payload": "value of the Kafka record, verbatim",
    "headers": "headers of the Kafka record, verbatim",
    "kind": "kind of the entity",
    "namespace": "namespace in its URN",
    "name": "name in its URN",
    "record": "JSON: what the entity's own domain says of it",
    "user_properties": "properties of scope USER",
    "user_tags": "tags of scope USER",
    "system_properties": "properties of scope SYSTEM",
    "system_tags": "tags of scope SYSTEM",
    "run": "URN of the run",
    "program": "URN of the program",
    "start": "when the run started, the earliest that was told",
    "first_access": "the earliest access of the run",
    "stop": "when the run ended, the latest that was told",
    "status": "how the run ended",
    "data": "URN of the dataset, stream or file",
    "access": "read, write or unknown",
    "component": "part of the program; empty where none was told",
    "happened_at": "when it happened, as its source said",
    "metadata": "canonical JSON of what was told with it",
    "stream": "URN of the stream",
    "source": "who wrote from outside",
    "day": "day of the write, UTC",
    "bucket": "day that the row stands for: days since 1970, UTC",
    "first_bucket": "the first day that the file touches",
    "file_where": "where the file is",
    "file_what": "what kind of file it is",
    "file_id": "id of the file within its where and what",
    "start_ms": "begin of the file's time, milliseconds since 1970",
    "end_ms": "end of the file's time, milliseconds since 1970; null where it is a moment",
    "created_ms": "when the file was made, milliseconds since 1970",
    "size_bytes": "size of the file",
    "work_id": "id of the work that made it",
    "supersedes": "the file was recorded before",
    "version": "version of the record's form",
    "url": "where the file's bytes are",
    "time_index_key": "key of the source's index by time",
    "work_id_index_key": "key of the source's index by work id",
    "range_key": "range key of the source's table",
}
"""What a column holds, where its name stands for the same thing in every table."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
