"""Commands that rebuild derived data: `rebuild index` and `rebuild lake`.

Thin: the rooms rebuild, here it is told how far they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import MissingExtraError
from ..terminal.options import Options, json_option, options
from ..terminal.rendering import console, print_json, print_line, safe
from .refolding import rebuild_lake_command

if TYPE_CHECKING:
    from rich.console import Console

    from ..indexer.fill.rebuild import Rebuilt
    from ..indexer.fill.stages import Stage

_TELL_S = 2.0  # seconds between two lines of progress
_PHASES = {
    "load": "index the lake's entities",
    "catch-up": "catch up with the state topics",
    "compare": "compare with the lake",
    "swap": "swap",
}


@click.group()
def rebuild() -> None:
    """Rebuild derived data from the journal, beside the live system."""


@rebuild.command("index", short_help="Rebuild the search index from the lake.")
@click.option("--keep-old", is_flag=True, help="Keep the old index in Elasticsearch, unused.")
@json_option
@options
def rebuild_index_command(given: Options, /, keep_old: bool, as_json: bool) -> None:
    """Rebuild the search index from the lake, beside the live one, and replace that.

    Searches and the indexer continue meanwhile. The new index is compared with the lake, document by document, before
    the alias is switched atomically. An interrupted rebuild is resumed by the next one.
    """
    try:
        from ..indexer.fill.rebuild import rebuild_index
    except ModuleNotFoundError as error:
        raise MissingExtraError("lake", "Rebuilding the index") from error
    lines = _RebuildLines(console(stderr=True))
    done = rebuild_index(given.settings, keep_old=keep_old, tell=lines.stage, say=lines.say)
    print_json({"ok": True, **asdict(done)}) if as_json else _show(done)


class _RebuildLines:
    """Progress on standard error: each phase when it begins, then a line every now and then."""

    def __init__(self, out: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._phase = ""
        self._printed_s = 0.0

    def stage(self, stage: Stage) -> None:
        whole = stage.done == stage.total > 0
        if stage.phase == self._phase and not whole and self._clock() - self._printed_s < _TELL_S:
            return
        self._phase, self._printed_s = stage.phase, self._clock()
        print_line(f"{_PHASES[stage.phase]}{_numbers(stage)}", out=self._out)

    def say(self, text: str) -> None:
        if text:
            print_line(safe(f"{text}; waiting for it"), out=self._out)


def _numbers(stage: Stage) -> str:
    if stage.phase == "catch-up":
        return f": {stage.total:,} positions behind" if stage.total else ""
    if not stage.total:
        return ""
    left = "" if stage.left_s is None else f", {stage.left_s:,.0f} s left"
    return f": {stage.done:,} of about {stage.total:,}, {stage.rate:,.0f} a second{left}"


def _show(done: Rebuilt) -> None:
    out = console()

    def say(text: str) -> None:
        print_line(safe(text), out=out)

    for name in done.thrown_away:
        say(f"{name}, an unfinished index that could not be resumed, was discarded.")
    if done.resumed:
        say("An unfinished rebuild was resumed.")
    say(f"Searches use {done.index}: {done.documents:,} entities of the lake, each compared; {done.took_s:.1f} s.")
    if done.old:
        say(f"The old index {done.old} {'is still there' if done.kept else 'is deleted'}.")


rebuild.add_command(rebuild_lake_command)
REBUILDING: tuple[Any, ...] = (rebuild,)
