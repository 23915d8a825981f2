"""The package as others get it: what the wheel holds, and a light client that needs neither Spark nor Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import metajournal

ROOT = Path(__file__).parents[2]
HEAVY = ("pyspark", "pyarrow", "deltalake", "duckdb", "polars", "pandas", "fastavro")
pytestmark = pytest.mark.services  # asks the package index


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this folder that is not called like the package."""
    source = tmp_path_factory.mktemp("clone") / "some-folder"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info"))
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(target), str(source))
    return next(target.glob("metajournal-*.whl"))


def pip(python: str, *arguments: str) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, check=True)


def test_the_wheel_holds_every_module_and_every_data_file(wheel: Path, source: Path) -> None:
    """Whatever lies in a room is in the wheel, pages with their scripts, styles and pictures too, and no tests."""
    names = set(zipfile.ZipFile(wheel).namelist())
    rooms = [
        path for path in source.iterdir() if (path / "__init__.py").exists() and path.name not in ("tests", "bench")
    ]
    wanted = {path for room in rooms for path in room.rglob("*") if path.is_file()}
    assert {path.suffix for path in wanted} >= {".html", ".js", ".css", ".svg", ".avsc", ".xml", ".properties", ".txt"}
    wanted |= {*source.glob("*.py"), source / "py.typed"}
    missing = {path.relative_to(source).as_posix() for path in wanted} - {
        name.removeprefix("metajournal/") for name in names
    }
    assert missing == set()
    assert not any("tests/" in name or "conftest" in name for name in names)
    assert any(name.endswith("LICENSE") for name in names)


def test_the_source_distribution_has_no_stray_tests(source: Path, tmp_path: Path) -> None:
    """setuptools adds `tests/test_*.py` by itself, which do not run without what stands beside them."""
    pip(sys.executable, "install", "--target", str(tmp_path / "tools"), "setuptools>=77")
    build = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "tools")}
    subprocess.run(
        [sys.executable, "-c", build, tmp_path], check=True, cwd=source, env=environment, stdout=subprocess.DEVNULL
    )
    [archive] = tmp_path.glob("metajournal-*.tar.gz")
    with tarfile.open(archive) as packed:
        names = [name.partition("/")[2] for name in packed.getnames()]
    assert [name for name in names if name.startswith("tests")] == []
    assert {"pyproject.toml", "client.py", "domains/catalog/contracts/TagsAdded.v1.avsc", "README.md"} <= set(names)


def test_the_package_tells_its_version(wheel: Path) -> None:
    assert wheel.name.startswith(f"metajournal-{metajournal.__version__}-")


def test_the_light_client_needs_nothing_heavy(wheel: Path, tmp_path: Path) -> None:
    """Installed alone into an empty environment it imports, shows its help, and names the extra that is missing."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    pip(python, "install", str(wheel))
    check = f"""
import importlib.util, sys
from metajournal import Journal, TagsAdded, dataset
assert not [name for name in {HEAVY} if importlib.util.find_spec(name)]
from metajournal.schemas.errors import MissingExtraError
from metajournal.stack.jars import ivy_jar
try:
    ivy_jar()
except MissingExtraError as error:
    assert error.extra == "stream"
else:
    sys.exit("no error")
print(TagsAdded(dataset("default", "purchases"), tags=["pii"]))
"""
    subprocess.run([python, "-I", "-W", "error", "-c", check], check=True, cwd=tmp_path)
    result = subprocess.run(
        [tmp_path / "venv" / "bin" / "metajournal", "--help"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert "search" in result.stdout
