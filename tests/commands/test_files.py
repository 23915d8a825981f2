"""Files on the command line: usage without services, and the whole way on a running installation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metajournal.cli import main
from metajournal.producers.files import content_hash
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
        (("record", "-", "--what", "a"), "usage"),
        (("record", "/nowhere/at/all", "--what", "a", "--where", "b"), "unreadable-file"),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_is_connected_to(words: tuple[str, ...], code: str) -> None:
    result = run("files", *words, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == code


@pytest.mark.services
def test_files_are_recorded_found_and_told_of(installation: Installation, tmp_path: Path) -> None:
    paths = [tmp_path / "a.log", tmp_path / "b c.log"]
    for path in paths:
        path.write_text(f"content of {path.name}")
    about = ("--what", "syslog", "--where", "cli-1", "--actor", "alice")
    start, end = ("--start", "2026-01-31T10:00:00Z"), ("--end", "2026-02-01T10:00:00Z")
    recorded = said(installation, "files", "record", *map(str, paths), *about, *start, *end, "--work-id", "cli-job")
    assert (recorded["ok"], recorded["outcome"]) == (True, "accepted")

    asked = ("--where", "cli-1", "--from", "2026-02-01", "--to", "2026-02-01T10:00:00Z")
    first = said(installation, "files", *asked, "--limit", "1")
    second = said(installation, "files", *asked, "--limit", "1", "--cursor", first["cursor"])
    assert second["cursor"] is None
    found = first["files"] + second["files"]
    assert {one["url"] for one in found} == {path.resolve().as_uri() for path in paths}
    by_path = {one["metadata"]["path"]: one for one in found}
    one = by_path[str(paths[0].resolve())]
    assert (one["metadata"]["hash"], one["size"], one["actor"]) == (content_hash(paths[0]), 16, "alice")
    assert one["time_index_key"].endswith(":syslog")
    assert one["work_id_index_key"] == "cli-job:syslog"
    assert {file["file"] for file in said(installation, "files", "--work-id", "cli-job")["files"]} == {
        file["file"] for file in found
    }
    assert said(installation, "files", "--work-id", "cli-job", "--as-at", "2020-01-01")["files"] == []

    newer = {"url": "s3://a/newer", "metadata": document(where="cli-1", what="syslog", start="2026-03-01", id="newer")}
    told = said(installation, "files", "record", "-", stdin=json.dumps(newer) + "\n\n")
    assert said(installation, "files", "latest", "syslog", "cli-1")["file"] == "file:cli-1/syslog/newer"
    assert said(installation, "files", "latest", "syslog", "cli-9", code=1) is None

    tagged = said(installation, "emit", "TagsAdded", "file:cli-1/syslog/newer", "--tag", "precious")
    again = {"type": "FilesRecorded", "files": [{**newer, "url": "s3://a/moved"}]}
    moved = said(installation, "emit", "-", stdin=json.dumps(again))
    assert (moved["outcome"], moved["entity"]) == ("accepted", "file:cli-1/syslog/newer")
    shown = said(installation, "show", "file:cli-1/syslog/newer")
    assert (shown["user"]["tags"], shown["record"]["url"]) == (["precious"], "s3://a/moved")
    changes = installation.metajournal(
        "tail", "--domain", "files", "--since", told["position"], "--limit", "1", "--json"
    )
    change = json.loads(changes.stdout)["record"]
    assert (change["file"], change["previous"]["url"]) == ("file:cli-1/syslog/newer", "s3://a/newer")
    assert change["updated"]["url"] == "s3://a/moved"
    hits = said(installation, "search", "precious", "--at-least", moved["position"])["hits"]
    assert [hit["urn"] for hit in hits] == ["file:cli-1/syslog/newer"]
    assert tagged["ok"]


@pytest.mark.services
def test_tables_for_people_say_the_same_of_files(installation: Installation) -> None:
    lines = [
        {"url": f"s3://p/{n}\x1b[2J", "metadata": document(where="cli-2", what="job", start=1 << 62, id=f"{n}")}
        for n in range(3)
    ]
    done = installation.metajournal("files", "record", "-", stdin="\n".join(map(json.dumps, lines)))
    assert done.stdout.startswith("accepted  metajournal.journal.files/")
    page = installation.metajournal(
        "files", "--where", "cli-2", "--from", str(1 << 62), "--to", str(1 << 62), "--limit", "2"
    ).stdout
    assert "s3://p/0\\x1b[2J" in page
    assert "more: --cursor " in page
    assert str(1 << 62) in page
    latest = installation.metajournal("files", "latest", "job", "cli-2").stdout
    assert "file:cli-2/job/2" in latest
    followed = installation.metajournal("tail", "--domain", "files", "--since", "earliest", "--limit", "3").stdout
    assert "file:" in followed
    assert "no file is recorded" in installation.metajournal("files", "latest", "job", "cli-9").stdout
    refused = installation.metajournal("files", "record", "-", stdin='{"url": 7, "metadata": {}, "color": 1}')
    assert refused.returncode == 2
    assert "files[0].color" in refused.stderr
