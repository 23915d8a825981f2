"""The reference pages, made from the code: `python -m docs.generate` writes them, `--check` says which are out of date.

Whatever a page says stands in the code already (a docstring, a contract's `doc`, an option's help); this only sets it
as tables. A test runs `--check`, so the pages cannot differ from the code that they describe.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .command_line_page import command_line_page
from .configuration_page import configuration_page
from .domains_page import domains_page
from .errors_page import errors_page
from .events_page import events_page
from .json_page import json_page
from .python_page import python_page
from .tables_page import tables_page

PAGES = Path(__file__).parent / "reference"
MADE = "<!-- Made by `python -m docs.generate` from the code; do not edit. -->"


def main(arguments: list[str]) -> int:
    """Write the pages; with --check only tell which differ, and end with 1 where one does."""
    stale = [name for name, text in pages().items() if _present_text(name) != text]
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
        "configuration.md": configuration_page(),
        "command-line.md": command_line_page(),
        "errors.md": errors_page(),
        "events.md": events_page(),
        "json.md": json_page(),
        "python.md": python_page(),
        "domains.md": domains_page(),
        "topics-and-tables.md": tables_page(),
    }
    return {name: f"{MADE}\n\n" + "\n".join(lines).rstrip() + "\n" for name, lines in made.items()}


def _present_text(name: str) -> str:
    page = PAGES / name
    return page.read_text("utf-8") if page.exists() else ""


def _contents() -> list[str]:
    return [
        "# Reference",
        "",
        "- [Configuration](configuration.md): every key, its default, its environment variable",
        "- [Command line](command-line.md): every command and option",
        "- [Domains](domains.md): kinds, event types, topics and tables of each",
        "- [Errors](errors.md): every code, what it means, what to do",
        "- [Python](python.md): the journal and what it takes and gives",
        "- [JSON](json.md): what each command prints with `--json`",
        "- [Events](events.md): every event type with its fields",
        "- [Topics and tables](topics-and-tables.md): what is in Kafka and in the lake",
        "",
        "These pages are made from the code by `make docs`. The words are explained in [Concepts](../concepts.md).",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
