"""`metajournal ingest`: bring in metadata from databases and other systems, once or repeatedly.

Thin: options become sources, `sources/bringing.py` reads, compares and emits; the output is worded here.
Invariant: a password is never printed; with `--json` each round prints one JSON value; an error of one source ends
neither the others nor later rounds.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..schemas.errors import InputError, MetajournalError, OperatorError
from ..terminal.exits import FINE, PROBLEM, exit_code
from ..terminal.options import SECONDS, Options, json_option, no_options_before, options
from ..terminal.rendering import OutputError, console, many, named, print_error, print_json, print_line, safe
from ..values import error_json
from .journals import journal_of

if TYPE_CHECKING:
    from ..client import Journal
    from ..sources.bringing import Brought, Comparison
    from ..sources.found import Progress
    from ..sources.source import Source

NAMES: Final = 5
"""Maximum number of names shown of what was registered, changed and deleted."""
PLANNED_NAMES: Final = 25
"""The same of a dry run; as JSON it lists all of them."""
_TELL_S: Final = 1.0
_INTERVAL: Final = re.compile(r"(\d+)(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class _Interval(click.ParamType[float]):
    """An interval between runs, `10m`."""

    name = "interval"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = _INTERVAL.fullmatch(value)
        if match is None or not int(match[1]):
            self.fail(f"{value!r} is not an interval: write 30s, 10m, 2h or 1d.", param, ctx)
        return float(int(match[1]) * _SECONDS[match[2]])


_DRY = click.option("--dry-run", "dry", is_flag=True, help="Show what would be brought in, and change nothing.")
_PRUNE = click.option(
    "--prune", is_flag=True, help="Delete also what this source brought in and its options no longer select."
)
_EVERY = click.option(
    "--every", "every_s", type=_Interval(), metavar="TIME", help="Repeat at this interval: 30s, 10m, 2h, 1d."
)
_TIMEOUT = click.option(
    "--timeout", "timeout_s", type=SECONDS, default=120.0, show_default=True, metavar="SECONDS",
    help="How long to wait for the lake.",
)  # fmt: skip
_ID = click.option("--id", "source_id", metavar="NAME", help="Name of the source; use the same one in every run.")


def _source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that brings in one source, besides the source's own."""
    for option in (options, json_option, _TIMEOUT, _EVERY, _PRUNE, _DRY, _ID):
        command = option(command)
    return command


@click.group(invoke_without_command=True, short_help="Bring in metadata from databases and other systems.")
@click.option("--recipe", "file", type=click.Path(path_type=Path), metavar="FILE", help="A TOML file with sources.")
@_DRY
@_PRUNE
@_EVERY
@_TIMEOUT
@json_option
@options
@click.pass_context
def ingest(
    context: click.Context, /, given: Options, file: Path | None, dry: bool, prune: bool, every_s: float | None,
    timeout_s: float, as_json: bool,
) -> int | None:  # fmt: skip
    """Bring in metadata from other systems: register what is new, update what changed, delete what is gone.

    What people added stays. Only entities that the same source brought in are deleted, and only if everything could be
    read. A second run without a change emits nothing; a killed run is completed by running it again.

    \b
    metajournal ingest databases postgresql://reader@db.acme/shop --dry-run
    metajournal ingest --recipe sources.toml --every 10m
    """
    from ..sources.recipes import sources_of

    if context.invoked_subcommand is not None:
        if file is not None:
            raise click.UsageError("--recipe takes no source.")
        no_options_before(context)
        return None
    if file is None:
        raise click.UsageError("Name a source, or --recipe FILE.")
    sources = sources_of(file, os.environ)
    return _rounds(given, sources, _Rounds(dry, prune, every_s, timeout_s, as_json, many=True))


@ingest.command("databases", short_help="Schemas, tables, views, columns, comments and keys of a database.")
@click.argument("url", metavar="URL")
@click.option("--schema", "schemas", metavar="PATTERN", multiple=True, help="Only this schema; may be repeated.")
@click.option("--exclude", metavar="PATTERN", multiple=True, help="Omit this schema, or schema.table; may be repeated.")
@click.option("--namespace", metavar="NAME", help="The server's name in lineage, like postgres://db.acme:5432.")
@_source_options
def databases(given: Options, /, **asked: Any) -> int:
    """Schemas, tables and views with columns, comments and keys, and the lineage of views.

    URL is a SQLAlchemy URL; install its driver yourself. ${NAME} in it stands for an environment variable.

    \b
    metajournal ingest databases 'postgresql://reader:${PASSWORD}@db.acme/shop' --exclude '*.tmp_*'
    metajournal ingest databases duckdb:////data/shop.duckdb --every 10m
    """
    return _one("databases", given, asked)


