"""Every option that takes a time reads the same text as the same instant; so does every argument of the Python API."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner

from metajournal import RunStarted, Settings, dataset, run
from metajournal.cli import main
from metajournal.domains.files.questions import FilesQuestion
from metajournal.domains.files.recording import file_record
from metajournal.domains.lineage.client import LineageClient
from metajournal.domains.lineage.events import ExternalWrite, RunStopped
from metajournal.lake_client import point
from metajournal.producers.options import read_options
from metajournal.schemas.errors import InputError, InvalidEventError, MetajournalError
from metajournal.terminal.options import Options

TEXTS = [
    ("1700000000", 1_700_000_000_000),
    ("1700000000000", 1_700_000_000_000),
    ("1700000000.5", 1_700_000_000_500),
    ("2023-11-14T22:13:20Z", 1_700_000_000_000),
    ("2023-11-14T22:13:20", 1_700_000_000_000),
    ("2023-11-14 23:13:20+01:00", 1_700_000_000_000),
    ("2023-11-14", 1_699_920_000_000),
]
RUN = str(run("w", "App", "spark", "Job", "r1"))
COMMANDS = [
    ("show dataset:a/b --as-at", "as_at"),
    ("lineage dataset:a/b --from", "start"),
    ("lineage dataset:a/b --to", "end"),
    ("lineage dataset:a/b --as-of", "as_of"),
    ("lineage dataset:a/b --as-at", "as_at"),
    (f"run {RUN} --as-of", "as_of"),
    (f"run {RUN} --as-at", "as_at"),
    (f"runs {RUN.replace('run:', 'program:').rpartition('/')[0]} --from", "start"),
    (f"runs {RUN.replace('run:', 'program:').rpartition('/')[0]} --to", "end"),
    ("files --what a --to 2100-01-01 --from", "start"),
    ("files --what a --from 1970-01-01 --to", "end"),
    ("files --work-id w --as-at", "as_at"),
    ("files latest a b --as-at", "as_at"),
    ("tail --since", "since"),
    ("tail --state --since", "since"),
    ("emit TagsAdded dataset:a/b --tag x --event-time", "event_time"),
    ("files record FILE --what a --where b --start", "metadata.start"),
    ("files record FILE --what a --where b --start 2023-11-13 --end", "metadata.end"),
]


class Asked(Exception):  # noqa: N818  (it ends a command at what it asks)
    """What a command asks of its journal."""


class Recorder:
    """Takes every question, and tells what it is asked."""

    settings = Settings()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def asked(*given: Any, **named: Any) -> Any:
            raise Asked((name, given, named))

        return asked


class Asking(Recorder):
    """A journal whose domains are such."""

    files = lineage = Recorder()


def instant_of(argument: str, asked: tuple[str, tuple[Any, ...], dict[str, Any]]) -> int:
    """The instant that a question has in one of its arguments, as the journal would read it."""
    name, given, named = asked
    if name == "record":
        found: Any = getattr(given[0][0].metadata, argument.removeprefix("metadata."))
    elif name == "page" and argument in ("start", "end"):
        found = getattr(FilesQuestion.of(**{key: named[key] for key in ("where", "what", "start", "end")}), argument)
    else:
        found = named[argument] if argument in named else given[-1]
    assert type(found) is int
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(("text", "instant"), TEXTS, ids=[text for text, _ in TEXTS])
@pytest.mark.parametrize(("line", "argument"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_every_option_reads_a_text_as_the_same_instant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, argument: str, text: str, instant: int
) -> None:
    (tmp_path / "log").write_text("x")
    monkeypatch.setattr(Options, "journal", lambda _: Asking())
    words = [str(tmp_path / "log") if word == "FILE" else word for word in line.split()]
    result = CliRunner().invoke(main, [*words, text], standalone_mode=False)
    assert isinstance(result.exception, Asked), result.exception
    assert instant_of(argument, result.exception.args[0]) == instant


def event_time(value: Any) -> int | None:
    asked: dict[str, Any] = {"tenant": None, "actor": None, "expected": None, "cause": None, "event_id": None}
    options, faults = read_options(event_time=value, repeat=False, **asked)
    if faults:
        raise InvalidEventError(faults)
    return options.event_time


class Opened:
    """A journal whose domains tell what they would ask the lake."""

    settings = Settings()

    def opened(self, name: str, opens: Any) -> Recorder:
        return Recorder()


JOURNAL: Any = Opened()


def asked_of_the_lake(field: str) -> Callable[[Any], Any]:
    def asked(value: Any) -> Any:
        window = {"start_ms": {"start": value}, "end_ms": {"start": 0, "end": value}, "as_of": {"as_of": value}}[field]
        with pytest.raises(Asked) as caught:
            LineageClient(JOURNAL).of(dataset("a", "b"), **window)
        _, (_, question), _ = caught.value.args[0]
        return getattr(question, field)

    return asked


METADATA = {"where": "a", "what": "b", "data-version": "0"}
ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "as_at": point,
    "event_time": event_time,
    "lineage start": asked_of_the_lake("start_ms"),
    "lineage end": asked_of_the_lake("end_ms"),
    "as_of": asked_of_the_lake("as_of"),
    "files start": lambda value: FilesQuestion.of(what="a", start=value, end=value).start,
    "file record": lambda value: file_record("file:///a", {**METADATA, "start": value}, content=b"").metadata.start,
    "RunStarted": lambda value: checked(RunStarted(RUN, value)).at,
    "RunStopped": lambda value: checked(RunStopped(RUN, value, "KILLED")).at,
    "ExternalWrite": lambda value: checked(ExternalWrite("stream:a/b", "c", value)).at,
}


def checked(event: Any) -> Any:
    if faults := event.validate():
        raise InvalidEventError(faults)
    return event


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        *TEXTS,
        (1_700_000_000, 1_700_000_000),
        (1_700_000_000_000, 1_700_000_000_000),
        (datetime(2023, 11, 14, 22, 13, 20, 999, tzinfo=UTC), 1_700_000_000_000),
    ],
    ids=str,
)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_every_argument_reads_a_value_as_the_same_instant(argument: str, value: Any, instant: int) -> None:
    assert ARGUMENTS[argument](value) == instant


@pytest.mark.parametrize("value", ["soon", "", datetime(2026, 1, 1), True, float("nan"), float("inf"), 1.5], ids=str)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_every_argument_refuses_what_is_no_time(argument: str, value: Any) -> None:
    with pytest.raises(MetajournalError) as caught:
        ARGUMENTS[argument](value)
    if isinstance(value, str | datetime):
        assert "is not a valid time" in caught.value.message
        assert "1700000000 or 1700000000000" in caught.value.message


@pytest.mark.parametrize("line", [line for line, _ in COMMANDS], ids=str)
def test_every_option_refuses_what_is_no_time_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    (tmp_path / "log").write_text("x")
    monkeypatch.setattr(Options, "journal", lambda _: Asking())
    words = [str(tmp_path / "log") if word == "FILE" else word for word in line.split()]
    result = CliRunner().invoke(main, [*words, "soon", "--json"])
    assert result.exit_code == 2, result.output
    assert "'soon' is not a valid time" in json.loads(result.stdout)["error"]["message"]
    assert "1700000000 or 1700000000000" in json.loads(result.stdout)["error"]["message"]


def test_a_point_too_far_away_is_refused() -> None:
    with pytest.raises(InputError, match="is too far away"):
        point(1 << 53)
