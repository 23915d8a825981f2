"""Ctrl-C and SIGTERM raise in the main thread wherever it is: what it shares with others goes on, and can be closed."""

from __future__ import annotations

import ast
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from metajournal.client import Journal
from metajournal.domains.catalog.events import EntityRegistered
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.answers import Administrator
from metajournal.producers.asked_ends import AskedEnds
from metajournal.producers.kafka import ErrorLog, make_consumer, make_producer, take_in
from metajournal.producers.receipts import Receipt
from metajournal.producers.waiting.futures import resolve
from metajournal.schemas.errors import OutcomeUnknownError
from metajournal.schemas.settings import Settings
from metajournal.terminal.interrupting import interrupt

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
    gc.disable()  # whose callbacks are others' calls
    sys.setprofile(count)
    try:
        work()
    except (KeyboardInterrupt, RuntimeError):  # which the standard library makes of some in Thread.start
        return True
    finally:
        sys.setprofile(former)
        gc.enable()
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


def raises_instance(number: int, frame: FrameType | None) -> None:
    raise SystemExit(143)


@pytest.mark.parametrize(
    ("handler", "raised"),
    [
        pytest.param(signal.default_int_handler, KeyboardInterrupt(), id="Python's own"),
        pytest.param(interrupt, KeyboardInterrupt(), id="the command line's"),
        pytest.param(lambda *_: sys.exit(3), SystemExit(1), id="one that exits"),
        pytest.param(raises_instance, SystemExit(143), id="one that raises SystemExit"),
    ],
)
@pytest.mark.parametrize("served", ["producer", "poll", "consume"])
def test_a_signal_while_the_client_calls_back_raises_what_its_handler_raises(
    served: str, handler: Any, raised: BaseException
) -> None:
    class Told(ErrorLog):
        def __call__(self, error: Any) -> None:
            signal.raise_signal(signal.SIGINT)

    settings = Settings(kafka={"bootstrap.servers": "127.0.0.1:1"})
    errors = Told()

    def serve() -> None:
        turn: Callable[[float], object]
        if served == "producer":
            producer = make_producer(settings, errors)
            turn = partial(take_in, producer.poll, errors)
        else:
            consumer = make_consumer(settings, errors)
            consumer.assign([TopicPartition("t", 0, 0)])
            turn = consumer.poll if served == "poll" else partial(consumer.consume, 10)
        for _ in range(100):
            turn(0.1)

    former = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(type(raised)) as found:
            serve()
    finally:
        signal.signal(signal.SIGINT, former)
    assert found.value.args == raised.args


@pytest.mark.services
def test_nobody_waits_for_a_report_in_which_a_signal_came(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Receipt.delivered
    reports = 0

    def delivered(receipt: Receipt, error: Any, message: Any) -> None:
        nonlocal reports
        reports += 1
        if reports == 3:
            signal.raise_signal(signal.SIGINT)
        taken(receipt, error, message)

    with Journal.connect(settings, create_topics=True) as journal:
        journal.emit(EntityRegistered(dataset("signals", "first"))).position  # noqa: B018  (the schemas are there)
        reports = 0
        monkeypatch.setattr(Receipt, "delivered", delivered)
        receipts = [journal.emit(EntityRegistered(dataset("signals", f"d{number}"))) for number in range(20)]
        with pytest.raises(KeyboardInterrupt):
            journal.flush()
        began = time.monotonic()
        with pytest.raises(OutcomeUnknownError) as unknown:
            journal.flush()
        assert time.monotonic() - began < settings.client.delivery_timeout_s / 2
        [lost] = [receipt for receipt in receipts if not receipt.acknowledged]
        assert unknown.value.data["event_ids"] == (lost.event_id,)
        with pytest.raises(OutcomeUnknownError):
            lost.position  # noqa: B018  (nobody waits for it)
        journal.flush()
