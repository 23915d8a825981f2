"""Imports between rooms run one way, and the pure rooms stay pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ["schemas", "rules", "lake", "producers", "consumers", "streaming", "indexer", "stack"]
ORDER = [
    "schemas",
    "rules",
    "reporting",
    *ROOMS[2:],
    "config",
    "tracing",
    "lake_client",
    "lineage_client",
    "files_client",
    "client",
    "commands",
    "cli",
]
"""What a part imports stands before it: so only `cli.py` imports `commands/`, and nothing imports `cli.py`."""
IMPURE = {"os", "io", "time", "random", "secrets", "socket", "subprocess", "threading", "pathlib", "asyncio", "shutil"}


def files(part: str) -> list[Path]:
    """The Python files of a room, or the one module of that name."""
    found = [*(ROOT / part).rglob("*.py")] or [ROOT / f"{part}.py"]
    assert all(path.exists() for path in found)
    return found


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """(room, module) for relative imports, ("", module) for absolute ones."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (("", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield "", node.module or ""
        elif isinstance(node, ast.ImportFrom):
            folder = path.relative_to(ROOT).parent.parts
            base = [*folder[: len(folder) - node.level + 1], *(node.module.split(".") if node.module else [])]
            targets = [base] if base else [[alias.name] for alias in node.names]
            yield from ((target[0], ".".join(target)) for target in targets)


@pytest.mark.parametrize("part", ORDER)
def test_a_room_imports_only_from_rooms_before_it(part: str) -> None:
    allowed = {"", *ORDER[: ORDER.index(part) + 1]}
    for path in files(part):
        for source, module in imports(path):
            assert source in allowed, f"{path.relative_to(ROOT)} imports {module}"
            assert not (source == "" and module.split(".")[0] == "metajournal"), f"{path}: import {module} relatively"


def test_the_order_names_every_module_of_the_root_and_every_room() -> None:
    """Nothing grows beside the rooms unseen."""
    modules = {path.stem for path in ROOT.glob("*.py")} - {"__init__"}
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    assert modules | rooms == set(ORDER)


@pytest.mark.parametrize("room", ["schemas", "rules"])
def test_language_and_rules_touch_neither_clock_nor_disk_nor_network(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        used = {module.split(".")[0] for source, module in imports(path) if source == ""}
        assert not used & IMPURE, f"{path.relative_to(ROOT)} imports {sorted(used & IMPURE)}"
