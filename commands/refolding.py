"""Commands that fold the journal again: `rebuild lake` and `verify`.

Thin: `streaming` folds and compares, `indexer` compares the index; here it is told how far they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import MissingExtraError, StreamError
from ..schemas.positions import behind_text
from ..terminal.exits import FINE, PROBLEM
from ..terminal.options import FILLED, Options, json_option, options
from ..terminal.rendering import console, print_json, print_line, safe, table

if TYPE_CHECKING:
    from rich.console import Console

    from ..lake.tables import Lake
    from ..streaming.rebuild import Progress, Rebuilt, Refolding
    from ..streaming.verify import Check
    from ..terminal.listing import Listing

_TELL_S = 2.0  # seconds between two lines of progress
_TAKEN_WITHIN_S = 600.0
_SHOWN_WITHIN_S = 10.0
_CATCH_UP = "Start the indexer (`metajournal up`) or let it catch up (`metajournal status`), then run verify again."

MASTER = click.option(
    "--master", type=FILLED, metavar="URL", help="Fold on a Spark cluster instead of this machine's cores."
)


@click.command("lake", short_help="Rebuild the lake's history tables from the journal.")
@click.option(
    "--from",
    "source",
    type=click.Choice(["journal", "kafka"]),
    default="journal",
    show_default=True,
    help="Source: the lake's journal table, or the journal topics (then that table is rebuilt too).",
)
@click.option("--offline", is_flag=True, help="Switch to the new tables at once; no stream may be writing this lake.")
@click.option("--accept", is_flag=True, help="Switch to the new tables even if they differ from the live ones.")
@MASTER
@json_option
@options
def rebuild_lake_command(
    given: Options, /, source: str, offline: bool, accept: bool, master: str | None, as_json: bool
) -> None:  # fmt: skip
    """Rebuild the lake's history tables from the journal, beside the live ones, and replace those.

    The stream continues meanwhile, and switches to the new tables by itself between two batches; if no stream is
    running, this command does it. The new tables are compared with the live ones by digest. An interrupted rebuild is
    resumed by the next one.
    """
    streaming = _imported()
    lines = RefoldLines(None if as_json else console(stderr=True))
    with _no_stream(given) if offline else nullcontext(), tasks_of(given, master) as tasks:
        done = streaming.rebuild_lake(
            given.settings, _epochs(given), tasks, offline=offline or None, from_kafka=source == "kafka",
            accept=accept, say=lines.progress, wait=lines.waiting,
        )  # fmt: skip
    print_json({"ok": True, **_json(done)}) if as_json else _show(done)


@click.command(short_help="Check all derived data against the journal: lake, units, index.")
@click.option("--no-index", is_flag=True, help="Do not check the search index.")
@MASTER
@json_option
@options
def verify(given: Options, /, no_index: bool, master: str | None, as_json: bool) -> int:
    """Check all derived data against the journal: nothing lost, nothing duplicated, every table and document correct.

    The journal is folded again into temporary tables, which are deleted afterwards. Nothing else is written.
    """
    _imported()
    from ..lake.tables import Lake
    from ..streaming.verify import unless_damaged

    where = given.settings.lake
    lake = Lake(where.path, where.storage_options)
    if not lake.journal.exists():
        raise StreamError(
            f"There is no lake at {lake.path}.",
            code="no-lake",
            hint="Start the stream (`metajournal up`), or point [lake] path at the lake.",
        )
    lines = RefoldLines(None if as_json else console(stderr=True))
    with tasks_of(given, master) as tasks:
        checks = [*_lake_checks(given, lake, tasks, lines)]
        if not no_index:
            checks.append(unless_damaged("index", lambda: _index_check(given, lines)))
    fine = all(check.ok for check in checks)
    if as_json:
        print_json({"ok": fine, "checks": [_check_json(check) for check in checks]})
    else:
        console().print(_checks_view(checks))
        for text in _mends(checks):
            print_line(f"  next: {text}")
    return FINE if fine else PROBLEM


def _lake_checks(given: Options, lake: Lake, tasks: Refolding, lines: RefoldLines) -> Iterator[Check]:
    from ..streaming.verify import verify_lake

    return verify_lake(given.settings, _epochs(given), lake, tasks, lines.progress)


def _index_check(given: Options, lines: RefoldLines) -> Check:
    from ..indexer.fill.compare import compare_index
    from ..streaming.verify import Check

    lines.say("compare the index with the lake")
    comparison = compare_index(given.settings, wait_s=_SHOWN_WITHIN_S)
    wrong = [
        f"{difference.urn} of tenant {difference.tenant}: {difference.fault}"
        for difference in comparison.differences[:20]
    ]
    summary = f"{comparison.compared:,} documents compared, {comparison.count or 'none'} differing"
    if not comparison.behind:
        return Check("index", not comparison.count, summary, tuple(wrong))
    late = f"index {sum(comparison.behind.values()):,} positions behind; is the indexer running? (metajournal status)"
    summary = f"{late} Of what it shows: {summary}"
    return Check(
        "index", False, summary, (behind_text(comparison.behind), *wrong), "" if comparison.count else _CATCH_UP
    )


def _imported() -> Any:
    try:
        from ..streaming import rebuild
    except ModuleNotFoundError as error:
        raise MissingExtraError("stream", "Folding the journal again") from error
    return rebuild


def _epochs(given: Options) -> Any:
    from ..producers.topics import check_topics

    return check_topics(given.settings)


def tasks_of(given: Options, master: str | None) -> AbstractContextManager[Refolding]:
    from ..streaming.rebuild import Pool

    return Pool() if master is None else _on_spark(given, master)


def _no_stream(given: Options) -> AbstractContextManager[None]:
    """While it lasts, no stream writes the lake, on whatever machine. Raises: StreamError: one does."""
    from ..lake.storage.locks import only_one

    lake = given.settings.lake
    hint = "Omit --offline: the stream switches to the new tables by itself. Or stop it first (`metajournal down`)."
    return only_one(lake.path, "stream", hint=hint, storage_options=lake.storage_options)


@contextmanager
def _on_spark(given: Options, master: str) -> Iterator[Refolding]:
    from ..stack.jars import spark_jars
    from ..stack.java import find_java
    from ..streaming.spark.session import open_session
    from ..streaming.spark.wide import SparkRefold

    find_java()
    session = open_session(spark_jars(), {**given.settings.stream.spark, "spark.master": master}, log=str(given.home))
    try:
        yield SparkRefold(session)
    finally:
        session.stop()


class RefoldLines:
    """Progress on standard error, a line every now and then; nothing for programs."""

    def __init__(self, out: Console | None) -> None:
        self._out = out
        self._printed_s = 0.0
        self._waited_from_s: float | None = None

    def say(self, text: str) -> None:
        if self._out is not None:
            print_line(safe(text), out=self._out)

    def progress(self, done: Progress) -> None:
        self._count("fold the journal again", done)

    def counted(self, what: str) -> Callable[[Progress], None]:
        """Progress of something else."""
        return partial(self._count, what)

    def _count(self, what: str, done: Progress) -> None:
        now = time.monotonic()
        if now - self._printed_s >= _TELL_S or done.records >= done.of:
            self._printed_s = now
            left = "" if not done.left_s else f", {done.left_s:,.0f} s left"
            rate = f", {done.per_s:,.0f} a second" if done.per_s else ""
            self.say(f"{what}: {done.records:,} of {done.of:,}{rate}{left}")

    def waiting(self) -> None:
        now = time.monotonic()
        if self._waited_from_s is None:
            self._waited_from_s = now
            self.say("wait for the stream to switch to the new tables")
        if now - self._waited_from_s > _TAKEN_WITHIN_S:
            raise StreamError(
                "The stream has not switched to the rebuilt tables yet; they are ready.",
                code="not-taken-over",
                hint="It switches between two batches: see `metajournal status`. If no stream is running, use "
                "--offline.",
            )
        time.sleep(0.1)


def _json(done: Rebuilt) -> dict[str, Any]:
    return {
        "generation": done.generation,
        "records": done.records,
        "seconds": round(done.seconds, 3),
        "equal": done.equal,
        "tables": {name: {"digest": digest, "before": done.live[name]} for name, digest in done.digests.items()},
    }


def _show(done: Rebuilt) -> None:
    out = console()
    for name, digest in done.digests.items():
        before = done.live[name]
        lost = "it was damaged" if name in done.damaged else "it was missing"
        how = "as before" if before == digest else lost if before is None else f"before: {before[:16]}"
        print_line(f"{name}: digest {digest[:16]}, {how}.", out=out)
    rate = done.records / done.seconds if done.seconds else 0.0
    speed = f"{done.records:,} events in {done.seconds:.1f} s ({rate:,.0f} a second)"
    print_line(f"{speed}; generation {done.generation} is live.", out=out)


def _check_json(check: Check) -> dict[str, Any]:
    return {"name": check.name, "ok": check.ok, "said": check.text, "found": list(check.failures)}


def _checks_view(checks: list[Check]) -> Listing:
    return table(
        ["check", "holds", "found"],
        [(check.name, "yes" if check.ok else "NO", "\n".join((check.text, *check.failures))) for check in checks],
    )


def _mends(checks: list[Check]) -> Iterator[str]:
    """What to do about what does not hold, in this order: the index is made from the tables, they from the journal."""
    yield from dict.fromkeys(check.mend for check in checks if check.mend and not check.ok)
    wrong = {check.name for check in checks if not check.ok and not check.mend}
    if "journal-in-kafka" in wrong:
        yield "Find the missing part of the topic; until then keep the lake, which contains what Kafka has lost."
    elif wrong & {"journal-once", "units", "outcomes"}:
        yield "`metajournal rebuild lake --from kafka --accept` rebuilds all tables."
    elif wrong - {"index"}:
        yield "`metajournal rebuild lake --accept` rebuilds the history tables."
    if "index" in wrong:
        yield "`metajournal rebuild index` rebuilds the index from the lake."


REFOLDING: tuple[click.Command, ...] = (verify,)
