"""Versions stand in stack/versions.py; every other place that must repeat one says the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from metajournal.stack import versions
from metajournal.stack.parts import GROUPS, ON_DEMAND, known_parts

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def asked_for(tree: ElementTree.ElementTree[Any]) -> dict[str, str | None]:
    """What an Ivy file asks for: organisation:module to revision."""
    return {f"{element.get('org')}:{element.get('name')}": element.get("rev") for element in tree.iter("dependency")}


def test_the_ivy_file_asks_for_our_versions() -> None:
    tree = ElementTree.parse(ROOT / "stack" / "ivy.xml")
    assert asked_for(tree) == versions.MAVEN
    forced = {element.get("module"): element.get("rev") for element in tree.iter("override")}
    assert forced == {
        f"spark-token-provider-kafka-0-10_{versions.SCALA}": versions.SPARK_TOKEN_PROVIDER,
        f"spark-tags_{versions.SCALA}": versions.SPARK,
    }


def test_the_checksums_are_those_of_our_versions() -> None:
    parts = known_parts((*GROUPS, *ON_DEMAND))
    names = {f"{part.group}/{part.name}" for part in parts}
    for module, revision in versions.MAVEN.items():
        artifact = module.partition(":")[2]
        assert any(f"/{artifact}-{revision}." in name for name in names), artifact
    assert {part.group for part in parts} == {*GROUPS, *ON_DEMAND}
    assert all(re.fullmatch("[0-9a-f]{64}", part.sha256) and part.size_bytes > 0 for part in parts)


def test_the_package_asks_for_our_versions(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    assert f"pyspark=={versions.SPARK}" in extras["stream"]
    assert f"delta-spark=={versions.DELTA_SPARK}" in extras["stream"]
    assert project["requires-python"] == ">=" + ".".join(map(str, versions.PYTHON_MINIMUM))


def test_every_dependency_is_listed_for_doctor_and_has_its_reason(project: dict[str, Any]) -> None:
    """`doctor` looks for each, and docs/dependencies.md says why it is there and which range is allowed."""
    table = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    for extra, lines in groups.items():
        asked = [re.match(r"([\w.-]+)(.*)", line) for line in lines if not line.startswith("metajournal[")]
        names = tuple(match[1] for match in asked if match)
        if extra in versions.EXTRAS:
            assert names == versions.EXTRAS[extra]
        for match in filter(None, asked):
            assert f"| {match[1]} | `{match[2]}` |" in table, match[0]
    of_tests = asked_for(ElementTree.parse(ROOT / "tests" / "gateway" / "openlineage_java.xml"))
    for module, revision in {**versions.MAVEN, **of_tests}.items():
        assert f"| {module} | {revision} |" in table
