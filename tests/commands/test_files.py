"""Files on the command line: usage without services, and the whole way on a running installation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from metajournal import Journal, TagsAdded
from metajournal.cli import main
from metajournal.commands.tailing import file_changed
from metajournal.domains.files.events import FileRecord
from metajournal.domains.files.queries import FilesPage
from metajournal.domains.files.recording import content_hash, file_events
from metajournal.domains.files.rows import FileRecordRow
from metajournal.producers.verdicts import Accepted
from metajournal.schemas.errors import OutcomeUnknownError
from metajournal.schemas.positions import Position
from metajournal.terminal.options import Options
from tests.archive import document
from tests.commands.test_on_services import said
from tests.installation import Installation


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), "no-arguments"),
        (("--what", "a"), "no-arguments"),
        (("--from", "2026-01-01"), "one-time-only"),
        (("--from", "2026-01-02", "--to", "2026-01-01"), "start-after-end"),
        (("--from", "noon", "--to", "2026-01-01"), "unreadable-time"),
        (("--work-id", "w", "--to", "2026-01-01"), "work-id-with-times"),
        (("--what", "a", "latest", "a", "b"), "usage"),
        (("--limit", "0", "--work-id", "w"), "usage"),
        (("latest", "a"), "usage"),
        (("record",), "usage"),
        (("record", "x"), "usage"),
        (("record", "x", "-"), "usage"),
        (("record", "x", "y", "--what", "a", "--where", "b", "--id", "i"), "usage"),
        (("record", "-", "--id", "i"), "usage"),
        (("record", "-", "--what", "a"), "usage"),
        (("record", "/nowhere/at/all", "--what", "a", "--where", "b"), "unreadable-file"),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_is_connected_to(words: tuple[str, ...], code: str) -> None:
    result = run("files", *words, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--where", "web01"), "Give either a --work-id, or both --from and --to."),
        (("--from", "2026-01-01"), "Times need both --from and --to; --to is missing."),
        (
            ("--from", "2026-01-02", "--to", "2026-01-01"),
            "--from (2026-01-02T00:00:00Z) is after --to (2026-01-01T00:00:00Z).",
        ),
        (
            ("--from", "the end", "--to", "1"),
            "--from: 'the end' is not a valid time (ISO 8601, seconds or milliseconds since 1970), for example"
            " 2026-11-23T10:00:00Z, 1700000000 or 1700000000000.",
        ),
        (("--what", "", "--work-id", "w"), "--what must be text, not ''."),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_in_the_words_of_the_options(words: tuple[str, ...], said: str) -> None:
    error = json.loads(run("files", *words, "--json").stdout)["error"]
    assert error["message"] == said
    assert not re.search(r"\b(?<!-)(start|end|work_id)\b", error["hint"])


def test_reversed_times_are_told_which_must_come_first() -> None:
    told = run("files", "--from", "2026-01-02", "--to", "2026-01-01").stderr
    assert "next: Correct the times: --to must not be before --from." in told


GOOD = json.dumps({"url": "s3://a/b", "metadata": document()})


@pytest.mark.parametrize(
    ("last", "code", "words"),
    [
        ("{", "bad-input", "Line 1201 is not JSON"),
        ('{"url": 7, "metadata": {}}', "invalid-event", "files[1200].url"),
    ],
)
def test_one_wrong_line_and_no_file_of_any_is_recorded(last: str, code: str, words: str) -> None:
    """A journal is not even connected to: here there is none, and the answer is about the line."""
    lines = "\n".join([GOOD] * 1200 + [last])
    nobody = ("--set", "kafka.bootstrap.servers=127.0.0.1:1")
    result = CliRunner().invoke(main, [*nobody, "files", "record", "-", "--json"], input=lines)
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (2, code)
    assert words in error["message"]


def test_no_line_is_an_empty_result() -> None:
    result = CliRunner().invoke(main, ["files", "record", "-", "--json"], input="\n")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"ok": True, "files": 0})
    assert "nothing was recorded" in CliRunner().invoke(main, ["files", "record", "-"], input="").stderr


ROW = FileRecordRow(
    "default", "file:b/a/f1", 1, "file:b/a/f1", 1, 0, 0, 0, "id", None, False, "b", "a", "f1", 1, 0, None, None, None,
    "w", False, 0, "s3://a/b", "1:a", "w:a", "b:f1", document(where="b", what="a", work_id="w"),
)  # fmt: skip


class _NotOver:
    """A journal whose answers as at a time are not final."""

    def __init__(self, *files: FileRecordRow) -> None:
        self.files = self
        self.rows = files

    def __enter__(self) -> _NotOver:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def page(self, **_: Any) -> FilesPage:
        return FilesPage(self.rows, None, {}, final=False)

    def latest_page(self, what: str, where: str, **_: Any) -> FilesPage:
        return self.page()


@pytest.mark.parametrize("words", [("--work-id", "w"), ("latest", "a", "b")])
@pytest.mark.parametrize("rows", [(), (ROW,)])
def test_files_as_at_a_time_that_is_not_over_say_so(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], rows: tuple[FileRecordRow, ...]
) -> None:
    monkeypatch.setattr(Options, "journal", lambda _: _NotOver(*rows))
    as_at = ("--as-at", "2026-01-01")
    note = "note: This is not final: the lake has not seen a later event there yet, so an earlier one may still arrive."
    assert run("files", *words, *as_at).stderr.splitlines() == [note]
    assert run("files", *words).stderr == ""
    told = run("files", *words, *as_at, "--json")
    shown = json.loads(told.stdout)
    assert (shown is None or shown["final"] is False, told.stderr) == (True, f"{note}\n" if shown is None else "")


class _Stored:
    """The receipt of an event whose verdict comes late, or at once."""

    def __init__(self, position: Position, waits: list[float | None], *, late: bool) -> None:
        self.event_id = "019aa3a1-5b7c-7def-8123-456789abcdef"
        self.position = position
        self._waits = waits
        self._late = late

    def outcome(self, timeout_s: float | None = None) -> Accepted:
        self._waits.append(timeout_s)
        if self._late:
            raise OutcomeUnknownError("No verdict within 30 s.")
        return Accepted(self.position)


class _Recording(_NotOver):
    """A journal that takes files; the first event's verdict is late."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def record(self, files: list[FileRecord], **_: Any) -> list[_Stored]:
        places = [Position("journal.catalog", 0, at) for at, _ in enumerate(file_events(files))]
        return [_Stored(place, self.waits, late=place.value == 0) for place in places]


