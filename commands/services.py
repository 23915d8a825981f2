"""Commands that run or look at services: `up`, `down`, `status`, `doctor`, `stream`, `index`, `shelve`, `demo`.

Thin: the stack, the stream and the indexer do the work. `stream` and `index` run on, and log to standard error.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import InputError, MissingExtraError
from ..terminal.exits import FINE, PROBLEM
from ..terminal.options import FILLED, Options, json_option, options
from ..terminal.rendering import console, print_json, print_line
from .serving import PACKAGES, print_way_in

if TYPE_CHECKING:
    from ..schemas.positions import Position

_PACKAGES_OF_STREAM = ("pyspark", "delta", "deltalake", "pyarrow", "duckdb", "polars", "pandas", "numpy", "orjson")
WATCH_S = 1.0  # seconds between two looks of `status --watch`


@click.command(short_help="Fold the journal into tables and topics, until stopped.")
@click.option(
    "--master", type=FILLED, metavar="URL",
    help="Spark's master: local[N], or a cluster's URL (default: stream.master).",
)  # fmt: skip
@options
def stream(given: Options, /, master: str | None) -> None:
    """Fold the journal into tables and topics, until stopped by SIGTERM or Ctrl-C."""
    from ..stack.home import only_one
    from ..stack.jars import spark_jars
    from ..stack.java import find_java
    from ..stack.progress import shown

    try:
        from ..streaming.runner import run_stream
    except ModuleNotFoundError as error:
        raise MissingExtraError("stream", "The stream") from error
    find_java()  # Spark's own words for a missing one help nobody
    given.start_logging()
    with only_one(given.home, "stream"):  # two would publish everything twice until one's commit is refused
        with shown() as report:
            jars = spark_jars(report=report)
        run_stream(given.settings, jars, {"spark.master": master} if master else None)


@click.command(short_help="Keep Elasticsearch up to date with the journal, until stopped.")
@options
def index(given: Options, /) -> None:
    """Keep Elasticsearch up to date with the journal, until stopped by SIGTERM or Ctrl-C."""
    from ..indexer.fill.process import run_indexer

    given.start_logging()
    run_indexer(given.settings)


@click.command()
@click.option("--servers", is_flag=True, help="Start Kafka and Elasticsearch alone, for example to restore topics.")
@options
def up(given: Options, /, servers: bool) -> None:
    """Start Kafka, Elasticsearch, stream, indexer and gateway on this machine.

    Data, logs and the settings to reach them are in the folder METAJOURNAL_HOME (default: ~/.metajournal). Another
    folder is another installation; one that is not running may be moved or copied.
    """
    from ..stack import supervisor
    from ..stack.jars import ensure_all
    from ..stack.progress import shown
    from ..terminal.views import status_view

    _check_packages_of_stream()
    with shown() as report:
        ensure_all(report=report)
    if servers:
        supervisor.up(given.home, given.settings, tell=print_line, commands={})
        print_line("The stream and the indexer were not started: `metajournal up` starts them.")
        return
    is_served = all(find_spec(name) is not None for name in PACKAGES)
    commands = supervisor.WITH_GATEWAY if is_served else supervisor.COMMANDS
    settings = given.settings  # as they are before `up` writes what became of them
    run = supervisor.up(given.home, settings, tell=print_line, commands=commands)
    console().print(status_view(_look(given)))
    if is_served:
        _print_other_port(settings.gateway.port, run.components["gateway"].ports[0])
        print_way_in(given.home, run.components["gateway"].endpoint or "")
    print_line("Try: metajournal emit EntityRegistered dataset:default/orders --tag new", "dim")


def _print_other_port(wanted: int, port: int) -> None:
    """Say that the gateway is not where it was to be: in the README's examples its address is another one."""
    if wanted not in (0, port):
        print_line(
            f"Port {wanted} was taken, so the gateway has port {port}. Once it is free: metajournal down, then "
            f"metajournal --set gateway.port={wanted} up."
        )


def _check_packages_of_stream() -> None:
    """Refuse to start anything where the stream could not start; found, not imported: that takes seconds.

    Raises:
        MissingExtraError: one of its packages is not installed.
    """
    if any(find_spec(name) is None for name in _PACKAGES_OF_STREAM):
        raise MissingExtraError("stream", "Starting everything, including the stream,")


