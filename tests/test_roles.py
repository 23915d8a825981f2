"""Files that are loaded by their role are held against its Protocol by the type checker, each of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOADED = (
    "domain", "events", "rules", "rows", "tables", "derived", "documents", "words", "typed", "commands", "client",
    "lines", "as_of", "http", "named", "pages", "sessions", "errors", "columns.folder", "columns.documents",
)  # fmt: skip
"""The roles that rooms load by name."""
FILES = [path for path in (*ROOT.glob("*.py"), *ROOT.glob("[!.]*/**/*.py")) if "tests" not in path.parts]
NOT_THAT_ROLE = {
    ("catalog", "columns.documents"): "a part of the catalog's folder in columns, which loads it itself",
}


def assigned(path: Path, folder: str) -> set[tuple[str, str]]:
    """(domain, role) of each file of a domain that a module imports for the type checker and uses."""
    tree = ast.parse(path.read_text("utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(folder):
            _, *within = node.module.removeprefix(folder).split(".")
            for alias in node.names:
                if (alias.asname or alias.name) in used:
                    domain, *parts = [*within, alias.name]
                    found.add((domain, ".".join(parts)))
    return found


def test_every_file_of_our_own_that_is_loaded_by_its_name_is_checked() -> None:
    files = {
        (path.parent.name if "." not in role else path.parents[1].name, role)
        for role in LOADED
        for path in (ROOT / "domains").glob(f"*/{role.replace('.', '/')}.py")
    }
    files |= {
        (path.parents[1].name, role) for role in LOADED for path in (ROOT / "domains").glob(f"*/{role}/__init__.py")
    }
    assert assigned(ROOT / "commands" / "checked.py", "domains") == files - set(NOT_THAT_ROLE)
    assert set(NOT_THAT_ROLE) <= files


def test_the_toys_are_checked_the_same_way() -> None:
    text = (ROOT / "tests" / "toys" / "checked.py").read_text("utf-8")
    roles = {path.stem for path in (ROOT / "tests" / "toys" / "metajournal_toys").glob("*.py")}
    not_loaded = {"__init__", "queries"}
    assert {role for role in roles if f" = {role}\n" in text} == roles - not_loaded


@pytest.mark.parametrize("role", LOADED)
def test_the_room_that_loads_a_role_says_what_it_is(role: str) -> None:
    """Each has a Protocol that names the file."""
    text = "".join(path.read_text("utf-8") for path in FILES)
    spelled = role.replace(".", "/")
    assert f'"""The file `{spelled}` of a domain' in text
