"""`tail`: changes, or the states of entities, as they come.

Thin: options become a subscription; a line for people or a JSON value for programs comes of each record. A domain whose
records are in words of its own says in its file `lines` what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import click

from ..schemas.registry import role
from ..terminal.differences import changed_value, listed
from ..terminal.following import (
    LINE_WIDTH,
    ended_by_signals,
    follow,
    limit_option,
    placed_line,
    since_option,
    since_point,
    timeout_option,
)
from ..terminal.options import Options, json_option, options
from ..terminal.rendering import safe, shortened, time_text
from ..values import change_json, state_json
from .journals import journal_of

if TYPE_CHECKING:
    from rich.text import Text

    from ..consumers.records import Change, State

_SIGNS = (("additions", "+"), ("deletions", "-"))


class LinesFile(Protocol):
    """The file `lines` of a domain: its change records for people."""

    def changed(self, record: Mapping[str, Any]) -> tuple[str, str | None]:
        """What a change record says, on one line, and who made the change, if it says that."""


@click.command(short_help="Print changes as they happen.")
@click.option(
    "--domain", default="catalog", show_default=True, metavar="NAME", help="The domain whose changes are printed."
)
@since_option("catalog", "default; with --state: earliest")
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
@limit_option
@timeout_option
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
    with ended_by_signals():
        from ..consumers.filters import Filter

        # What is wrong with the conditions is said before anybody waits for Kafka.
        Filter.of(**{key: value for key, value in asked.items() if key != "group"})
        how: dict[str, Any] = {"since": since_point(since), "limit": limit, "timeout_s": timeout, **asked}
        _follow(given, domain, how, state=state, as_json=as_json)


def _follow(given: Options, domain: str, how: Mapping[str, Any], *, state: bool, as_json: bool) -> None:
    shape: Callable[[Any], dict[str, Any]] = state_json if state else change_json
    with journal_of(given) as journal:
        own = journal.settings.journal.tenant
        subscription = journal.states(domain, **how) if state else journal.subscribe(domain, **how)
        follow(
            subscription, group=how["group"], since=how["since"], line=lambda record: record_line(record, own),
            shape=shape if as_json else None,
        )  # fmt: skip


def record_line(record: Change | State, own_tenant: str) -> Text:
    """A record on one line: when, which entity, whose metadata, what, who."""
    from ..consumers.records import Change

    if not isinstance(record, Change):
        what, who = carried(record.document), record.document.get("actor")
    elif (module := role(record.domain, "lines")) is not None:
        what, who = cast(LinesFile, module).changed(record.record)
    elif "file" in record.record:
        what, who = file_changed(record.record), record.record.get("updater")
    elif "changes" not in record.record:
        what, who = fact(record.record), None
    else:
        what, who = f"{record.scope:<6}  {changed(record.record)}", record.record.get("updater")
    return placed_line(record, own_tenant, what, who)


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
