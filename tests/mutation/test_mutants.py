"""The mutants themselves: what a run says is worth as much as the changes that it tries."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import metajournal.rules
from tests.mutation.operators import mutants

FOLDER = Path(metajournal.rules.__file__).parent


def changed(source: str) -> set[str]:
    """What a piece of code becomes."""
    return {mutant.applied(source.encode()).decode() for mutant in mutants("x.py", source.encode())}


@pytest.mark.parametrize(
    ("source", "some"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)", "x = None"}),
        ("x = a <= b < c", {"x = (a < b < c)", "x = (a <= b <= c)"}),
        ("x = a is None", {"x = (a is not None)"}),
        ("x = a not in b", {"x = (a in b)"}),
        ("x = a and b and c", {"x = (a or b or c)", "x = (a and c)"}),
        ("x = not a", {"x = (a)"}),
        ("x = a - 1", {"x = (a + 1)", "x = (a)", "x = (1)", "x = a - (2)", "x = a - (0)"}),
        ("x = f(a, k=b)", {"x = (f(None, k=b))", "x = (f(a))"}),
        ("x = a.f(b, c)", {"x = (a.f(c))", "x = (a.f(b))"}),
        ("x = sorted(a)", {"x = (a)", "x = (sorted(None))"}),
        ("x = 'stale'", {"x = 'XXstaleXX'"}),
        ("x = {'a': 1, 'b': 2}", {"x = ({'b': 2})"}),
        ("if a:\n    f()", {"if (not a):\n    f()", "if (True):\n    f()", "if (False):\n    f()", "if a:\n    pass"}),
        ("def f():\n    return 1", {"def f():\n    return None", "def f():\n    pass", "def f():\n    return (2)"}),
        ("def f():\n    if a:\n        return\n    g()", {"def f():\n    if a:\n        pass\n    g()"}),
        ("x = [a for a in b if c]", {"x = [a for a in b if (True)]", "x = [a for a in b if (not c)]"}),
        ("x = f'{a}é'; y = 1", {"x = (f'XX{a}é'); y = 1", "x = (f'é'); y = 1", "x = f'{a}é'; y = (2)"}),
        ("match a:\n    case 'b' | 'c':\n        f()", {"match a:\n    case ('b'):\n        f()"}),
    ],
)
def test_code_is_changed_in_all_these_ways(source: str, some: set[str]) -> None:
    assert some <= changed(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "from a import b",
        "x: Final[dict[str, Literal['a']]]",
        "def f(a: list[int | None] = b) -> tuple[str, ...]: ...",
        "Reason = Literal['a', 'b']",
        "class Reader(Protocol):\n    def f(self) -> int:\n        return 1",
        "@lru_cache(maxsize=5)\ndef f(): ...",
    ],
)
def test_what_no_result_depends_on_stays(source: str) -> None:
    assert changed(source) == set()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_every_mutant_of_the_rules_is_another_program_that_compiles(path: Path) -> None:
    source = path.read_bytes()
    found = mutants(f"rules/{path.name}", source)
    assert len(found) >= (5 if path.name == "lineage_rows.py" else 10)  # that one decides nearly nothing
    texts = {mutant.applied(source) for mutant in found}
    assert len(texts) == len(found)
    assert source not in texts
    for mutant in found[::5]:
        ast.parse(mutant.applied(source))
        assert source[mutant.start : mutant.end].decode() == mutant.before