@ingest.command("dbt", short_help="Models, sources, tests and runs of a dbt project.")
@click.argument("target_dir", metavar="TARGET_DIR")
@click.option("--namespace", metavar="NAME", help="The database's name in lineage, like postgres://db.acme:5432.")
@click.option("--profiles", metavar="FILE", help="profiles.yml, if it is not where dbt looks for it.")
@click.option(
    "--target", metavar="NAME", help="Output of the profile. Default: that of the last run, or the profile's default."
)
@_source_options
def dbt(given: Options, /, **asked: Any) -> int:
    """Models, seeds, snapshots, sources and exposures with columns, owners, tags and tests, and the lineage of runs.

    TARGET_DIR is where dbt writes manifest.json; catalog.json and run_results.json are read too if they exist.

    \b
    metajournal ingest dbt target
    metajournal ingest dbt target --namespace postgres://db.acme:5432 --dry-run
    """
    return _one("dbt", given, asked)


@ingest.command("kafka", short_help="Topics of a Kafka cluster, their settings and schemas.")
@click.argument("bootstrap", metavar="BOOTSTRAP")
@click.option("--registry", metavar="URL", help="A schema registry that speaks Confluent's API.")
@click.option("--topic", "topics", metavar="PATTERN", multiple=True, help="Only this topic; may be repeated.")
@click.option("--exclude", metavar="PATTERN", multiple=True, help="Omit this topic; may be repeated.")
@click.option(
    "--setting", "settings", metavar="KEY=VALUE", multiple=True,
    help="A setting of the client, named as librdkafka does; may be repeated.",
)  # fmt: skip
@click.option("--own-topics", is_flag=True, help="Include the topics of metajournal itself.")
@click.option("--namespace", metavar="NAME", help="The cluster's name in lineage, like kafka://broker.acme:9092.")
@_source_options
def kafka(given: Options, /, **asked: Any) -> int:
    """Topics with partitions, replication, the settings that were changed, and the schemas of their records.

    BOOTSTRAP is host:port, several separated by commas; the first one names the cluster. ${NAME} stands for an
    environment variable. Kafka's internal topics and those of metajournal are omitted.

    \b
    metajournal ingest kafka broker.acme:9092 --registry http://registry.acme:8081
    metajournal ingest kafka broker.acme:9093 --setting security.protocol=SASL_SSL --setting sasl.mechanism=PLAIN \\
      --setting sasl.username=reader --setting 'sasl.password=${PASSWORD}'
    """
    return _one("kafka", given, asked)


@ingest.command("lakehouse", short_help="Delta, Iceberg, Parquet and CSV tables of a folder or an object store.")
@click.argument("path", metavar="PATH")
@click.option("--exclude", metavar="PATTERN", multiple=True, help="Omit this path below PATH; may be repeated.")
@click.option(
    "--storage", metavar="KEY=VALUE", multiple=True,
    help="An option of the object store, named as delta-rs does; may be repeated.",
)  # fmt: skip
@click.option("--namespace", metavar="NAME", help="The store's name in lineage, if it has another one there.")
@_source_options
def lakehouse(given: Options, /, **asked: Any) -> int:
    """Delta, Iceberg, Parquet and CSV tables with columns, partitions, rows, size and last change.

    PATH is a folder of this machine, or s3://bucket/folder, gs://… or abfss://…; keys are taken from the environment,
    as other programs do. Of Parquet the footers are read, of CSV the first lines. ${NAME} stands for a variable.

    \b
    metajournal ingest lakehouse /data/lake --dry-run
    metajournal ingest lakehouse s3://acme-lake/silver --storage aws_region=eu-central-1
    """
    return _one("lakehouse", given, asked)


