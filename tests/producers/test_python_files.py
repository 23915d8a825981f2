"""The files and requirements of the Python environment: equal to an independent walk, stable, and robust to damage."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from metajournal.domains.files.events import FileRecord
from metajournal.domains.files.recording import file_events
from metajournal.domains.lineage.events import Access, AccessesRecorded, RunStarted, RunStopped
from metajournal.schemas.errors import InputError
from metajournal.schemas.urn import Urn
from metajournal.sources.python_environment import installed
from metajournal.sources.python_files import FileOf, files_of, read_files, what_of
from metajournal.sources.python_requirements import building, requirements
from tests.independent_walk import WalkedFile, requirements_of, walk
from tests.independent_walk import files_of as walked_files
from tests.producers.test_python_environment import install


def records(*sites: Path) -> list[FileRecord]:
    return list(read_files(files_of(installed([str(site) for site in sites]).values())))


def required(site: Path) -> dict[str, tuple[str, ...]]:
    return requirements(installed([str(site)]))


@pytest.mark.thorough
def test_the_files_of_the_running_environment_equal_an_independent_walk_of_some() -> None:
    """Names of all, content of a few distributions (the demo's test reads all of them)."""
    some = ("rich", "click", "pluggy", "metajournal")
    found = {name: one for name, one in installed().items() if name in some}
    walked = walked_files({name: one for name, one in walk().items() if name in some})
    read = {
        WalkedFile(one.metadata.what, one.metadata.path or "", one.size or 0, one.metadata.start, one.metadata.hash)
        for one in read_files(files_of(found.values()))
    }
    assert len(read) > 100
    assert read == walked


@pytest.mark.thorough
def test_the_requirements_of_the_running_environment_equal_an_independent_reading() -> None:
    found = requirements(installed())
    assert {(name, other) for name, others in found.items() for other in others} == requirements_of(walk())
    assert "pygments" in found["rich"]


def test_a_file_is_recorded_with_size_time_hash_and_an_id_of_its_path_alone(tmp_path: Path) -> None:
    install(tmp_path, "My.Pkg-1.dist-info", "Name: My.Pkg\nVersion: 1\n", RECORD="pkg/a.py,,\nmissing.py,,\n")
    (tmp_path / "pkg").mkdir()
    file = tmp_path / "pkg" / "a.py"
    file.write_bytes(b"content")
    os.utime(file, ns=(0, 1_700_000_000_123_999_999))
    (record,) = records(tmp_path)
    said = record.metadata
    assert (said.where, said.what, said.path, record.url) == ("python", "my-pkg", str(file), file.as_uri())
    assert (record.size, said.start, said.end) == (7, 1_700_000_000_123, None)
    assert said.hash == hashlib.blake2b(b"content", digest_size=16).hexdigest()
    file.write_bytes(b"other content")
    assert records(tmp_path)[0].metadata.id == said.id
    assert records(tmp_path)[0].metadata.hash != said.hash


def test_files_that_cannot_be_recorded_are_left_out_and_the_others_stay(tmp_path: Path) -> None:
    long = "/".join(["x" * 200] * 15)
    lines = f"good.py,,\ngood.py,,\n./good.py,,\nfolder,,\npipe,,\n{long},,\na\x00b,,\n{'y' * 400},,\n"
    install(tmp_path, "odd-1.dist-info", "Name: odd\nVersion: 1\n", RECORD=lines)
    (tmp_path / "good.py").write_text("")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert [one.metadata.path for one in records(tmp_path)] == [str(tmp_path / "good.py")]
    gone = FileOf("odd", str(tmp_path / "gone.py"))
    assert list(read_files([gone])) == []


@pytest.mark.parametrize(
    ("name", "what"), [("rich", "rich"), ("zope-interface", "zope-interface"), ("für.ä b", "f-r-b"), ("ä", "unnamed")]
)
def test_every_name_gives_a_valid_what(name: str, what: str) -> None:
    assert what_of(name) == what


def test_files_go_in_events_of_as_many_as_asked(tmp_path: Path) -> None:
    install(tmp_path, "p-1.dist-info", "Name: p\nVersion: 1\n", RECORD="".join(f"{n}.py,,\n" for n in range(7)))
    for number in range(7):
        (tmp_path / f"{number}.py").write_text(str(number))
    found = records(tmp_path)
    assert [len(event.files) for event in file_events(found, files_an_event=3)] == [3, 3, 1]
    assert [len(event.files) for event in file_events(found)] == [7]
    assert {file for event in file_events(found, files_an_event=3) for file in event.files} == set(found)
    for wrong in (0, 1001, True, "3"):
        with pytest.raises(InputError, match="files_an_event"):
            list(file_events(found, files_an_event=wrong))  # type: ignore[arg-type]


def test_requirements_count_by_their_markers_and_by_the_extras_that_are_asked_for(tmp_path: Path) -> None:
    lines = (
        "Requires-Dist: B[fast]>=1\nRequires-Dist: c; python_version >= '3'\nRequires-Dist: d; python_version < '3'\n"
        "Requires-Dist: e; extra == 'unasked'\nRequires-Dist: not-here\nRequires-Dist: ???\nRequires-Dist: a\n"
    )
    install(tmp_path, "a-1.dist-info", f"Name: a\nVersion: 1\n{lines}")
    install(tmp_path, "b-1.dist-info", "Name: b\nVersion: 1\nRequires-Dist: f[More_x]; extra == 'fast'\n")
    install(tmp_path, "f-1.dist-info", "Name: f\nVersion: 1\nRequires-Dist: a; extra == 'more-x'\n")
    for name in "cde":
        install(tmp_path, f"{name}-1.dist-info", f"Name: {name}\nVersion: 1\n")
    assert required(tmp_path) == {"a": ("b", "c"), "b": ("f",), "c": (), "d": (), "e": (), "f": ("a",)}


def test_building_reads_what_is_required_and_writes_the_distribution(tmp_path: Path) -> None:
    install(tmp_path, "a-1.5+x.dist-info", "Name: a\nVersion: 1.5+x\nRequires-Dist: b\n", RECORD="")
    install(tmp_path, "b-1.dist-info", "Name: b\nVersion: 1\n")
    folder = tmp_path / "a-1.5+x.dist-info"
    os.utime(folder / "METADATA", ns=(0, 5_000_000))
    found = installed([str(tmp_path)])
    started, touched, stopped = building(found["a"], requirements(found)["a"])
    run = Urn.parse("run:python/build/workflow/a/1.5+x")
    assert started == RunStarted(run, 5)
    assert isinstance(stopped, RunStopped)
    assert stopped.at >= 5
    assert touched == AccessesRecorded(
        run, [Access("dataset:python/b", "read", stopped.at), Access("dataset:python/a", "write", stopped.at)]
    )
    assert [fact.validate() for fact in (started, touched, stopped)] == [[], [], []]
    assert building(found["a"], ("b",)) == (started, touched, stopped)


@pytest.mark.thorough
def test_every_fact_of_the_running_environment_is_valid_and_told_alike_twice() -> None:
    found = installed()
    needed = requirements(found)
    facts = [fact for name in found for fact in building(found[name], needed[name])]
    assert len(facts) == 3 * len(found)
    assert [fact.validate() for fact in facts if fact.validate()] == []
    assert facts == [fact for name, one in installed().items() for fact in building(one, requirements(found)[name])]


def test_names_of_any_length_give_valid_facts(tmp_path: Path) -> None:
    install(tmp_path, "long-1.dist-info", f"Name: {'x' * 900}\nVersion: {'1' * 900}\n")
    found = installed([str(tmp_path)])
    facts = [fact for one in found.values() for fact in building(one, ())]
    assert len(facts) == 3
    assert [fact.validate() for fact in facts] == [[], [], []]
