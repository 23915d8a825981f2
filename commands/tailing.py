"""`tail`: changes, or the states of entities, as they come.

Thin: options become a subscription; a line for people or a JSON value for programs comes of each record.
Invariant: a record counts as done in its group only once its line is printed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from ..terminal.differences import changed_value, listed
from ..terminal.options import SECONDS, Options, json_option, options
from ..terminal.rendering import console, note, print_json, safe, shortened, time_text
from ..values import change_json, state_json
from .journals import journal_of

if TYPE_CHECKING:
    from rich.text import Text

    from ..consumers.records import Change, State
    from ..consumers.subscription import Subscription

LINE_WIDTH = 160  # characters of what a change is
_SIGNS = (("additions", "+"), ("deletions", "-"))


@click.command(short_help="Print changes as they happen.")
@click.option(
    "--domain", default="catalog", show_default=True, metavar="NAME", help="The domain whose changes are printed."
)
@click.option(
    "--since",
    metavar="POINT",
    help="Start after this position (or these, separated by commas), at this time, or at 'earliest' or 'latest' "
    "(default; with --state: earliest).",
)
@click.option(
    "--group", metavar="NAME", help="Share the changes with other members of this group, and resume where it stopped."
)
@click.option(
    "--kind",
    "kinds",
    metavar="KIND",
    multiple=True,
    help="Only this kind; may be repeated, as may the filters below.",
)
@click.option("--namespace", metavar="NAME", multiple=True, help="Only this namespace.")
@click.option("--urn", metavar="URN", multiple=True, help="Only this entity, or a URN prefix: dataset:default/*")
@click.option(
    "--scope", type=click.Choice(["USER", "SYSTEM"], case_sensitive=False), help="Only this scope's metadata."
)
@click.option(
    "--tenant",
    metavar="NAME",
    multiple=True,
    help="This tenant's entities instead of the configured tenant's; '*': every tenant's.",
)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Only where this tag was added or removed.")
@click.option(
    "--key", "keys", metavar="KEY", multiple=True, help="Only where this property was added, removed or changed."
)
@click.option(
    "--state",
    is_flag=True,
    help="Print complete entities: the newest state of each (and older ones that Kafka still has), then every later "
    "one.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N.")
@click.option("--timeout", type=SECONDS, metavar="S", help="Stop after S seconds without a change.")
@json_option
@options
def tail(
    given: Options,
    /,
    domain: str,
    since: str | None,
    state: bool,
    limit: int | None,
    timeout: float | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Print changes as they happen, until Ctrl-C or SIGTERM.

    A change is a change of an entity's metadata: registering or deleting an entity without metadata produces none, and
    a deletion appears as the removal of its metadata. --state prints complete entities, including deleted ones.

    \b
    metajournal tail --kind dataset --namespace default
    metajournal tail --since 2026-01-31T12:00:00Z --tag pii --json
    metajournal tail --group mailer --since earliest
    """
    with suppress(KeyboardInterrupt), _terminable():  # how a tail ends
        from ..consumers.filters import Filter

        # What is wrong with the conditions is said before anybody waits for Kafka.
        Filter.of(**{key: value for key, value in asked.items() if key != "group"})
        how: dict[str, Any] = {"since": _point(since), "limit": limit, "timeout_s": timeout, **asked}
        _follow(given, domain, how, state=state, as_json=as_json)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, also while it still imports and connects."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if not is_main or before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _follow(given: Options, domain: str, how: Mapping[str, Any], *, state: bool, as_json: bool) -> None:
    out = console()
    shape: Callable[[Any], dict[str, Any]] = state_json if state else change_json
    with journal_of(given) as journal:
        own = journal.settings.journal.tenant
        subscription = journal.states(domain, **how) if state else journal.subscribe(domain, **how)
        if subscription.resumed and how["since"] is not None:
            note(
                f"The group {how['group']} resumes where it stopped; --since only applies to partitions that it has "
                "never read."
            )
        with subscription as records, _interruptible(records):
            for record in records:
                if as_json:
                    print_json(shape(record))
                else:
                    out.print(record_line(record, own), soft_wrap=True)


@contextmanager
def _interruptible(subscription: Subscription[Any]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the loop between two lines, so that each printed line counts as done.

    A second one ends it at once.
    """

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
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


def _point(text: str | None) -> Any:
    """What `--since` says, as `Journal.subscribe` takes it."""
    from ..values import point

    return text if text in (None, "earliest", "latest") else point(text)


def record_line(record: Change | State, own_tenant: str) -> Text:
    """A record on one line: when, which entity, whose metadata, what, who."""
    from rich.text import Text

    from ..consumers.records import Change

    tenant = "" if record.tenant == own_tenant else f" ({shortened(record.tenant, 64)})"
    where = f"{time_text(record.time)}  {shortened(record.urn, 120)}{tenant}"
    if isinstance(record, Change) and "file" in record.record:
        what, who = file_changed(record.record), record.record.get("updater")
    elif isinstance(record, Change) and "changes" not in record.record:
        what, who = fact(record.record), None
    elif isinstance(record, Change):
        what, who = f"{record.scope:<6}  {changed(record.record)}", record.record.get("updater")
    else:
        what, who = carried(record.document), record.document.get("actor")
    return Text(f"{where}  {what}" + (f"  by {shortened(who, 40)}" if who else ""))


def changed(record: Mapping[str, Any]) -> str:
    """What a change record adds and takes away: `+tag pii, -owner, level: 1 → 2`."""
    differences = [f"{sign}tag {tag}" for side, sign in _SIGNS for tag in record["changes"][side]["tags"]]
    added, gone = (record["changes"][side]["properties"] for side, _ in _SIGNS)
    differences += [changed_value(key, gone[key], added[key]) for key in added if key in gone]
    differences += [f"+{key}" for key in added if key not in gone] + [f"-{key}" for key in gone if key not in added]
    return listed([safe(difference, one_line=True) for difference in differences], LINE_WIDTH)


def file_changed(record: Mapping[str, Any]) -> str:
    """What a file's change record says: where a new one is, or what is otherwise: `url: a → b, hash: 1 → 2`."""
    old, new = (_flat(record[side]) for side in ("previous", "updated"))
    if not old:
        return shortened(f"recorded {new.get('url')}", LINE_WIDTH)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    differences = [f"{name}: {shortened(old.get(name), 40)} → {shortened(new.get(name), 40)}" for name in names]
    return shortened(", ".join(differences), LINE_WIDTH)


def _flat(record: Mapping[str, Any] | None) -> dict[str, Any]:
    """A file's record with the names of its document beside its own."""
    return {} if record is None else {**record, **record["metadata"], "metadata": None}


def fact(record: Mapping[str, Any]) -> str:
    """What a fact says, name by name, but whom it is about."""
    parts = [
        f"{name} {time_text(value) if name == 'at' and isinstance(value, int) else value}"
        for name, value in record.items()
        if value is not None and name not in ("type", "run", "stream")
    ]
    return shortened(f"{record.get('type', 'fact')}  {', '.join(parts)}", LINE_WIDTH)


def carried(document: Mapping[str, Any]) -> str:
    """What an entity carries: its tags, and how many properties."""
    if document["deleted"]:
        return "deleted"
    tags = [*document["user"]["tags"], *document["system"]["tags"]]
    count = sum(len(document[scope]["properties"]) for scope in ("user", "system"))
    counted = f"{count} {'property' if count == 1 else 'properties'}"
    return shortened(f"{counted}, tags {', '.join(tags)}" if tags else counted, LINE_WIDTH)
