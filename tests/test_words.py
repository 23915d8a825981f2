"""What users read is plain English in the field's terms: phrases that were once coined here do not come back."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from metajournal.rules import digest

ROOT = Path(__file__).parents[1]
OLD_PHRASES = {
    "is no URN": "is not a valid URN",
    "in for ever": "stored durably",
    "cache of the parts": "download cache",
    "tells of no": "only run events can be imported",
    "by nobody named": "(no actor given)",
    "nobody named": "(no actor given)",
    "lest ": "so that ... not",
    "ending what is left of the last time": "stopping leftover services from the previous run",
    "before the stream is through with it": "pending: the stream is 1 event behind",
    "is no time": "is not a valid time",
    "is no position": "is not a position",
    "is no number": "is not a number",
    "separated by blanks": "separate terms with spaces",
    "a star ends a beginning": "a trailing * matches a prefix",
    "made anew": "rebuilt, recreated",
    "make anew": "rebuild",
    "makes it anew": "rebuilds it",
    "tables anew": "rebuilds the tables",
    "index anew": "rebuilds the index",
    "for good": "permanently",
    "hold everything against": "check all derived data against",
    "the least start": "the earliest start",
    "the greatest stop": "the latest stop",
    "leave away": "omit",
    "left away": "omitted",
    "leave them away": "omit them",
    "as the journal told it": "as the journal recorded it",
    "the way of an event": "how an event flows",
    "goes on where it ended": "resumes where it stopped",
    "somebody else has put": "another process has replaced",
    "the asked position": "the requested position",
    "runs already": "is already running",
    "with commas between": "separated by commas",
}
"""What stood here once, in lower case but for names, and what to write."""

RECORDS = ("docs/decisions/0", "tests/", "CHANGELOG.md")
"""Texts that are kept as they were written, or that no user reads."""


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@cache
def files() -> tuple[str, ...]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, cwd=ROOT)
    names = listed.stdout.splitlines() or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.*")]
    return tuple(name for name in names if not name.startswith(RECORDS) and (ROOT / name).is_file())


@cache
def judging() -> frozenset[str]:
    """Files whose bytes enter the rules' digest: another word there would be another rule to every lake there is."""
    language = {f"schemas/{name}" for name in digest._JUDGING_SCHEMAS}
    pure = {name for name in files() for file in digest.PURE_FILES if re.fullmatch(rf"domains/\w+/{file}", name)}
    packages = {name for name in files() if re.fullmatch(r"(rules|schemas/events)/\w+\.py", name)}
    return frozenset(language | pure | packages)


def texts_of(source: str, *, documented: bool) -> Iterator[tuple[int, str]]:
    """Texts of a module, docstrings only where asked for: what is filled into an f-string is omitted.

    Other docstrings that users read are in docs/reference, which is made of them.
    """
    tree = ast.parse(source)
    bare = () if documented else (node for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docstrings = {id(node.value) for node in bare}
    pieces = {id(piece) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            constants = (piece.value if isinstance(piece, ast.Constant) else "…" for piece in node.values)
            yield node.lineno, "".join(map(str, constants))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces | docstrings:
            yield node.lineno, node.value


@cache
def user_texts() -> tuple[tuple[str, str], ...]:
    """Where a text stands, and the text with single spaces: pages whole, of modules each text."""
    texts = []
    for name in files():
        source = (ROOT / name).read_text("utf-8") if name.endswith((".md", ".py")) else ""
        if name.endswith(".md"):
            texts.append((name, squeezed(source)))
        elif name.endswith(".py") and name not in judging():
            documented = "commands" in name or name == "schemas/errors.py"  # help, and the meanings of errors
            texts += [(f"{name}:{line}", squeezed(text)) for line, text in texts_of(source, documented=documented)]
    return tuple(texts)


def test_what_users_read_is_looked_through() -> None:
    places = {place.partition(":")[0] for place, _ in user_texts()}
    assert {"README.md", "docs/concepts.md", "schemas/errors.py", "client.py", "commands/services.py"} <= places
    assert "rules/admission.py" in judging()


@pytest.mark.parametrize("phrase", OLD_PHRASES)
def test_a_coined_phrase_does_not_come_back(phrase: str) -> None:
    pattern = re.compile(rf"\b{re.escape(phrase)}", re.IGNORECASE)
    assert [place for place, text in user_texts() if pattern.search(text)] == [], f"write: {OLD_PHRASES[phrase]}"


def test_pages_call_a_layer_a_layer() -> None:
    pages = [(place, text) for place, text in user_texts() if place.endswith(".md") and "decisions" not in place]
    assert [place for place, text in pages if re.search(r"\brooms?\b", text)] == []
