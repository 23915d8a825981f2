"""Ctrl-C and SIGTERM raise in the main thread wherever it is: what it shares with others goes on, and can be closed."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from metajournal.producers.answers import Administrator
from metajournal.producers.asked_ends import AskedEnds
from metajournal.producers.waiting.futures import resolve
from metajournal.schemas.settings import Settings

MOST_STEPS = 2_000
ROOT = Path(__file__).parents[2]
WAIT_S = 20


class Answered(AskedEnds):
    """Its thread answers without a broker."""

    def _made(self) -> Administrator:
        return cast(Administrator, None)

    def _ask(self, administrator: Administrator, asked: Any) -> set[Any]:
        for questions in asked.values():
            for question in questions:
                resolve(question.future, 0)
        return set()


def is_interrupted(work: Callable[[], object], step: int) -> bool:
    """Whether an exception came at that one of the places where signals are handled, or the work has fewer.

    They are the beginnings of functions and the ends of calls of C code (CPython's `CHECK_EVAL_BREAKER`).
    """
    left = step

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    former = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    except (KeyboardInterrupt, RuntimeError):  # which the standard library makes of some in Thread.start
        return True
    finally:
        sys.setprofile(former)
    return False


@pytest.mark.parametrize("waits", [True, False], ids=["thread waits", "no thread"])
def test_an_interrupted_question_keeps_nobody_waiting(waits: bool) -> None:
    for step in range(MOST_STEPS):
        ends = Answered(Settings())
        if waits:
            assert ends.end("topic", 0).result(WAIT_S) == 0
        interrupted = is_interrupted(lambda: ends.end("topic", 0), step)  # noqa: B023  (called at once)
        assert ends.end("topic", 1).result(WAIT_S) == 0
        closing = threading.Thread(target=ends.close, daemon=True)
        closing.start()
        closing.join(WAIT_S)
        assert not closing.is_alive(), step
        if not interrupted:
            return
    pytest.fail("the question has no end")


def _conditions(tree: ast.AST) -> set[str]:
    """Names of attributes that conditions are given to."""
    return {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] == "Condition"
        for target in node.targets
    }


def test_nobody_enters_a_condition_instead_of_its_lock() -> None:
    found = 0
    for folder in ("producers", "consumers", "gateway", "indexer", "lake", "streaming", "stack"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text("utf-8")
            if "Condition(" not in text:
                continue
            tree = ast.parse(text)
            conditions = _conditions(tree)
            found += len(conditions)
            for node in ast.walk(tree):
                if isinstance(node, ast.With | ast.AsyncWith):
                    entered = {ast.unparse(item.context_expr) for item in node.items}
                    assert not entered & conditions, f"{path.relative_to(ROOT)}:{node.lineno}"
    assert found >= 4