@click.command()
@options
def down(given: Options, /) -> None:
    """Stop what `up` has started; the data is kept."""
    from ..stack import supervisor

    ended = supervisor.down(given.home, tell=print_line)
    print_line(f"The data stays in {given.home}." if ended else f"Nothing was running in {given.home}.")


@click.command()
@click.option(
    "--watch",
    is_flag=True,
    help="Refresh every second; if not on a terminal, print one line each time.",
)
@json_option
@options
def status(given: Options, /, watch: bool, as_json: bool) -> int:
    """Show the services, and how fresh each stage is."""
    from ..terminal.views import status_view

    report = _look(given)
    if not watch:
        print_json(report) if as_json else console().print(status_view(report))
        return FINE if report["ok"] else PROBLEM
    return _watch(given, as_json)


def _look(given: Options) -> dict[str, Any]:
    from ..stack.status import status as looked_at
    from ..terminal.views import status_json

    return status_json(looked_at(given.home, given.settings))


def _watch(given: Options, as_json: bool) -> int:
    """Look again and again; Ctrl-C is how that ends."""
    from rich.live import Live

    from ..terminal.views import status_line, status_view

    out = console()
    try:
        with Live(console=out, auto_refresh=False, screen=False) if out.is_terminal else nullcontext() as live:
            while True:
                report = _look(given)
                if as_json:
                    print_json(report)
                elif live is not None:
                    live.update(status_view(report), refresh=True)
                else:
                    out.print(status_line(report), soft_wrap=True)
                time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return FINE


@click.command()
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("position", type=click.IntRange(min=0))
@json_option
@options
def shelve(given: Options, /, topic: str, partition: int, position: int, as_json: bool) -> None:
    """Make the stream skip one record permanently.

    For a record with an unknown schema, which stops the stream; the stream's message names the position. The record
    stays in the journal, is copied to the dead-letter topic, and is also skipped by every rebuild. Start the stream
    again afterwards.
    """
    from ..producers.shelving import shelve as recorded
    from ..schemas.positions import Position

    place = Position(topic, partition, position)
    _refuse_folded(given, place)
    recorded(given.settings, place)
    effect = "It takes effect the next time the stream starts."
    print_json({"ok": True, "shelved": str(place)}) if as_json else print_line(f"shelved {place}. {effect}")


def _refuse_folded(given: Options, place: Position) -> None:
    """Refuse a record that the lake of this installation has judged: its history would be another one."""
    try:
        from ..lake.tables import Lake
    except ModuleNotFoundError as error:
        raise MissingExtraError("lake", "Looking up what the stream has folded") from error
    lake = given.settings.lake
    journal = Lake(lake.path, lake.storage_options).journal
    if journal.exists() and place.value < journal.mark((place.topic, place.partition)):
        raise InputError(
            f"The stream has already evaluated {place}.",
            code="already-folded",
            hint="Only a record at which the stream has stopped can be shelved; the stream's message names the "
            "position.",
        )


@click.command()
@json_option
@options
def doctor(given: Options, /, as_json: bool) -> int:
    """Check everything that is needed, and say how to fix problems."""
    from ..stack.doctor import doctor as examined
    from ..terminal.views import doctor_json, doctor_view

    report = doctor_json(examined(given.settings, given.home))
    print_json(report) if as_json else console().print(doctor_view(report))
    return FINE if report["ok"] else PROBLEM


@click.command(short_help="Try everything in a temporary folder, then stop it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--keep", is_flag=True, help="Leave the services running, and print what to try next.")
@click.option(
    "--git", type=click.Path(path_type=Path), metavar="PATH",
    help="Import the git history of this clone (default: that of this project, if it runs in a clone of it).",
)  # fmt: skip
def demo(as_json: bool, keep: bool, git: Path | None) -> int:
    """Start everything in a temporary folder, publish this Python environment, search it, stop everything."""
    try:
        from .demo import run_demo
    except ModuleNotFoundError as error:
        raise MissingExtraError("all", "The demo") from error
    return run_demo(as_json=as_json, keep=keep, git=git)


SERVICES: tuple[click.Command, ...] = (up, down, status, doctor, stream, index, shelve, demo)
