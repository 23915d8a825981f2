"""Imports between rooms run one way, and the pure rooms stay pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ["schemas", "rules", "lake", "producers", "consumers", "streaming", "indexer", "stack"]
IMPURE = {"os", "io", "time", "random", "secrets", "socket", "subprocess", "threading", "pathlib", "asyncio", "shutil"}


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """(room, module) for relative imports, ("", module) for absolute ones."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (("", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield "", node.module or ""
        elif isinstance(node, ast.ImportFrom):
            folder = path.relative_to(ROOT).parent.parts
            target = [*folder[: len(folder) - node.level + 1], *(node.module or "").split(".")]
            yield target[0], ".".join(target)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_rooms_before_it(room: str) -> None:
    allowed = {"", *ROOMS[: ROOMS.index(room) + 1]}
    for path in (ROOT / room).rglob("*.py"):
        for source, module in imports(path):
            assert source in allowed, f"{path.relative_to(ROOT)} imports {module}"
            assert not (source == "" and module.split(".")[0] == "metajournal"), f"{path}: import {module} relatively"


@pytest.mark.parametrize("room", ["schemas", "rules"])
def test_language_and_rules_touch_neither_clock_nor_disk_nor_network(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        used = {module.split(".")[0] for source, module in imports(path) if source == ""}
        assert not used & IMPURE, f"{path.relative_to(ROOT)} imports {sorted(used & IMPURE)}"
