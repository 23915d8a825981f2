"""Commands that restore what was lost and cannot be derived from Kafka: `restore topics`.

Thin: `streaming.restoring` restores, here it is told what is lost and how far it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import MissingExtraError
from ..schemas.positions import cut_to_json
from ..terminal.options import Options, json_option, options
from ..terminal.rendering import console, print_json, print_line, safe, table
from .refolding import MASTER, RefoldLines, tasks_of

if TYPE_CHECKING:
    from ..streaming.restoring.restore import Restored

_ON = "Start everything again (`metajournal up`), then check it: `metajournal verify`."


@click.group()
def restore() -> None:
    """Restore what Kafka has lost from the lake."""


@restore.command("topics", short_help="Restore lost journal topics from the lake's journal table.")
@click.option("--dry-run", is_flag=True, help="Only print what is lost and would be restored.")
@click.option(
    "--accept", is_flag=True, help="Restore even if other tables of the lake differ from what its journal table gives."
)
@MASTER
@json_option
@options
def restore_topics_command(
    given: Options, /, dry_run: bool, accept: bool, master: str | None, as_json: bool
) -> None:  # fmt: skip
    """Restore lost journal topics, and the topics of schemas and epochs, from the lake's journal table.

    Every old event keeps its position and its verdict; new events get positions of a new epoch, behind all old ones.
    Stop everything that uses the journal first. A topic that still holds records is not touched. An interrupted
    restoration is resumed by the next one. Events that Kafka acknowledged but the journal table does not contain are
    lost.
    """
    try:
        from ..streaming.restoring.restore import lost_text, restore_topics
    except ModuleNotFoundError as error:
        raise MissingExtraError("stream", "Restoring topics") from error
    lines = RefoldLines(None if as_json else console(stderr=True))
    with tasks_of(given, master) as tasks:
        done = restore_topics(
            given.settings, tasks, dry_run=dry_run, accept=accept,
            tell=lines.say, say=lines.counted("write the records"), checking=lines.counted("check the lake"),
        )  # fmt: skip
    text = lost_text(done) if done.loss.lost else ""
    print_json(_json(done, dry_run, text)) if as_json else _show(done, dry_run, text)


def _json(done: Restored, dry_run: bool, text: str) -> dict[str, Any]:
    loss = done.loss
    return {
        "ok": True,
        "dry_run": dry_run,
        "topics": [
            {
                "topic": topic.topic,
                "state": topic.state,
                "epoch": topic.target.epoch,
                "records": topic.records,
                "offsets": topic.positions,
            }
            for topic in loss.topics
        ],
        "epochs": loss.epochs_lost,
        "schemas": loss.schemas_lost,
        "created": list(loss.created),
        "records": done.records,
        "seconds": round(done.seconds, 3),
        "marks": cut_to_json(done.marks),
        "ahead": cut_to_json(done.ahead),
        "torn_units": done.torn_units,
        "note": text,
    }


def _show(done: Restored, dry_run: bool, text: str) -> None:
    out, loss = console(), done.loss
    if not loss.is_any:
        print_line("Nothing is lost: every journal topic is the recorded one, and holds what the lake holds.", out=out)
        return
    rows = [
        (topic.topic, topic.state, str(topic.target.epoch), f"{topic.records:,}" if topic.is_lost else "")
        for topic in loss.topics
    ]
    out.print(table(["topic", "state", "epoch", "records"], rows))
    more = [name for name, lost in (("epochs", loss.epochs_lost), ("schemas", loss.schemas_lost)) if lost]
    if more:
        print_line(f"Also lost: the topic{'s' if more[1:] else ''} of {' and '.join(more)}.", out=out)
    if loss.created:
        print_line(safe(f"Created empty: {', '.join(loss.created)}."), out=out)
    if text:
        print_line(safe(text), out=out)
    if dry_run:
        print_line("Nothing was changed. Without --dry-run the topics are restored.", out=out)
        return
    events = "event" if done.records == 1 else "events"
    print_line(f"{done.records:,} {events} restored in {done.seconds:.1f} s. {_ON}", out=out)
    if loss.created or done.ahead:
        print_line("Then rebuild the index: `metajournal rebuild index`.", out=out)


RESTORING: tuple[click.Command, ...] = (restore,)
