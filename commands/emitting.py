"""`metajournal emit`: one event from options, or many from JSON lines; each with its position and outcome.

Left to whom: `parsing.py` makes events of text, the `Journal` sends them, `views.py` words the results.
Invariant: results come in the order of the input, one for each line, also for the lines that were refused before
sending; at most WINDOW receipts are held, so a pipe may go on for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from io import TextIOBase
from typing import TYPE_CHECKING, Any, TextIO

from ..schemas.errors import InputError, NotYetVisibleError, OutcomeUnknownError
from .parsing import Typed, typed_event
from .rendering import error_json
from .views import outcome_json

if TYPE_CHECKING:
    from ..client import Journal
    from ..producers.receipts import Receipt

WINDOW = 1000  # receipts held before the oldest is waited for


class Sending:
    """A journal and what to wait for.

    Args:
        journal: where to emit.
        outcome: wait for the verdict of the rules too, not only until Kafka has the event.
        timeout_s: seconds to wait for a verdict; the client's setting where None.
    """

    def __init__(self, journal: Journal, *, outcome: bool, timeout_s: float | None = None) -> None:
        self._journal = journal
        self._outcome = outcome
        self._timeout_s = timeout_s

    def one(self, typed: Typed) -> dict[str, Any]:
        """Emit an event and wait.

        Raises:
            MetajournalError: it was refused before sending, a service is away, or the outcome is unknown.
        """
        return self._result(typed, self._emit(typed))

    def lines(self, lines: TextIO | Iterable[str]) -> Iterator[dict[str, Any]]:
        """Emit each JSON line and give its result, in their order; empty lines count and are passed over.

        A line without an answer in time does not end the others: they are in the journal and have their positions.
        """
        typed_by_hand = isinstance(lines, TextIOBase) and lines.isatty()
        window = 0 if typed_by_hand else WINDOW
        waiting: deque[tuple[int, Typed, Receipt]] = deque()
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                typed = typed_event(line)
                waiting.append((number, typed, self._emit(typed)))
            except InputError as error:
                yield from self._drained(waiting, 0)
                yield {"line": number, **error_json(error.code, error.message, error.hint, error.data)}
            yield from self._drained(waiting, window)
        yield from self._drained(waiting, 0)

    def _emit(self, typed: Typed) -> Receipt:
        return self._journal.emit(typed.event, **typed.about)

    def _drained(self, waiting: deque[tuple[int, Typed, Receipt]], keep: int) -> Iterator[dict[str, Any]]:
        while len(waiting) > keep:
            number, typed, receipt = waiting.popleft()
            result = {"line": number, **_named(typed, receipt)}
            try:
                yield result | self._result(typed, receipt)
            except (NotYetVisibleError, OutcomeUnknownError) as error:
                self._timeout_s = 0.0  # waited for long enough: the rest is asked without waiting again
                where = {"position": str(receipt.position)} if receipt.acknowledged else {}
                yield result | where | error_json(error.code, error.message, error.hint, error.data)

    def _result(self, typed: Typed, receipt: Receipt) -> dict[str, Any]:
        result = {"ok": True, **_named(typed, receipt)}
        result |= {"position": str(receipt.position), "system_time": receipt.system_time}
        if self._outcome:
            result |= outcome_json(receipt.outcome(self._timeout_s))
            result["ok"] = result["outcome"] not in ("rejected", "shelved")
        return result


def _named(typed: Typed, receipt: Receipt) -> dict[str, Any]:
    return {"event_id": receipt.event_id, "type": typed.event.TYPE, "entity": str(typed.event.entity)}
