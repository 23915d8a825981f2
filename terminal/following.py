"""Printing a subscription until it is stopped: what `tail` and the tails of domains are made of.

Invariant: a record counts as done in its group only once its line is printed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ..schemas.errors import InputError
from .interrupting import interrupt
from .options import SECONDS
from .rendering import console, note, print_json, shortened, time_text

if TYPE_CHECKING:
    from rich.text import Text

    from ..consumers.records import Change, State
    from ..consumers.subscription import Subscription

F = TypeVar("F", bound=Callable[..., Any])
LINE_WIDTH: Final = 160  # characters of what a change is
EARLIEST, LATEST = EDGES = "earliest", "latest"
limit_option = click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N.")
timeout_option = click.option(
    "--timeout", type=SECONDS, metavar="S", help="Stop after S seconds without a change."
)  # fmt: skip


def since_option(domain: str, default: str) -> Callable[[F], F]:
    """The option `--since`, as `since_point` reads it.

    Args:
        domain: the example's.
        default: what holds without it, for people.
    """
    return click.option(
        "--since",
        metavar="POINT",
        help=f"Where to start: {EARLIEST!r}, {LATEST!r} ({default}), a time such as 2026-01-31T12:00:00Z, or after a "
        f"position such as metajournal.journal.{domain}/0/1099511627776, as emit and --json print them; positions in "
        "several partitions are separated by commas.",
    )


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block well, also while it still imports and connects."""
    with suppress(KeyboardInterrupt), _terminable():
        yield


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if not is_main or before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def follow(
    subscription: Subscription[Any],
    *,
    group: str | None,
    since: Any,
    line: Callable[[Any], Text],
    shape: Callable[[Any], dict[str, Any]] | None,
) -> None:
    """Print each record on a line, until the subscription ends or a signal comes.

    Args:
        group, since: as the subscription was made with.
        line: a record for people.
        shape: a record as JSON, where that is to be printed.
    """
    out = console()
    if subscription.resumed and since is not None:
        note(f"The group {group} resumes where it stopped; --since only applies to partitions that it has never read.")
    with subscription as records, _interruptible(records):
        for record in records:
            if shape is not None:
                print_json(shape(record))
            else:
                out.print(line(record), soft_wrap=True)


@contextmanager
def _interruptible(subscription: Subscription[Any]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the loop between two lines, so that each printed line counts as done.

    A second one ends it at once.
    """

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        subscription.stop()

    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def since_point(text: str | None) -> Any:
    """What `--since` says, as `Journal.subscribe` takes it. Raises: InputError: it is no starting point."""
    from ..values import point

    if text is None or text in EDGES:
        return text
    try:
        return point(text)
    except InputError as error:
        error.advise(f"Give {EARLIEST}, {LATEST}, a position (TOPIC/PARTITION/VALUE) or a time. {error.hint}")
        raise


def placed_line(record: Change | State, own_tenant: str, what: str, who: str | None) -> Text:
    """A record on one line: when, which entity, what, who."""
    from rich.text import Text

    tenant = "" if record.tenant == own_tenant else f" ({shortened(record.tenant, 64)})"
    where = f"{time_text(record.time)}  {shortened(record.urn, 120)}{tenant}"
    return Text(f"{where}  {what}" + (f"  by {shortened(who, 40)}" if who else ""))
