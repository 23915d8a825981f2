"""Each file of a domain may be the first that a process loads, whoever has taken the domain in before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.toys.installing import install_toys

_ROOT = Path(__file__).parents[1]
_LOAD_EACH = """
import os, sys, traceback
import deltalake, duckdb, numpy, orjson, pandas, polars, pyarrow.compute, pyarrow.dataset
# so that only our own modules are loaded by each child
from importlib import import_module
for module in sys.argv[2:]:
    child = os.fork()
    if not child:
        try:
            if sys.argv[1]:
                from metajournal.schemas.registry import take_in
                take_in(import_module(sys.argv[1]).DOMAIN)
            import_module(module)
        except BaseException:
            print(module, traceback.format_exc(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def modules_below(folder: Path, package: str) -> list[str]:
    files = sorted(folder.rglob("*.py"))
    return [".".join((package, *file.relative_to(folder).with_suffix("").parts)) for file in files]


def failures(taken_in: str, modules: list[str], path: str = "") -> str:
    ran = subprocess.run(
        [sys.executable, "-c", _LOAD_EACH, taken_in, *modules],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": path},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("domain", sorted(path.parent.name for path in _ROOT.glob("domains/*/domain.py")))
def test_any_file_of_our_own_domains_is_the_first(domain: str) -> None:
    modules = modules_below(_ROOT / "domains" / domain, f"metajournal.domains.{domain}")
    assert f"metajournal.domains.{domain}.domain" in modules
    assert failures("", modules) == ""


@pytest.mark.thorough
def test_any_file_of_a_domain_that_was_taken_in_is_the_first(tmp_path: Path) -> None:
    site = install_toys(tmp_path / "site")
    modules = modules_below(site / "metajournal_toys", "metajournal_toys")
    assert "metajournal_toys.derived" in modules
    assert failures("metajournal_toys.domain", modules, str(site)) == ""
