"""The Python environment as events: equal to an independent walk, deterministic, and robust to damaged metadata."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from metajournal.domains.catalog.events import EntityRegistered
from metajournal.schemas.hashing import canonical_json
from metajournal.schemas.limits import MAX_ENTITY_BYTES, MAX_EVENT_BYTES
from metajournal.sources.python_environment import MODULES, TAGS, canonical_name, python_environment
from tests.independent_walk import walk


def install(site: Path, folder: str, metadata: str | bytes | None, **files: str) -> None:
    """A distribution as an installer leaves it: `files` are further files of its metadata folder."""
    info = site / folder
    info.mkdir(parents=True)
    if metadata is not None:
        (info / "METADATA").write_bytes(metadata if isinstance(metadata, bytes) else metadata.encode())
    for name, text in files.items():
        (info / name).write_text(text)


def described(*sites: Path) -> dict[str, EntityRegistered]:
    return {event.entity.name: event for event in python_environment([str(site) for site in sites])}


def uncut(text: str, whole: str) -> str:
    """The whole text where `text` is it, or is its beginning with the mark of a cut."""
    begin, cut, rest = text.partition(" … [cut: ")
    return whole if cut and f"of {len(whole):,} characters" in rest and whole.startswith(begin) else text


@pytest.mark.thorough
def test_the_running_environment_equals_an_independent_walk_of_it() -> None:
    events = {event.entity.name: event for event in python_environment()}
    walked = walk()
    assert len(walked) > 20
    assert sorted(events) == sorted(walked)
    for name, event in events.items():
        own = walked[name]
        properties = {key: uncut(value, own.properties.get(key, "")) for key, value in event.properties.items()}
        assert properties == own.properties, name
        assert set(event.tags) == own.tags, name
        assert uncut(event.description or "", own.description) == own.description, name
        if len(own.modules) <= MODULES:
            assert set(event.schema or ()) == own.modules, name


@pytest.mark.thorough
def test_every_event_of_the_running_environment_is_valid_and_in_a_fixed_order() -> None:
    events = python_environment()
    assert [event.validate() for event in events] == [[] for _ in events]
    assert events == python_environment()
    assert [event.entity for event in events] == sorted(event.entity for event in events)


def test_a_distribution_becomes_a_dataset_with_properties_tags_modules_and_description(tmp_path: Path) -> None:
    metadata = (
        "Metadata-Version: 2.1\nName: My.Pkg_Name\nVersion: 1.5\nSummary: Does things\nKeywords: one, two words ,one\n"
        "Classifier: Topic :: Software Development :: Testing\nClassifier: License :: OSI Approved :: MIT License\n"
        "Classifier: Programming Language :: Python\nRequires-Dist: a\nRequires-Dist: b>2; extra == 'x'\n"
        "License: Folded\n       |over\n        lines\nHome-page: UNKNOWN\n\nThe long description.\n"
    )
    files = ["pkg/__init__.py", "pkg/a/b.py", "single.py", "pkg/fast.abi3.so", "../../bin/tool.py", "pkg/data-x/y.py"]
    record = "".join(f"{file},,\n" for file in files)
    install(tmp_path, "My.Pkg_Name-1.5.dist-info", metadata, INSTALLER="pip\n", RECORD=record)
    event = described(tmp_path)["my-pkg-name"]
    assert event.entity == "dataset:python/my-pkg-name"
    assert event.properties == {
        "classifier": "Topic :: Software Development :: Testing\nLicense :: OSI Approved :: MIT License\n"
        "Programming Language :: Python",
        "installer": "pip",
        "keywords": "one, two words ,one",
        "license": "Folded over lines",
        "metadata-version": "2.1",
        "modules": "4",
        "name": "My.Pkg_Name",
        "requires-dist": "a\nb>2; extra == 'x'",
        "summary": "Does things",
        "version": "1.5",
    }
    assert event.tags == ("MIT License", "Software Development", "Testing", "one", "two words")
    assert event.schema == (("pkg", "package"), ("single", "module"), ("pkg.fast", "extension"), ("pkg.a.b", "module"))
    assert event.description == "The long description."


def test_of_two_distributions_of_one_name_the_first_on_the_path_counts(tmp_path: Path) -> None:
    install(tmp_path / "first", "pkg-1.dist-info", "Name: pkg\nVersion: 1\n")
    install(tmp_path / "second", "Pkg-2.dist-info", "Name: Pkg\nVersion: 2\n")
    assert described(tmp_path / "first", tmp_path / "second")["pkg"].properties["version"] == "1"
    assert described(tmp_path / "second", tmp_path / "first")["pkg"].properties["version"] == "2"


@pytest.mark.parametrize("metadata", [None, b"", b"\n", b"\xff\xfe garbage", b"Name: \nVersion: UNKNOWN\n\n"])
def test_damaged_metadata_falls_back_to_the_name_of_its_folder(tmp_path: Path, metadata: bytes | None) -> None:
    install(tmp_path, "lost-0.3.dist-info", metadata)
    event = described(tmp_path)["lost"]
    assert (event.properties["name"], event.properties["version"]) == ("lost", "0.3")
    assert event.validate() == []


def test_metadata_that_is_not_utf8_is_read_as_latin_1(tmp_path: Path) -> None:
    install(tmp_path, "old-1.dist-info", "Name: old\nVersion: 1\nAuthor: Jos\xe9\n\n\xe9t\xe9".encode("latin-1"))
    event = described(tmp_path)["old"]
    assert (event.properties["author"], event.description) == ("José", "été")


def test_control_characters_and_impossible_names_do_no_harm(tmp_path: Path) -> None:
    install(tmp_path, "odd-1.dist-info", "Name: odd\nVersion: 1\nSummary: a\x1b[31mb\x00c\nBad Header: x\n\n")
    install(tmp_path, "long-1.dist-info", f"Name: {'x' * 5000}\nVersion: 1\n")
    install(tmp_path, ".dist-info", "Name: ...\n")
    found = described(tmp_path)
    assert list(found) == ["odd"]
    assert found["odd"].properties["summary"] == "a[31mbc"


def test_whatever_its_size_an_event_stays_within_the_limits_and_says_what_was_cut(tmp_path: Path) -> None:
    backslashes = "\\" * 60_000
    headers = "".join(f"X-Header-{n}: {backslashes}\n" for n in range(100))
    keywords = ",".join(f"tag{n}" for n in range(3000))
    record = "".join(f"p{'a' * 180}/m{n},,\n".replace(",,", ".py,,") for n in range(3000))
    text = f"Name: huge\nVersion: 1\nKeywords: {keywords}\n{headers}\n" + 'a "quoted" word\n' * 300_000
    install(tmp_path, "huge-1.dist-info", text, RECORD=record)
    event = described(tmp_path)["huge"]
    whole = [event.description, event.schema, event.properties, event.tags]
    assert event.validate() == []
    assert len(canonical_json(whole)) <= MAX_ENTITY_BYTES * 3 // 4
    assert MAX_ENTITY_BYTES < MAX_EVENT_BYTES
    assert event.description is not None
    assert event.description.endswith("characters kept]")
    assert "4,799,999" in event.description
    assert event.properties["modules"] == "3000"
    assert len(event.tags) == TAGS


def test_a_folder_that_is_not_there_and_a_file_are_no_error(tmp_path: Path) -> None:
    file = tmp_path / "plain.txt"
    file.write_text("")
    assert python_environment([str(tmp_path / "missing"), str(file), ""]) == python_environment([""])
    assert sys.path  # the default is the interpreter's own


def test_names_compare_as_installers_compare_them() -> None:
    assert canonical_name("Foo__Bar.-baz") == "foo-bar-baz"