def test_a_late_verdict_hides_no_result_and_each_names_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that were assigned are known by nobody else; what was waited for in vain is not waited for once more."""
    journal = _Recording()
    monkeypatch.setattr(Options, "journal", lambda _: journal)
    lines = [{"url": f"s3://a/{where}", "metadata": document(where=where, id=None)} for where in ("x", "x", "y")]
    given = "\n".join(map(json.dumps, lines))
    result = CliRunner().invoke(main, ["files", "record", "-", "--json"], input=given)
    late, known = map(json.loads, result.stdout.splitlines())
    assert (result.exit_code, late["ok"], late["error"]["code"]) == (1, False, "outcome-unknown")
    assert (known["ok"], known["outcome"], journal.waits) == (True, "accepted", [None, 0.0])
    assert [[file["url"] for file in one["files"]] for one in (late, known)] == [["s3://a/x"] * 2, ["s3://a/y"]]
    assert len({file["id"] for one in (late, known) for file in one["files"]}) == 3
    shown = CliRunner().invoke(main, ["files", "record", "-"], input=given).stdout.splitlines()
    assert shown[0] == "unknown  journal.catalog/0/0  2 files  outcome-unknown: No verdict within 30 s."
    assert re.fullmatch(r"accepted  journal\.catalog/0/1  id [0-9a-f]{32}", shown[1])


@pytest.mark.services
def test_a_file_that_is_recorded_again_with_its_id_replaces_the_earlier_record(
    installation: Installation, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    about = ("--what", "again", "--where", "cli-3", "--work-id", "again-job", "--start", "2026-01-31", "--id", "only")
    for text in ("first", "longer than the first"):
        path.write_text(text)
        assert said(installation, "files", "record", str(path), *about)["outcome"] == "accepted"
    page = said(installation, "files", "--work-id", "again-job")
    assert [(one["file"], one["size"]) for one in page["files"]] == [("file:cli-3/again/only", 21)]


@pytest.mark.services
def test_files_are_recorded_found_and_told_of(installation: Installation, tmp_path: Path) -> None:
    """By the command line and by the client, which see the same."""
    paths = [tmp_path / "a.log", tmp_path / "b c.log"]
    for path in paths:
        path.write_text(f"content of {path.name}")
    about = ("--what", "syslog", "--where", "cli-1", "--actor", "alice", "--work-id", "cli-job")
    times = ("--start", "2026-01-31T10:00:00Z", "--end", "2026-02-01T10:00:00Z")
    recorded = said(installation, "files", "record", *map(str, paths), *about, *times)
    assert (recorded["ok"], recorded["outcome"]) == (True, "accepted")
    assert [file["url"] for file in recorded["files"]] == [path.resolve().as_uri() for path in paths]
    asked = ("--where", "cli-1", "--from", "2026-02-01", "--to", "2026-02-01T10:00:00Z")
    page = said(installation, "files", *asked)
    assert page["cursor"] is None
    by_path = {one["metadata"]["path"]: one for one in page["files"]}
    assert by_path.keys() == {str(path.resolve()) for path in paths}
    one = by_path[str(paths[0].resolve())]
    assert (one["metadata"]["hash"], one["size"], one["actor"]) == (content_hash(paths[0]), 16, "alice")
    assert (one["url"], one["work_id_index_key"]) == (paths[0].resolve().as_uri(), "cli-job:syslog")

    newer = document(where="cli-1", what="syslog", start="2026-03-01", id="newer")
    with Journal.connect(installation.settings) as journal:
        (first,) = journal.files.record([{"url": "s3://a/newer", "metadata": newer}])
        assert first.outcome(60).word == "accepted"
        assert journal.emit(TagsAdded("file:cli-1/syslog/newer", ["precious"])).outcome(60).word == "accepted"
        (moved,) = journal.files.record([{"url": "s3://a/moved", "metadata": newer}])
        assert moved.outcome(60).word == "accepted"
        assert [row.urn for row in journal.files.find(work_id="cli-job")] == [one["file"] for one in page["files"]]
        assert list(journal.files.find(work_id="cli-job", as_at=0)) == []
        latest, before = (journal.files.latest("syslog", "cli-1", as_at=at) for at in (None, first.position))
        assert latest is not None
        assert before is not None
        assert (latest.url, before.url) == ("s3://a/moved", "s3://a/newer")
        assert journal.files.latest("syslog", "cli-9") is None
        shown = journal.show("file:cli-1/syslog/newer")
        assert shown.record is not None
        assert (shown.user_tags, shown.record["url"]) == (("precious",), "s3://a/moved")
        with journal.changes("files", since=first.position, limit=1, timeout_s=60) as changes:
            (change,) = changes
        assert (change.urn, change.record["previous"], change.record["updated"]) == (
            "file:cli-1/syslog/newer", before_record(before), shown.record
        )  # fmt: skip
        hits = journal.search("url:moved", kinds=["file"], at_least=moved.position).hits
        assert [hit.urn for hit in hits] == ["file:cli-1/syslog/newer"]


def before_record(row: FileRecordRow) -> dict[str, Any]:
    """The record of a file's entity, as one of its rows tells it."""
    return {
        "version": row.version,
        "url": row.url,
        "metadata": row.metadata,
        "size": row.size_bytes,
        "created": row.created_ms,
    }


