"""Records of new files, column by column: they are those that come of the rows one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal import FilesRecorded, TagsAdded, file_urn
from metajournal.domains.files.columns import documents as file_documents
from metajournal.fold.documents import Documents, Outgoing
from metajournal.fold.folded import Folded, Prior
from metajournal.fold.judging import fold
from metajournal.fold.prior import KnownOriginals
from metajournal.fold.published import blocks, outgoing
from metajournal.fold.readings import read_table
from metajournal.fold.records import Place
from metajournal.lake.declared import made_arrow
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.staging import Staging
from tests.archive import START, a_file
from tests.builders import header_for, record_of
from tests.properties import examples
from tests.streaming.harness import placed, table_of

TOPIC = "metajournal.journal.files"
NAMES = TopicNames("metajournal")
PLACE = Place(TOPIC, 0, 1, "files", frozenset())
FIRST = 1 << 40
awkward = st.sampled_from(
    ["f1", "f2", "f3", 'a"b', "a\\b", "Ω 😀", "\0urn", "\0record", '"\\u0000urn"', "},{", "a/b", "null", "a\nb"]
)
some = settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def recorded(draw: st.DrawFn) -> FilesRecorded:
    ids = draw(st.lists(awkward, min_size=1, max_size=5, unique=True))
    where = draw(st.sampled_from(["a", "b"]))
    return FilesRecorded([
        a_file(
            f"s3://{draw(awkward)}", draw(st.sampled_from([None, 0, 7])), draw(st.sampled_from([None, -1, 2**62])),
            id=one, where=where, end=draw(st.sampled_from([None, START + 90_000_000])),
            work_id=draw(st.sampled_from([None, "w1"])), path=draw(st.none() | awkward.map(lambda text: f"/{text}")),
        )
        for one in ids
    ])  # fmt: skip


class _Nothing(dict[Any, Any]):
    def __missing__(self, key: Any) -> None:
        return None


def _numbered(events: list[Any]) -> list[tuple[Any, int]]:
    return [(event, number) for number, event in enumerate(events)]


def folded_of(events: list[Any], actors: list[str | None]) -> Folded:
    headers = [header_for(one, n + 1, actor=actor) for n, (one, actor) in enumerate(zip(events, actors, strict=True))]
    records = [record_of(*one, header=header) for one, header in zip(_numbered(events), headers, strict=True)]
    journal = placed(records, 1)
    readings = read_table(table_of(journal, TOPIC), PLACE, 1, FIRST, journal[-1].position + 1)
    return fold(readings, Prior(_Nothing(), {}, KnownOriginals({}, {})), 0)


def by_topic(records: Any) -> dict[str, list[Outgoing]]:
    found: dict[str, list[Outgoing]] = {}
    for one in records:
        found.setdefault(one.topic, []).append(one)
    return found


def staged(folded: Folded, folder: Path) -> list[Outgoing]:
    """What a task stages, as the task behind it reads it."""
    entities = made_arrow("entities", ((one.after, "files", 0) for one in folded.changes))
    staging = Staging(str(folder))
    writer = staging.writer("records")
    for block in blocks(folded, NAMES, entities):
        if isinstance(block, Documents):
            writer.write_documents(block)
        else:
            writer.write_columns(block)
    return list(staging.read("records")) if writer.close() else []


@given(
    st.lists(
        st.tuples(
            st.one_of(recorded(), st.just(TagsAdded(file_urn("a", "nginx", "f1"), ["t"]))),
            st.sampled_from(["alice", None, "\0seq", '"']),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([1, 2, 32]),
)
@some
def test_records_of_any_files_are_those_of_their_rows_in_the_order_of_each_topic(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[Any, str | None]], fewest: int
) -> None:
    folded = folded_of([event for event, _ in told], [actor for _, actor in told])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_documents, "FEWEST", fewest)
        found = staged(folded, tmp_path_factory.mktemp("lake"))
    assert by_topic(found) == by_topic(outgoing(folded, NAMES))


def test_new_files_are_done_column_by_column_and_files_that_came_again_are_not() -> None:
    new = FilesRecorded([a_file(id=f"f{number}") for number in range(file_documents.FEWEST)])
    again = FilesRecorded([a_file("s3://elsewhere", id=f"f{number}") for number in range(file_documents.FEWEST)])
    others = FilesRecorded([a_file(id=f"g{number}") for number in range(file_documents.FEWEST - 1)])
    folded = folded_of([new, again, others, new], ["alice"] * 4)
    count = file_documents.FEWEST
    assert list(file_documents.runs(folded.changes)) == [(True, 0, count), (False, count, 4 * count - 1)]


def test_a_text_that_looks_like_a_mark_is_left_to_the_rows() -> None:
    event = FilesRecorded([a_file(id=f"f{number}") for number in range(file_documents.FEWEST)])
    folded = folded_of([event], ["\0urn"])
    entities = made_arrow("entities", ((one.after, "files", 0) for one in folded.changes))
    assert file_documents.first_records(folded, 0, len(event.files), entities, NAMES) is None
    assert all(isinstance(block, Documents) for block in blocks(folded, NAMES, entities))
