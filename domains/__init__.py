"""The domains: one folder each, with all that is true of it alone, in files that are named by their roles."""

from __future__ import annotations

from importlib import resources


def names() -> list[str]:
    """The folders beside this file that declare a domain, by name."""
    return sorted(folder.name for folder in resources.files(__name__).iterdir() if (folder / "domain.py").is_file())
