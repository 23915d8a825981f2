"""The domains: one folder each, with all that is true of it alone, in files that are named by their roles."""

from __future__ import annotations

from pathlib import Path


def names() -> list[str]:
    """The folders beside this file that declare a domain, by name."""
    return sorted(file.parent.name for folder in __path__ for file in Path(folder).glob("*/domain.py"))
