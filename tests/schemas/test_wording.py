"""What every layer writes for people alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from metajournal.schemas.wording import ODD, many

SCRIPT = Path(__file__).parents[2] / "gateway" / "pages" / "assets" / "making.js"


def test_the_pages_script_has_the_same_odd_characters_as_their_templates_and_the_command_line() -> None:
    [first, second] = re.findall(r'^ +"(\[?\\\\.*?\]?)"[,+ ]', SCRIPT.read_text("utf-8"), re.MULTILINE)
    pattern = re.sub(r"\\u\{(\w+)\}", lambda one: f"\\U{one[1]:0>8}", (first + second).replace("\\\\", "\\"))
    every = "".join(map(chr, range(0x110000)))
    assert set(re.findall(pattern, every)) ^ set(ODD.findall(every)) == set()


@pytest.mark.parametrize(("number", "text"), [(0, "0 paths"), (1, "1 path"), (2, "2 paths"), (1_000, "1,000 paths")])
def test_one_thing_has_the_name_of_one(number: int, text: str) -> None:
    assert many(number, "path") == text