@ingest.command("openlineage", short_help="Datasets, jobs and runs from files of OpenLineage events.")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option(
    "--register/--no-register", default=True, show_default=True, help="Register datasets and jobs, not only their runs."
)
@_source_options
def openlineage(given: Options, /, **asked: Any) -> int:
    """Datasets and jobs with schema, documentation, owners, tags and data source, and the lineage of runs.

    FILES contain run, dataset and job events, as JSON lines or one JSON array. Nothing is deleted.

    \b
    metajournal ingest openlineage events/*.jsonl
    """
    return _one("openlineage", given, asked)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """How sources are brought in.

    Attributes:
        many: JSON is a list of each source's result, even for a single one.
    """

    dry: bool
    prune: bool
    every_s: float | None
    timeout_s: float
    as_json: bool
    many: bool = False


def _one(kind: str, given: Options, asked: dict[str, Any]) -> int:
    """Bring in one source. Args: asked: the common options, and the source's own."""
    from ..sources.recipes import source_of

    how = _Rounds(**{name: asked.pop(name) for name in ("dry", "prune", "every_s", "timeout_s", "as_json")})
    source_id = asked.pop("source_id")
    source = source_of(kind, asked, os.environ, source_id)
    return _rounds(given, [source], how)


def _rounds(given: Options, sources: Sequence[Source], how: _Rounds) -> int:
    ids = [source.identity.id for source in sources]
    if len({*ids}) < len(ids):
        raise InputError("Two sources have the same id.", code="bad-recipe", hint="Give each its own id.")
    with journal_of(given) as journal:
        if how.every_s is None:
            return _round(journal, sources, how)
        with _stoppable() as stopped:
            try:
                while not stopped(0.0):
                    began = time.monotonic()
                    _round(journal, sources, how)
                    if stopped(max(0.0, began + how.every_s - time.monotonic())):
                        break
            except KeyboardInterrupt:  # in the middle of a run: the next one completes it
                pass
        return FINE


@contextmanager
def _stoppable() -> Iterator[Callable[[float], bool]]:
    """A wait that SIGTERM and Ctrl-C end; they interrupt a run at once."""
    waiting, asked = threading.Event(), threading.Event()
    idle = False

    def stop(_number: int, _frame: object) -> None:
        asked.set()
        waiting.set()
        if not idle:
            raise KeyboardInterrupt

    def wait(seconds: float) -> bool:
        nonlocal idle
        idle = True
        waiting.wait(seconds)
        idle = False
        return asked.is_set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _round(journal: Journal, sources: Sequence[Source], how: _Rounds) -> int:
    """Run each source once; returns the exit code of the first that failed."""
    code, answers = FINE, []
    for source in sources:
        try:
            answer = _brought(journal, source, how)
        except (BrokenPipeError, OutputError, click.Abort):
            raise
        except Exception as failed:
            if (not how.many and how.every_s is None) or os.environ.get("METAJOURNAL_TRACE") == "1":
                raise
            error = failed if isinstance(failed, MetajournalError) else _unforeseen(failed)
            code = code or exit_code(error)
            answers.append(
                {"source": source.identity.id, **error_json(error.code, error.message, error.hint, error.data)}
            )
            if not how.as_json:
                print_error(error.code, f"{source.identity.id}: {error.message}", error.hint, as_json=False)
            continue
        code = code or (FINE if answer["ok"] else PROBLEM)
        answers.append(answer)
        if not how.as_json:
            _show(answer)
    if how.as_json:
        whole = {"ok": all(answer["ok"] for answer in answers), "sources": answers}
        print_json(whole if how.many else answers[0])
    return code


def _unforeseen(failed: Exception) -> MetajournalError:
    """The error of one source that is a fault of ours: the others and later rounds go on. Its text may hold secrets."""
    return OperatorError(
        f"{type(failed).__name__}.", code="internal",
        hint="This is a bug in metajournal: please report it with the output of METAJOURNAL_TRACE=1.",
    )  # fmt: skip


def _brought(journal: Journal, source: Source, how: _Rounds) -> dict[str, Any]:
    from ..sources.bringing import Bringing, Brought

    began = time.monotonic()
    lines = _Lines(source.identity.id, silent=how.as_json)
    bringing = Bringing(journal, source, lines.tell, timeout_s=how.timeout_s, prune=how.prune)
    comparison = bringing.compare(dry=how.dry)
    brought = Brought() if how.dry else bringing.bring(comparison)
    lines.end()
    return _json(source, comparison, brought, how.dry, time.monotonic() - began)


