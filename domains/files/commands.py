"""`metajournal files`: find archived files, show the newest of a program, record files.

Left to whom: `recording.py` makes records of files and sends them, the lake answers the queries; here options become
values and answers become tables. A table and its `--json` come from the same value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ...schemas.errors import FilesQueryError, InputError, OutcomeUnknownError, PositionExpired, UnavailableError
from ...terminal.exits import FINE, PROBLEM
from ...terminal.inputs import standard_input
from ...terminal.options import Options, json_option, no_options_before, options
from ...terminal.rendering import (
    NOT_FINAL,
    console,
    fields,
    note,
    print_json,
    print_line,
    shortened,
    table,
    time_text,
    verdict,
)

if TYPE_CHECKING:
    from rich.text import Text

    from ...lake_client import ConnectedJournal
    from ...producers.receipts import Receipt
    from ...terminal.listing import Listing, Pairs
    from .client import FilesClient, WithFiles
    from .events import FileRecord

_LATEST_MS = 253_402_300_799_999  # the year 9999: nothing later has a form that people write
_PROGRESS_EVERY = 50_000
_OPTIONS = {"start": "--from", "end": "--to", "work_id": "--work-id", "where": "--where", "what": "--what"}
_QUOTING = re.compile(r"""(, not |: (?=['"]))""")
_ARGUMENT = re.compile(rf"\b({'|'.join(_OPTIONS)})\b")
_SHOWN = ("where", "what", "data-version", "id", "hash", "work_id", "path")


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND [ARGS]...]")
@click.option("--what", metavar="NAME", help="Only files of this program.")
@click.option("--where", metavar="NAME", help="Only files of this server.")
@click.option("--from", "start", metavar="TIME", help="Only files that cover any time from here on, inclusive.")
@click.option("--to", "end", metavar="TIME", help="Only files that cover any time up to here, inclusive.")
@click.option("--work-id", metavar="ID", help="Files with this work_id, instead of a time range.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Maximum number of files.",
)
@click.option("--cursor", metavar="TEXT", help="Continue where an earlier answer ended.")
@click.option(
    "--as-at", metavar="POSITIONS|TIME", help="What the journal had recorded by then (system time), instead of now."
)
@json_option
@click.pass_context
def files(
    context: click.Context,
    /,
    limit: int,
    cursor: str | None,
    as_at: str | None,
    as_json: bool,
    **asked: str | None,
) -> None:
    """Find archived files by time or by work_id, of one program and server or of all.

    Give either both --from and --to, or --work-id; --what and --where narrow the result. TIME is ISO 8601, seconds or
    milliseconds since 1970.

    \b
    metajournal files --what syslog --where webserver02 --from 2026-01-01 --to 2026-01-31T23:59:59Z
    metajournal files --work-id job-4711
    metajournal files latest syslog webserver02
    metajournal files record /var/log/syslog.1 --what syslog --where webserver02
    """
    if context.invoked_subcommand is not None:
        no_options_before(context)
        return
    from ...values import point
    from .values import page_json

    _check_asked(asked)
    as_at_point = None if as_at is None else point(as_at)
    with context.ensure_object(Options).journal() as journal:
        page = _files(journal).page(**asked, limit=limit, cursor=cursor, as_at=as_at_point)
    shown = page_json(page)
    if as_json:
        print_json(shown)
        return
    console().print(_page_view(shown), crop=False) if shown["files"] else print_line("no files")
    if page.cursor is not None:
        print_line(f"more: --cursor {page.cursor}", "dim")
    if as_at_point is not None and not page.final:
        note(NOT_FINAL)


def _files(journal: ConnectedJournal) -> FilesClient:
    return cast("WithFiles", journal).files


def _check_asked(asked: Mapping[str, str | None]) -> None:
    """Refuse what cannot be asked before anything is connected to, in the words of the options.

    Raises:
        FilesQueryError: as `FilesQuestion.of`.
    """
    from .questions import FilesQuestion

    try:
        FilesQuestion.of(**asked)
    except FilesQueryError as error:
        raise FilesQueryError(_in_options(error.message), code=error.code, hint=_in_options(error.hint)) from None


def _in_options(sentence: str) -> str:
    """A sentence about arguments with the options for them; what it quotes of a value stays."""
    unquoted, *quoted = _QUOTING.split(sentence, 1)
    return "".join([_ARGUMENT.sub(lambda match: _OPTIONS[match[0]], unquoted), *quoted])


@files.command()
@click.argument("what")
@click.argument("where")
@click.option(
    "--as-at", metavar="POSITIONS|TIME", help="What the journal had recorded by then (system time), instead of now."
)
@json_option
@options
def latest(given: Options, /, what: str, where: str, as_at: str | None, as_json: bool) -> int:
    """Show the newest file of a program on a server: by start, then creation time, then id."""
    from ...values import point
    from .values import file_json

    as_at_point = None if as_at is None else point(as_at)
    with given.journal() as journal:
        page = _files(journal).latest_page(what, where, as_at=as_at_point)
    shown = file_json(page.files[0]) if page.files else None
    if as_json:
        print_json(shown if shown is None or as_at_point is None else {**shown, "final": page.final})
    else:
        print_line("no file is recorded") if shown is None else console().print(_file_view(shown))
    if as_at_point is not None and not page.final and (shown is None or not as_json):
        note(NOT_FINAL)
    return PROBLEM if shown is None else FINE


@files.command()
@click.argument("paths", metavar="FILE...|-", nargs=-1, required=True)
@click.option("--what", metavar="NAME", help="The program that made the files.")
@click.option("--where", metavar="NAME", help="The server that they come from.")
@click.option(
    "--start", metavar="TIME", help="Time of the first event in each file (default: when it was last written)."
)
@click.option("--end", metavar="TIME", help="Time of the last event in each file (default: the same as --start).")
@click.option(
    "--id",
    "file_id",
    metavar="ID",
    help="Id of the (single) file: recorded again with the same id, it replaces the earlier record; without it, it "
    "is a new file.",
)
@click.option("--data-version", default="0", show_default=True, metavar="TEXT", help="Version of the data's format.")
@click.option("--work-id", metavar="ID", help="Id of the work that they belong to.")
@click.option(
    "--url", metavar="PREFIX", help="What precedes the file's name in its url (default: file:// and its folder)."
)
@click.option("--actor", metavar="NAME", help="Who is making the change.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the outcomes, only until Kafka has stored the events.")
@json_option
@options
def record(
    given: Options,
    /,
    paths: tuple[str, ...],
    actor: str | None,
    no_wait: bool,
    as_json: bool,
    **file_options: str | None,
) -> int:
    """Record files by their paths: hashes and sizes are computed here, the files stay where they are.

    With -, the files are read as JSON lines from standard input, `{"url": …, "metadata": {…}, "size"?, "created"?}`
    each. All lines are read and checked before the first file is sent: if one is wrong, none is recorded. A file
    without an id gets a new one, and so is a new file each time it is recorded; the result shows the id.

    \b
    metajournal files record /var/log/syslog.1 --what syslog --where webserver02 --start 2026-01-31
    metajournal files record - < files.jsonl
    """
    from .recording import checked_files

    if paths == ("-",):
        if any(value is not None for name, value in file_options.items() if name != "data_version"):
            raise click.UsageError("With -, everything is in the JSON lines; omit the other options.")
        made: Iterable[Any] = _lines(standard_input())
    elif "-" in paths:
        raise click.UsageError("Give paths, or - alone.")
    else:
        if not file_options["what"] or not file_options["where"]:
            raise click.UsageError("Name the program and the server of the files: --what and --where.")
        if file_options["file_id"] is not None and len(paths) > 1:
            raise click.UsageError("An id belongs to one file: give one path with --id.")
        made = [_of_path(path, file_options) for path in paths]
    records = checked_files(made)
    if not records:
        return _none_found(as_json)
    with given.journal() as journal:
        about: dict[str, Any] = {} if actor is None else {"actor": actor}
        receipts = _files(journal).record(records, progress=_progress_to(console(stderr=True)), **about)
        fine = True
        for result in _results(records, receipts, wait=not no_wait):
            print_json(result) if as_json else console().print(_result_line(result), soft_wrap=True)
            fine = fine and result["ok"]
    return FINE if fine else PROBLEM


def _none_found(as_json: bool) -> int:
    """What is told where there is no file to record."""
    if as_json:
        print_json({"ok": True, "files": 0})
    else:
        note("Standard input contained no file, so nothing was recorded.")
    return FINE


def _of_path(path: str, file_options: Mapping[str, str | None]) -> Any:
    """The record of one local file."""
    from .recording import file_record

    local_path = Path(path)
    try:
        written = local_path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", code="unreadable-file") from error
    whole = local_path.resolve()
    metadata = {
        "start": written if file_options["start"] is None else file_options["start"],
        "end": file_options["end"],
        "where": file_options["where"],
        "what": file_options["what"],
        "data-version": file_options["data_version"],
        "id": file_options["file_id"],
        "work_id": file_options["work_id"],
        "path": str(whole),
    }
    url = whole.as_uri() if file_options["url"] is None else f"{file_options['url']}{local_path.name}"
    return file_record(url, metadata, content=local_path, created=written)


def _lines(lines: Iterable[str]) -> Iterator[Any]:
    from ...values import json_lines

    return (value for _, value in json_lines(lines, '{"url": …, "metadata": {…}}'))


def _progress_to(out: Any) -> Any:
    """Progress on standard error, a line every now and then."""
    last = 0

    def tell(count: int) -> None:
        nonlocal last
        if count - last >= _PROGRESS_EVERY:
            last = count
            out.print(f"{count:,} files are in the journal")

    return tell


def _results(records: list[FileRecord], receipts: list[Receipt], *, wait: bool) -> Iterator[dict[str, Any]]:
    """The result of each event, as soon as it is known; after one that was waited for in vain, none is waited for."""
    from ...values import error_json, outcome_json
    from .recording import file_events

    wait_s: float | None = None
    for event, receipt in zip(file_events(records), receipts, strict=True):
        result: dict[str, Any] = {"ok": True, "event_id": receipt.event_id, "position": str(receipt.position)}
        result["files"] = [{"id": file.metadata.id, "url": file.url} for file in event.files]
        try:
            if wait:
                result |= outcome_json(receipt.outcome() if wait_s is None else receipt.outcome(wait_s))
                result["ok"] = result.get("original", result)["outcome"] not in ("rejected", "shelved")
        except (UnavailableError, OutcomeUnknownError, PositionExpired) as error:
            wait_s = 0.0
            result |= error_json(error.code, error.message, error.hint, error.data)
        yield result


def _result_line(result: Mapping[str, Any]) -> Text:
    from rich.text import Text

    word = "unknown" if "error" in result else str(result.get("outcome", "acknowledged"))
    text = Text.assemble(verdict(word), f"  {result['position']}")
    first, *others = result["files"]
    text.append(f"  {len(others) + 1:,} files" if others else f"  id {shortened(first['id'], 100)}")
    if "reason" in result:
        text.append(f"  {result['reason']}: {shortened(result.get('detail'), 160)}")
    if "error" in result:
        text.append(f"  {result['error']['code']}: {shortened(result['error']['message'], 200)}")
    return text


def _page_view(shown: Mapping[str, Any]) -> Listing:
    columns = ["start", "end", "where", "what", "work_id", "size", "url"]
    rows = [
        (
            _when(file["metadata"]["start"]),
            _when(file["metadata"]["end"]),
            file["metadata"]["where"],
            file["metadata"]["what"],
            file["metadata"]["work_id"] or "-",
            "-" if file["size"] is None else f"{file['size']:,}",
            shortened(file["url"], 100),
        )
        for file in shown["files"]
    ]
    return table(columns, rows, right=["size"])


def _file_view(file: Mapping[str, Any]) -> Pairs:
    metadata = file["metadata"]
    named = {name: metadata[name] for name in _SHOWN if metadata.get(name) is not None}
    times = {"start": _when(metadata["start"]), "end": _when(metadata["end"]), "created": _when(file["created"])}
    return fields({"file": file["file"], "url": file["url"], **times, **named, "size": file["size"] or "-"})


def _when(time_ms: int | None) -> str:
    """A time for people; one that no calendar has as its number."""
    return time_text(time_ms) if time_ms is None or -62_135_596_800_000 <= time_ms <= _LATEST_MS else str(time_ms)


COMMANDS: tuple[click.Command, ...] = (files,)
