"""The page that says how to write a domain shows the toys' files, each of them as it is, and their tests pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toys.installing import install_toys

ROOT = Path(__file__).parents[2]
TOYS = ROOT / "tests" / "toys"
PAGE = (ROOT / "docs" / "how-to" / "write-a-domain.md").read_text("utf-8")
BLOCK = re.compile(r"^`([\w./-]+)`\n\n(?:```python\n(.*?)^```$|((?:    [^\n]*\n|\n)+))", re.MULTILINE | re.DOTALL)
CALLED = {"test_rules.py": "rules_tests.py"}


def test_the_page_shows_every_file_of_the_toys_as_it_is() -> None:
    shown = {}
    for name, fenced, indented in BLOCK.findall(PAGE):
        lines = [line.removeprefix("    ") for line in indented.splitlines()]
        shown[name] = fenced or "\n".join(lines).rstrip("\n") + "\n"
    files = [path for path in (TOYS / "metajournal_toys").rglob("*") if path.suffix in (".py", ".avsc")]
    whole = {str(path.relative_to(TOYS)) for path in files} | {"pyproject.toml", "test_rules.py"}
    assert shown.keys() == whole
    for name, text in shown.items():
        assert text == (TOYS / CALLED.get(name, name)).read_text("utf-8"), name


@pytest.mark.thorough
def test_the_toys_own_tests_pass(tmp_path: Path) -> None:
    """As a stranger runs them: rules without any service."""
    site = install_toys(tmp_path / "site")
    test = tmp_path / "test_rules.py"
    test.write_text((TOYS / "rules_tests.py").read_text("utf-8"))
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(test)],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
