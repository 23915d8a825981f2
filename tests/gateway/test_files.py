"""Archived files over a real server: the client's questions, and the right to all that each could find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metajournal import Journal
from metajournal.domains.files.recording import file_record
from metajournal.domains.files.values import file_json, page_json
from metajournal.schemas.positions import Position
from tests.gateway.reading import key_of, pages, refused
from tests.gateway.serving import OTHER, READER, TEAM_A, Served

HOUR_MS = 3_600_000
AT = "/api/v1/files"
ALL = "start=1970-01-01&end=2030-01-01"


def record(where: str, what: str, number: int, work_id: str | None = None) -> Any:
    start = 1_700_000_000_000 + number * HOUR_MS
    metadata = {
        "start": start, "end": start + HOUR_MS - 1, "where": where, "what": what, "data-version": "0",
        "id": f"f{number}", "hash": f"{number:032x}", "work_id": work_id,
    }  # fmt: skip
    return file_record(f"s3://archive/{where}/{what}/{number}", metadata, size=number, created=start)


@pytest.fixture(scope="module")
def recorded(server: Served) -> Position:
    """Files of two programs on web01 and of one on db01; the position of the last one's event."""
    files = [record("web01", "syslog", number, "job-1") for number in range(5)]
    files += [record("web01", "audit", 1, "job-1"), record("db01", "syslog", 2, "job-1")]
    receipts = server.journal.files.record(files)
    server.fold()
    return receipts[-1].position


def ids(answer: Any) -> list[str]:
    return [one["file"] for one in answer["files"]]


def test_files_of_a_time_come_in_pages_in_their_order(server: Served, recorded: Position) -> None:
    start = 1_700_000_000_000 + HOUR_MS
    at = f"{AT}?where=web01&what=syslog&start={start}&end={start + 2 * HOUR_MS}"
    found = [one for page in pages(server, f"{at}&limit=1") for one in ids(page)]
    assert found == [f"file:web01/syslog/f{number}" for number in (1, 2, 3)]
    page = server.journal.files.page(where="web01", what="syslog", start=start, end=start + 2 * HOUR_MS)
    assert server.get(at).json == page_json(page)
    assert ids(server.get(f"{AT}?{ALL}").json) == ids(page_json(server.journal.files.page(start=0, end="2030-01-01")))


def test_files_of_a_work_id_are_found(server: Served, recorded: Position) -> None:
    assert len(ids(server.get(f"{AT}?work_id=job-1").json)) == 7
    assert ids(server.get(f"{AT}?work_id=job-1&where=db01").json) == ["file:db01/syslog/f2"]
    assert ids(server.get(f"{AT}?work_id=job-1&what=audit").json) == ["file:web01/audit/f1"]


def test_the_newest_file_of_a_program_is_shown(server: Served, recorded: Position) -> None:
    got = server.get(f"{AT}/latest?what=syslog&where=web01")
    newest = server.journal.files.latest("syslog", "web01")
    assert newest is not None
    assert got.json == file_json(newest)
    assert got.json["file"] == "file:web01/syslog/f4"
    assert refused(server, f"{AT}/latest?what=nothing&where=web01", READER) == (404, "unknown-entity")
    assert refused(server, f"{AT}/latest?what=syslog", READER) == (400, "bad-name")
    assert refused(server, f"{AT}/latest?what=syslog&where=web01", OTHER) == (404, "unknown-entity")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "no-arguments"), ("start=2026-01-01", "one-time-only"), (f"work_id=a&{ALL}", "work-id-with-times"),
        ("start=2&end=1", "start-after-end"), ("start=x&end=1", "unreadable-time"), ("where=&work_id=a", "bad-name"),
        (f"{ALL}&cursor=nonsense", "unreadable-cursor"), (f"{ALL}&as_of=1", "unknown-parameter"),
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_is_refused_with_its_code(
    server: Served, recorded: Position, query: str, code: str
) -> None:
    assert refused(server, f"{AT}?{query}", READER) == (400, code)


