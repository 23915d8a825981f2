"""What is typed wrongly after `metajournal ingest` is said before anything is connected to, and shows no password."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from metajournal.cli import main


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ingest", "--json"], "usage"),
        (["ingest", "--dry-run", "databases", "sqlite:////x", "--json"], "usage"),
        (["ingest", "databases", "--json"], "usage"),
        (["ingest", "databases", "sqlite:////x", "--every", "10", "--json"], "usage"),
        (["ingest", "databases", "sqlite:////x", "--every", "0m", "--json"], "usage"),
        (["ingest", "databases", "${NOT_SET_ANYWHERE}", "--json"], "no-such-variable"),
        (["ingest", "databases", "geheim@nowhere", "--json"], "bad-source-address"),
        (["ingest", "databases", "sqlite:////x", "--id", "Not An Id", "--json"], "bad-source-id"),
        (["ingest", "--recipe", "/nowhere.toml", "--json"], "bad-recipe"),
    ],
)
def test_what_cannot_be_is_refused_with_a_code(words: list[str], code: str) -> None:
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (2, code)
    assert "geheim" not in result.output
