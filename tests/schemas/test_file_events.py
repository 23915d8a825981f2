"""FilesRecorded: every fault of every document at once and by name, by the cheap way as by the thorough one."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal import FileRecord, FilesRecorded, InvalidEventError, file_urn
from metajournal.domains.files import events as events
from metajournal.domains.files.events import DAY_MS, file_faults
from metajournal.schemas.encoding import codec
from metajournal.schemas.urn import siblings
from tests.archive import HASH, START, a_file, document
from tests.builders import header_for


def faults(*files: Any) -> dict[str, str]:
    """Messages by field of an event of these files."""
    problems = FilesRecorded(list(files)).validate()
    assert len({fault.field for fault in problems}) == len(problems), problems
    return {fault.field: fault.message for fault in problems}


def test_a_valid_event_has_no_faults_and_names_its_files_and_their_aggregate() -> None:
    event = FilesRecorded([a_file(), a_file(id="ß/2")])
    assert event.validate() == []
    assert event.aggregate == "files:nebraska/nginx"
    assert event.entities == ("file:nebraska/nginx/f1", "file:nebraska/nginx/%C3%9F%2F2")
    assert event.entities[1] == file_urn("nebraska", "nginx", "ß/2")
    assert pickle.loads(pickle.dumps(event)).entities == event.entities


BAD: dict[str, list[Any]] = {
    "version": [1, -1, "0", None, True, 0.0],
    "start": [None, "2015-07-20", "1437375600000", 1.5, True, 1 << 63, -(1 << 63) - 1],
    "end": ["2015-07-20", 1.5, False, 1 << 63, START - 1, START + 400 * DAY_MS],
    "where": [None, "", "Nebraska", "a b", "nebraska\n", "é", 7, "x" * 1025],
    "what": [None, "", "nginx.log", "nginx.LOG", "a/b", "nginx\n", 7],
    "data_version": [None, "", "1.0", "v 1", "1\n", 1],
    "id": [None, "", 7, "\ud800", "x" * 1020, "é" * 300],
    "hash": [None, "", HASH[:-1], HASH + "0", "g" * 32, HASH[:-1] + "\n", "٣" * 32, 7],
    "work_id": ["", "null", "nullable", "Job", "job 1", "job\n", 7],
    "path": ["", "relative/a", "./a", "C:a", "C", "\\a", "\\\\server\\a", 7, "/" + "x" * 8192],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in BAD.items() for value in values])
def test_each_field_of_a_document_refuses_what_its_rule_does_not_allow(field: str, value: Any) -> None:
    """Alone and behind a good file, as a record and as the mapping that JSON gives."""
    name = field.replace("_", "-") if field == "data_version" else field
    assert faults(a_file(**{field: value})).keys() == {f"files[0].metadata.{name}"}
    mapping = {"url": "s3://archive/f1", "metadata": document(**{field: value})}
    problems = FilesRecorded([a_file(id="other"), mapping]).validate()
    assert f"files[1].metadata.{name}" in {fault.field for fault in problems}


GOOD: dict[str, list[Any]] = {
    "start": [0, -1, START],
    "end": [None, START, START + 398 * DAY_MS, START + 400 * DAY_MS - 3_600_001],
    "where": ["a", "_", "-", "0", "a_b-c"],
    "what": ["syslog", "rawfood-ingester", "_"],
    "data_version": ["0", "V1", "_-"],
    "id": ["a", "ß/2", "x" * 900, " ", "1:2"],
    "hash": [HASH.upper()],
    "work_id": [None, "nul", "a_null", "job-1"],
    "path": [None, "/", "/var/log/a b", "C:\\logs\\a", "z:/a", "/ü"],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in GOOD.items() for value in values])
def test_each_field_takes_what_its_rule_allows_and_keeps_it_on_the_wire(field: str, value: Any) -> None:
    event = FilesRecorded([a_file(**{field: value})])
    assert event.validate() == []
    assert codec.decode(codec.encode(event, header_for(event))).event == event


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("url", value) for value in (None, "", 7, "x" * 8193)],
        *[("size", value) for value in (-1, 1.5, True, 1 << 63)],
        *[("created", value) for value in ("2015", 1 << 63)],
        *[("metadata", value) for value in (None, "x")],
    ],
)
def test_what_stands_beside_the_document_has_rules_too(name: str, value: Any) -> None:
    assert faults(a_file()._replace(**{name: value})).keys() == {f"files[0].{name}"}
    assert faults({"url": "u", "metadata": document(), name: value}).keys() == {f"files[0].{name}"}


def test_all_faults_of_all_documents_are_told_at_once() -> None:
    bad = {name: values[0] for name, values in BAD.items() if name != "end"}
    messages = faults(
        a_file(), a_file(id="2"), {"url": None, "metadata": {**document(**bad), "end": "x", "color": 1}, "x": 2}
    )
    wanted = {f"files[2].metadata.{name.replace('data_version', 'data-version')}" for name in BAD}
    assert messages.keys() == wanted | {"files[2].url", "files[2].x", "files[2].metadata.color"}
    assert "400" in faults(a_file(end=START + 400 * DAY_MS))["files[0].metadata.end"]
    assert "file extension" in faults(a_file(what="nginx.log"))["files[0].metadata.what"]
    assert "reserved prefix" in faults(a_file(work_id="nullx"))["files[0].metadata.work_id"]


def test_absent_is_null_but_for_the_version_which_is_0() -> None:
    whole = document(end=START + 5, work_id="job-1", path="/a")
    for name in ("version", "end", "work_id", "path"):
        left = {key: value for key, value in whole.items() if key != name}
        event = FilesRecorded([{"url": "u", "metadata": left}])
        assert event.validate() == []
        assert getattr(event.files[0].metadata, name) == (0 if name == "version" else None)
    for name in ("start", "where", "what", "data-version", "id", "hash"):
        left = {key: value for key, value in whole.items() if key != name}
        assert faults({"url": "u", "metadata": left}).keys() == {f"files[0].metadata.{name}"}


def test_all_files_are_of_one_where_and_what_and_each_stands_once() -> None:
    assert faults(a_file(), a_file(where="other")).keys() == {"files[1].metadata.where"}
    assert faults(a_file(), a_file(what="other")).keys() == {"files[1].metadata.what"}
    assert faults(a_file(), a_file(id="2"), a_file(url="again")).keys() == {"files[2].metadata.id"}
    assert "files[0]" in faults(a_file(), a_file(id="2"), a_file())["files[2].metadata.id"]


def test_an_event_has_one_to_a_thousand_files() -> None:
    assert FilesRecorded([]).validate()[0].field == "files"
    assert FilesRecorded([a_file(id=str(number)) for number in range(1000)]).validate() == []
    (fault,) = FilesRecorded([a_file(id=str(number)) for number in range(1001)]).validate()
    assert "1,001" in fault.message


@pytest.mark.parametrize("files", [None, "abc", 7, {"url": "u"}, [None], ["u"], [7]])
def test_what_is_no_list_of_files_is_named_and_has_no_urn(files: Any) -> None:
    event = FilesRecorded(files)
    assert event.validate()
    with pytest.raises(InvalidEventError):
        _ = event.aggregate


values = st.one_of(
    st.none(), st.integers(-3, 3), st.text(max_size=3), st.sampled_from([START, START + 1, HASH, "a", "/", True, 1.0])
)
fields_of_files = st.fixed_dictionaries(
    {}, optional={name: st.one_of(values, st.sampled_from(BAD[name] + GOOD.get(name, [0]))) for name in BAD}
)


@given(st.lists(fields_of_files, min_size=1, max_size=3), st.lists(values, max_size=3))
def test_the_cheap_look_passes_nothing_that_the_thorough_one_refuses(
    files: list[dict[str, Any]], rest: list[Any]
) -> None:
    made = tuple(a_file(**{"id": str(index), **changes}) for index, changes in enumerate(files))
    for name, value in zip(("url", "size", "created"), rest, strict=False):
        made = (made[0]._replace(**{name: value}), *made[1:])
    thorough = [fault for index, file in enumerate(made) for fault in file_faults(f"files[{index}]", file)]
    thorough += events._apart_faults(made)
    if events._plain(made):
        assert thorough == []
    assert FilesRecorded(made).validate() == thorough


def test_the_cheap_look_passes_ordinary_files() -> None:
    """Or validation would be thorough, and slow, for every event."""
    assert events._plain(
        tuple(a_file(id=f"{number:032x}", end=START + number, path="/a", work_id="w") for number in range(1000))
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), max_size=5))
def test_siblings_are_what_parsing_gives(names: list[str]) -> None:
    first = file_urn("a", "b", "c")
    for name, urn in zip(names, siblings(first, names), strict=True):
        parsed = file_urn("a", "b", name)
        assert (urn, urn.parts, urn.kind, urn.domain, urn.path, urn.aggregate) == (
            parsed, parsed.parts, parsed.kind, parsed.domain, parsed.path, parsed.aggregate
        )  # fmt: skip


def test_a_record_with_its_document_as_a_mapping_is_the_same_event() -> None:
    by_mapping = FilesRecorded([FileRecord("s3://archive/f1", document(), 7, START)])  # type: ignore[arg-type]
    assert by_mapping == FilesRecorded([a_file()])
