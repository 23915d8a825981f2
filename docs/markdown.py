"""Markdown as the reference pages have it: tables and paragraphs."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import fill


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a table."""
    head = list(columns)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(_cell(value) for value in row) + " |" for row in rows), ""]


def _cell(value: object) -> str:
    parts = " ".join(str(value).replace("|", "\\|").split()).split("`")
    parts[::2] = [text.replace("<", "\\<") for text in parts[::2]]  # outside of code it would be taken for HTML
    return "`".join(parts)


def prose(*sentences: str) -> list[str]:
    """The lines of a paragraph."""
    return [*fill(" ".join(sentences), 118, break_long_words=False, break_on_hyphens=False).splitlines(), ""]


def first(text: str | None) -> str:
    """The first sentence or paragraph of a docstring."""
    return " ".join((text or "").strip().split("\n\n")[0].split())