def _json(source: Source, comparison: Comparison, brought: Brought, dry: bool, seconds: float) -> dict[str, Any]:
    from ..sources.plan import Change

    changes = {str(change): [str(urn) for urn in comparison.plan.of(change)] for change in Change}
    most = None if dry else NAMES
    return {
        "ok": not comparison.problems and not brought.refused,
        "source": source.identity.id,
        "kind": source.identity.kind,
        "dry_run": dry,
        "found": comparison.entities,
        **{word: {"count": len(urns), "first": urns[:most]} for word, urns in changes.items()},
        "unchanged": comparison.plan.unchanged,
        "runs": comparison.runs,
        "kept": comparison.plan.kept if source.lists_all else 0,
        "unselected": comparison.plan.unselected if source.lists_all else 0,
        "other_sources": dict(comparison.others),
        "problems": [{"what": problem.what, "why": problem.why} for problem in comparison.problems],
        "refused": [{"entity": entity, "why": why} for entity, why in brought.refused],
        "events": brought.events,
        "run": None if brought.run is None else str(brought.run),
        "seconds": round(seconds, 3),
    }


def _show(answer: dict[str, Any]) -> None:
    """Print what a run did, or would do."""
    from ..sources.plan import Change

    out = console()
    line = ", ".join(f"{answer[word]['count']:,} {word}" for word in Change if answer[word]["count"])
    would = "would be: " if answer["dry_run"] else ""
    line += f"{', ' if line else ''}{many(answer['runs'], 'run')}" if answer["runs"] else ""
    same = f"{answer['unchanged']:,} unchanged"
    print_line(
        safe(f"{answer['source']}: {would}{f'{line}, ' if line else ''}{same} ({answer['seconds']:.1f} s)"), out=out
    )
    for word in Change:
        urns = answer[word]["first"][:PLANNED_NAMES]
        for urn in urns:
            print_line(f"  {word}: {urn}", out=out)
        if more := answer[word]["count"] - len(urns):
            hint = " (--json lists them all)" if answer["dry_run"] else ""
            print_line(f"  {word}: … and {more:,} more{hint}", out=out)
    if answer[Change.RELEASE]["count"]:
        print_line(
            "  Released: what this source added is removed; the entity stays, since somebody else registered or "
            "describes it.",
            out=out,
        )
    if answer["unselected"]:
        print_line(
            f"  {answer['unselected']:,} entities that were brought in before and are no longer selected were kept; "
            "--prune deletes them.",
            out=out,
        )
    for other, count in answer["other_sources"].items():
        print_line(
            safe(f"  {count:,} of these were brought in by the source {other}: to continue it, add --id {other}"),
            out=out,
        )
    for problem in answer["problems"]:
        print_line(f"  not read: {named(problem['what'])}: {safe(problem['why'], one_line=True)}", out=out)
    if answer["problems"] and answer["kept"]:
        print_line(
            f"  Not everything could be read, so nothing was deleted; {answer['kept']:,} entities not found were kept.",
            out=out,
        )
    elif answer["problems"]:
        print_line("  Not everything could be read.", out=out)
    for refused in answer["refused"]:
        print_line(f"  refused: {named(refused['entity'])}: {safe(refused['why'], one_line=True)}", out=out)


class _Lines:
    """Progress on standard error: a line per second, and one for the beginning and the end of each step."""

    def __init__(self, source: str, *, silent: bool) -> None:
        self._source = source
        self._out = None if silent else console(stderr=True)
        self._printed_s = 0.0
        self._doing = ""
        self._held_back: Progress | None = None

    def tell(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.doing == self._doing and now - self._printed_s < _TELL_S:
            self._held_back = progress
            return
        if progress.doing != self._doing:
            self.end()
        self._held_back, self._printed_s, self._doing = None, now, progress.doing
        self._print(progress)

    def end(self) -> None:
        """Print where the step ended, unless that was printed."""
        if self._held_back is not None:
            self._print(self._held_back)
            self._held_back = None

    def _print(self, progress: Progress) -> None:
        if self._out is None:
            return
        of = "" if progress.of is None else f" of {progress.of:,}"
        count = f": {progress.done:,}{of}" if progress.done or progress.of else ""
        print_line(named(f"{self._source}: {progress.doing}{count}"), out=self._out)


INGESTING: tuple[click.Command, ...] = (ingest,)
