"""What the commands of repositories share: options, how they reach a repository, and how they say what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import click

from ...terminal.exits import FINE, PROBLEM
from ...terminal.options import SECONDS
from ...terminal.rendering import console, note, print_json, print_line, shortened, verdict

if TYPE_CHECKING:
    from rich.text import Text

    from ...lake_client import ConnectedJournal
    from ...producers.receipts import Receipt
    from ...terminal.listing import Listing
    from .client import Repository, WithRepositories

SHORT = 12
"""Digits of a commit's id in tables."""
actor_option = click.option("--actor", metavar="NAME", help="Who is making the change.")
as_at_option = click.option(
    "--as-at", metavar="POSITIONS|TIME", help="What the journal had recorded by then (system time), instead of now."
)
expected_head_option = click.option(
    "--expected-head", metavar="ID", help="Apply only if the branch is at this commit; '' if it must have none."
)
limit_option = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, metavar="N", help="Maximum per answer."
)

timeout_option = click.option(
    "--timeout", "timeout_s", type=SECONDS, default=30.0, show_default=True, metavar="SECONDS",
    help="How long to wait until what the journal holds can be seen.",
)  # fmt: skip


def repository_named(journal: ConnectedJournal, name: str) -> Repository:
    """A repository, for a command that does not stay: it waits for the lake."""
    return cast("WithRepositories", journal).repositories.waiting(name)


def said_by(actor: str | None) -> dict[str, Any]:
    """The arguments of `emit` that `--actor` gives."""
    return {} if actor is None else {"actor": actor}


def asks_then(at: Any, *refs: str) -> bool:
    """Whether a point is asked about, or a branch as at a time: then the answer tells whether it is final."""
    from .questions import Ref

    return at is not None or any(Ref.of(ref).until_ms is not None for ref in refs)


def note_if_not_final(final: bool, *, asked: bool) -> None:
    """Say of an answer as at a time that events still to come can change it."""
    from .questions import NOT_FINAL

    if asked and not final:
        note(NOT_FINAL)


def tell_outcomes(receipts: Iterable[Receipt], as_json: bool, done: str | None = None) -> int:
    """Say what became of events; fails where one was refused.

    Args:
        done: what they did together, said behind them where none was refused.
    """
    from ...values import outcome_json

    fine = True
    for receipt in receipts:
        said = outcome_json(receipt.outcome())
        ok = said["outcome"] not in ("rejected", "shelved")
        fine = fine and ok
        result = {"ok": ok, "event_id": receipt.event_id, "position": str(receipt.position), **said}
        print_json(result) if as_json else console().print(_line(result), soft_wrap=True)
    if done is not None and fine and not as_json:
        print_line(done)
    return FINE if fine else PROBLEM


def _line(result: dict[str, Any]) -> Text:
    """What became of an event; of one that was refused also why, and what to do."""
    from rich.text import Text

    from ...schemas.rejections import next_step

    text = Text.assemble(verdict(str(result["outcome"])), f"  {result['position']}")
    if "reason" in result:
        topic = str(result["position"]).rsplit("/", 2)[0]
        why = shortened(_said(result.get("detail")), 160)
        text.append(f"  {result['reason']}: {why}\n  next: {next_step(result['reason'], topic)}")
    return text


def _said(detail: Any) -> str:
    if not isinstance(detail, dict):
        return str(detail)
    return ", ".join(f"{name} {value}" for name, value in detail.items() if value is not None)


def show_table(listing: Listing | None, empty: str) -> int:
    """Print a table, or what is said where it is empty."""
    console().print(listing, crop=False) if listing is not None else print_line(empty)
    return FINE
