"""The README is true: its blocks run against real services, and the output it shows is what the demo prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.__main__ import FIGURES
from tests.demonstration import Demonstration
from tests.installation import Installation

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str


def blocks(language: str) -> list[str]:
    return [one.text for one in BLOCKS if one.language == language]


README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = [Block(*found) for found in FENCE.findall(README)]
SHELL_BLOCKS_PRINT = (
    ["dataset:default/orders"],
    ["shop: would be: 2 registered", "shop: 2 registered", "main.orders  schema [amount]"],
    ["main is at ", "First load", "raw/a.csv"],
)


def test_every_block_is_of_a_kind_that_is_run_here() -> None:
    assert {one.language for one in BLOCKS} == {"python", "shell", "console"}


def test_every_link_leads_to_a_file_of_the_project() -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README):
        assert (ROOT / target).exists(), target


def test_its_parts_stand_in_the_order_in_which_a_newcomer_asks() -> None:
    asked = ["Two commands", "Emit, subscribe, search", "How an event flows", "Guarantees", "Figures",
             "Versions and limits"]  # fmt: skip
    assert re.findall(r"^## (.+)$", README, re.MULTILINE) == asked


def test_each_promise_of_the_readme_is_linked_to_a_test_that_is_there() -> None:
    part = README[README.index("## Guarantees") : README.index("## Figures")]
    lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
    assert len(lines) >= 8
    for line in lines:
        named = re.findall(r"\[(test_\w+)\]\((tests/[\w/]+\.py)\)", line)
        assert named, line
        for test, file in named:
            assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{file}::{test}"


def test_each_figure_of_the_readme_names_a_bench_that_is_there() -> None:
    part = README[README.index("## Figures") : README.index("## Versions")]
    lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
    assert len(lines) >= 5
    for line in lines:
        [named] = re.findall(r"`python -m bench ([\w-]+)`", line)
        assert named in FIGURES, line


def test_every_guarantee_names_tests_that_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (ROOT / "docs/guarantees.md").read_text("utf-8"))
    assert len(named) > 40
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{file}::{test}"


def test_the_two_commands_are_those_of_the_makefile() -> None:
    typed = [line.removeprefix("$ ") for text in blocks("console") for line in text.splitlines() if line[:2] == "$ "]
    assert typed == ["make demo", "make test"]
    for command, recipe in (("demo", "metajournal demo"), ("test", "python -m pytest -n 3")):
        # `make test` runs this too, and a make inside a make also prints its folder
        asked = ["make", "--no-print-directory", "--dry-run", command]
        said = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT)
        assert said.stdout.splitlines()[-1].endswith(recipe)


def test_the_demo_prints_what_the_readme_shows(demonstration: Demonstration) -> None:
    [shown] = [text for text in blocks("console") if text.startswith("$ make demo")]
    headings = [line for line in shown.splitlines() if line.startswith("== ")]
    assert len(headings) > 5
    commands = [line for line in headings if line.startswith("== metajournal")]
    assert commands == ["== metajournal lineage dataset:python/rich --direction upstream"], "others print less or more"
    if demonstration.report["git"] is None:  # these tests run in no clone
        headings = [line for line in headings if "git clone" not in line]
    printed = [re.sub(r"\d[\d,.]*", "N", line) for line in demonstration.told]
    for line in headings:
        assert re.sub(r"\d[\d,.]*", "N", line) in printed


@pytest.mark.services
@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_each_python_block_does_what_it_says(installation: Installation, number: int) -> None:
    done = installation.run(sys.executable, "-W", "error", "-c", blocks("python")[number])
    assert done.returncode == 0, done.stderr
    assert "metajournal.journal.catalog/" in done.stdout
    assert "Accepted" in done.stdout
    assert "dataset:default/purchases ('[alice]',)" in done.stdout
    assert "('pii',)" in done.stdout


@pytest.mark.services
@pytest.mark.parametrize(("block", "printed"), list(zip(blocks("shell"), SHELL_BLOCKS_PRINT, strict=True)))
def test_each_shell_block_does_what_it_says(installation: Installation, block: str, printed: list[str]) -> None:
    done = installation.run("bash", "-euo", "pipefail", "-c", block)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith("shop: ")] == []  # progress of `ingest`
    assert [text for text in printed if text not in done.stdout] == []