def test_a_question_must_name_what_lies_within_a_grant(server: Served, recorded: Position) -> None:
    """On the server itself, on one of its programs, and on names that look like it: the same for what is not there."""
    server_key = key_of(server, "of-web01", ("analyst", "file:web01/*"))
    program_key = key_of(server, "of-syslog", ("analyst", "file:web01/syslog/*"), ("analyst", "file:ab%2Fc/x%20y/*"))
    assert len(ids(server.get(f"{AT}?where=web01&{ALL}", key=server_key).json)) == 6
    assert len(ids(server.get(f"{AT}?where=web01&what=audit&work_id=job-1", key=server_key).json)) == 1
    assert len(ids(server.get(f"{AT}?where=web01&what=syslog&{ALL}", key=program_key).json)) == 5
    assert server.get(f"{AT}?where=ab/c&what=x+y&{ALL}", key=program_key).json["files"] == []
    assert server.get(f"{AT}/latest?where=web01&what=syslog", key=program_key).status == 200
    for key, query in (
        (server_key, ALL), (server_key, "work_id=job-1"), (server_key, f"where=db01&{ALL}"),
        (server_key, f"where=web0&{ALL}"), (server_key, f"where=web012&{ALL}"), (server_key, f"what=syslog&{ALL}"),
        (server_key, f"where=nobody&{ALL}"), (program_key, f"where=web01&{ALL}"),
        (program_key, f"where=web01&what=audit&{ALL}"), (program_key, f"where=web01&what=syslo&{ALL}"),
        (key_of(server, "one-file", ("analyst", "file:web01/syslog/f1")), f"where=web01&what=syslog&{ALL}"),
        (key_of(server, "dash", ("analyst", "file:web01/%2D/*")), f"where=web01&{ALL}"),
        (TEAM_A, f"where=web01&{ALL}"), (key_of(server, "nobody"), f"where=web01&{ALL}"),
    ):  # fmt: skip
        assert refused(server, f"{AT}?{query}", key) == (403, "forbidden"), query
    assert refused(server, f"{AT}/latest?where=db01&what=syslog", server_key) == (403, "forbidden")


def test_a_cursor_does_not_lead_out_of_a_grant(server: Served, recorded: Position) -> None:
    cursor = server.get(f"{AT}?{ALL}&limit=1").json["cursor"]
    key = key_of(server, "of-db01", ("analyst", "file:db01/*"))
    assert refused(server, f"{AT}?{ALL}&limit=1&cursor={cursor}", key) == (403, "forbidden")
    assert refused(server, f"{AT}?where=db01&{ALL}&cursor={cursor}", key) == (400, "unreadable-cursor")


def test_a_cursor_is_taken_on_any_machine(
    server: Served, recorded: Position, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = server.get(f"{AT}?work_id=job-1&limit=6").json
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Journal.connect(server.journal.settings) as elsewhere:
        assert len(elsewhere.files.page(work_id="job-1", cursor=first["cursor"]).files) == 1
    assert not list(tmp_path.iterdir())


def test_files_are_waited_for_and_asked_as_at_a_point(server: Served, recorded: Position) -> None:
    (receipt,) = server.journal.files.record([record("late", "syslog", 1)])
    assert server.get(f"{AT}?where=late&{ALL}").json["files"] == []
    server.fold()
    after = server.get(f"{AT}?where=late&{ALL}", Metajournal_At_Least=str(receipt.position)).json
    assert ids(after) == ["file:late/syslog/f1"]
    before = Position(receipt.position.topic, receipt.position.partition, receipt.position.value - 1)
    assert server.get(f"{AT}?where=late&{ALL}&as_at={before}").json["files"] == []
    assert refused(server, f"{AT}/latest?where=late&what=syslog&as_at={before}", READER) == (404, "unknown-entity")


def test_files_are_recorded_as_events_by_who_may(server: Served) -> None:
    def line(where: str) -> dict[str, Any]:
        metadata = record(where, "syslog", 1).metadata._asdict()
        metadata["data-version"] = metadata.pop("data_version")
        return {"type": "FilesRecorded", "files": [{"url": "s3://a/1", "metadata": metadata}]}

    key = key_of(server, "recording", ("emitter", "file:sent/*"))
    assert server.post("/api/v1/events", line("sent"), key=key).json["outcome"] == "accepted"
    assert server.post("/api/v1/events", line("other"), key=key).status == 403
    assert server.post("/api/v1/events", line("sent"), key=READER).status == 403
    server.fold()
    assert server.get(f"{AT}/latest?where=sent&what=syslog").status == 200