@pytest.mark.services
def test_tables_for_people_say_the_same_of_files(installation: Installation) -> None:
    lines = [
        {"url": f"s3://p/{n}\x1b[2J", "metadata": document(where="cli-2", what="job", start=1 << 62, id=f"{n}")}
        for n in range(3)
    ]
    done = installation.metajournal("files", "record", "-", stdin="\n\n".join(map(json.dumps, lines)))
    assert done.stdout.startswith("accepted  metajournal.journal.files/")
    times = ("--from", str(1 << 62), "--to", str(1 << 62))
    page = installation.metajournal("files", "--where", "cli-2", *times, "--limit", "2").stdout
    assert "s3://p/0\\x1b[2J" in page
    assert str(1 << 62) in page
    cursor = page.partition("more: --cursor ")[2].split()[0]
    rest = installation.metajournal("files", "--where", "cli-2", *times, "--limit", "2", "--cursor", cursor).stdout
    assert "s3://p/2" in rest
    assert "more:" not in rest
    assert "file:cli-2/job/2" in installation.metajournal("files", "latest", "job", "cli-2").stdout
    refused = installation.metajournal("files", "record", "-", stdin='{"url": 7, "metadata": {}, "color": 1}')
    assert refused.returncode == 2
    assert "files[0].color" in refused.stderr


def test_a_change_of_a_file_is_told_in_words() -> None:
    record = {"url": "s3://a", "metadata": document(), "size": None}
    assert file_changed({"previous": None, "updated": record}) == "recorded s3://a"
    moved = {**record, "url": "s3://b", "metadata": document(data_version="2")}
    told = file_changed({"previous": record, "updated": moved})
    assert told == "url: s3://a → s3://b, data-version: 1 → 2"
