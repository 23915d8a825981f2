"""Objects that are folded in columns give the rows and records that they give one by one, whatever stands between."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.columns import folder
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.fold.repeats import hashes_of
from metajournal.fold.steps import RowFolder, Share
from metajournal.lake.digest import table_digest
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import digest
from metajournal.streaming.rebuild import InProcess, LakeRebuild
from tests.builders import NOON, header_for, record_of
from tests.model import JournalRecord
from tests.properties import examples
from tests.repositories.operations import REPOSITORIES, operations
from tests.repositories.plain_model import Refs
from tests.streaming.harness import Crash, Fold, placed

TOPIC = "metajournal.journal.repositories"
TABLES = ("entities", "branches", "commits", "objects", "resets")
PARTITIONS = 2
REPO, MAIN, DEV = repository_urn("r1"), branch_urn("r1", "main"), branch_urn("r1", "dev/x")
some = settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))

PATHS = [f"t/{n}" for n in range(6)]
texts = st.sampled_from(["a", "x" * 70, "Ω", 'q"\\', "\n\t\x01", "😀", "\u2028"])
branches = st.builds(branch_urn, st.sampled_from(REPOSITORIES), st.sampled_from(["main", "main", "dev/x", "_tx/1"]))


@st.composite
def entries(draw: st.DrawFn, path: str) -> e.Entry:
    """An object with anything in it, nearly always valid."""
    in_blocks = draw(st.integers(0, 3)) == 0
    blocks = st.builds(e.Block, texts, st.sampled_from([0, 5, 2**40]), texts)
    entry = e.Entry(
        path, draw(st.sampled_from([0, 1, 63, 64, 2**62, 2**63 - 1])), draw(texts), None if in_blocks else draw(texts),
        tuple(draw(st.lists(blocks, min_size=1, max_size=3))) if in_blocks else (),
        draw(st.none() | texts),
        draw(st.sampled_from([{}, {}, {"k": "v"}, {"k": "", "b": "Ω", "a": '"'}, {"é": "1", "z": "2"}])),
        draw(st.sampled_from([None, 0, -1, 1_700_000_000_000, -(2**63)])),
    )  # fmt: skip
    return entry._replace(**draw(st.sampled_from([{}] * 40 + WRONG)))


WRONG: list[dict[str, Any]] = [
    {"path": ""}, {"path": "a\0b"}, {"path": "ä" * 513}, {"path": "t/0"}, {"size": -1}, {"checksum": ""},
    {"checksum": "x" * 1025}, {"address": None, "blocks": ()}, {"address": "x", "blocks": (e.Block("a", 1, "c"),)},
    {"address": ""}, {"content_type": ""}, {"metadata": {"": "x"}}, {"metadata": {"k": "v" * 9_000}},
    {"metadata": {"k" * 1025: "v"}}, {"address": None, "blocks": (e.Block("", 1, "c"),)},
    {"address": None, "blocks": (e.Block("a", -1, "c"),)}, {"address": None, "blocks": (e.Block("a", 1, "c"),) * 1001},
]  # fmt: skip
"""What an entry cannot be; the path only where another one has it."""


@st.composite
def staged(draw: st.DrawFn) -> Any:
    """Objects that are written or deleted, plain or not."""
    branch = draw(branches)
    paths = draw(st.lists(st.sampled_from([*PATHS, "ä/Ω", 'q"\\\n']), min_size=1, max_size=5, unique=True))
    if draw(st.integers(0, 3)) == 0:
        return e.ObjectsDeleted(branch, draw(st.sampled_from([paths] * 9 + [["a", "a"]])))
    return e.ObjectsWritten(branch, [draw(entries(path)) for path in paths])


ODD: dict[int, dict[str, Any]] = dict(
    enumerate([{"repeat": True}, {"expected": 0}, {"event_time": 1 << 62}, {"tenant": "other"}, {"tenant": "No!"},
               {"entities": ()}, {"type": "repositories.ObjectsDeleted.1"}])
)  # fmt: skip
"""What may be said of an event in its header, and hardly ever is."""


@st.composite
def journals(draw: st.DrawFn) -> list[JournalRecord]:
    """Objects for the most part, between them any operation, tags, copies and damaged records."""
    refs, records = Refs(), list[JournalRecord]()
    odd = draw(st.sampled_from([{}, ODD]))
    begun: list[Any] = [e.RepositoryCreated(repository_urn(name), "main", "s3://b") for name in REPOSITORIES]
    for number in range(1, draw(st.integers(4, 26))):
        begins: int = draw(st.integers(0, 3))
        event = begun.pop() if begun and begins else draw(
            st.one_of(staged(), staged(), staged(), operations(refs), st.just(TagsAdded(MAIN, [f"t{number}"])))
        )  # fmt: skip
        said = {"actor": draw(st.sampled_from(["alice", "alice", None, "Ω", "\0objects"]))}
        said |= odd.get(draw(st.integers(0, 20)), {})
        identity = draw(st.integers(1, number)) if "repeat" in said else number
        header = header_for(event, identity, **said)
        if not isinstance(event, TagsAdded):
            refs.judge(event, digest(codec.encode(event, header)))
        damaged: dict[str, Any] = {"digest": b"\0" * 16} if odd and draw(st.integers(0, 15)) == 0 else {}
        time = NOON + draw(st.integers(-3, 3))
        records.append(record_of(event, number, header=header, append_time=time, **damaged))
    return placed(records, PARTITIONS)


def begun(path: Path, **fields: Any) -> Fold:
    return Fold(path, PARTITIONS, topic=TOPIC, joined=("repositories",), **fields)


def published(fold: Fold) -> dict[Any, list[Any]]:
    """Every change and state record, as it goes to Kafka; how many outcome records tell of it is another matter."""
    return {place: records for place, records in fold.topics.records.items() if ".outcomes." not in place[0]}


def assert_same(fast: Fold, slow: Fold) -> None:
    for table in TABLES:
        found, wanted = (
            Lake(str(fold.path)).tables[table].query("*", "true order by journal_partition, logical_timestamp, seq")
            for fold in (fast, slow)
        )
        assert found == wanted, table
    assert fast.journal() == slow.journal()
    assert published(fast) == published(slow)
    assert fast.verdicts() == slow.verdicts()
    assert fast.engine.marks == slow.engine.marks
    assert fast.engine.clocks == slow.engine.clocks


def assert_rebuilt(fold: Fold) -> None:
    """A rebuild, in columns, gives the digests of the tables."""
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", PARTITIONS)}, frozenset(fold.shelved))
    target = fold.lake.begin_generation(TABLES)
    rebuilt = LakeRebuild(fold.settings, epochs, fold.lake, target, [*TABLES], InProcess(), lambda _: None).run()
    assert rebuilt.equal
    assert rebuilt.digests == {
        table: table_digest(fold.lake.tables[table].delta, fold.engine.marks) for table in TABLES
    }


@pytest.mark.thorough
@given(journals(), st.data())
@some
def test_any_journal_in_any_slices_gives_in_columns_what_it_gives_one_by_one_and_a_rebuild_too(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    ends = sorted({0, len(journal), *data.draw(st.lists(st.integers(0, len(journal)), max_size=2))})
    crashes = data.draw(st.sets(st.sampled_from(ends[1:]), max_size=1))
    first = (TOPIC, journal[0].partition, journal[0].position)
    shelved = data.draw(st.sampled_from([frozenset[Any](), frozenset({first})]))
    sizes = {
        "metajournal.streaming.tasks._SLICE_ROWS": data.draw(st.sampled_from([1, 3, 50_000])),
        "metajournal.fold.steps._BIT_BYTES": data.draw(st.sampled_from([1, 1500, 1 << 24])),
        "metajournal.domains.repositories.documents.MAX_OBJECT_BYTES": data.draw(st.sampled_from([0, 40, 1 << 20])),
    }
    few_bits = data.draw(st.sampled_from([None, None, 0, 7]))
    folds = []
    for in_columns in (True, False):
        fold = begun(tmp_path_factory.mktemp("lake"), shelved=shelved)
        folds.append(fold)
        with pytest.MonkeyPatch.context() as patch:
            if few_bits is not None:
                patch.setattr("metajournal.fold.repeats.hashes_of", lambda ids: hashes_of(ids) & few_bits)
            for name, size in sizes.items():
                patch.setattr(name, size)
            if not in_columns:
                patch.setattr(folder, "folder_of", lambda *_: None)
            for _, end in pairwise(ends):
                if end in crashes:
                    lose_the_process_before_publishing(fold, journal[: max(1, end // 2)])
                fold.batch(journal, until=journal[:end], wide=True)
    assert_same(*folds)
    assert_rebuilt(folds[0])


def lose_the_process_before_publishing(fold: Fold, until: list[JournalRecord]) -> None:
    """The history tables hold a batch then, and the journal table does not."""

    def lost(_: str) -> None:
        raise Crash

    fold.topics.fail = lost
    with suppress(Crash):
        fold.batch(until, wide=True)
    fold.topics.fail = lambda _: None
    fold.start()


@pytest.fixture
def singly(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of the records that were folded one by one."""
    found: list[int] = []
    usual = RowFolder.read

    def noting(self: RowFolder, share: Share) -> Any:
        found.extend(share.records["offset"].to_pylist())
        return usual(self, share)

    monkeypatch.setattr(RowFolder, "read", noting)
    return found


CREATED = e.RepositoryCreated(REPO, "main", "s3://b")


def journal_of(*events: Any, **said: Any) -> list[JournalRecord]:
    return [record_of(one, n, header=header_for(one, n + 1, **said)) for n, one in enumerate(events)]


def folded(path: Path, *batches: list[JournalRecord]) -> Fold:
    fold = Fold(path, 1, topic=TOPIC, joined=("repositories",))
    for batch in batches:
        fold.batch(batch, wide=True)
    return fold


def written(*paths: str, **changes: Any) -> e.ObjectsWritten:
    branch = changes.pop("branch", MAIN)
    return e.ObjectsWritten(branch, [e.Entry(path, 1, "c", "s3://b/1")._replace(**changes) for path in paths])


def test_all_objects_of_an_ordinary_journal_are_folded_in_columns(tmp_path: Path, singly: list[int]) -> None:
    bulk = [written(*[f"{one}/{two}Ω" for two in range(40)], metadata={"b": "1", "a": "2"}) for one in range(9)]
    gone = e.ObjectsDeleted(MAIN, [f"0/{two}Ω" for two in range(40)])
    journal = journal_of(CREATED, *bulk, gone, e.Committed(MAIN, "m"), *bulk[:2])
    fold = folded(tmp_path, journal[:4], journal[4:])
    assert len(fold.rows("objects")) == 40 * 12
    assert singly == [0, 11]


def test_a_branch_that_is_not_there_is_for_the_rules_and_what_comes_behind_it_is_not(
    tmp_path: Path, singly: list[int]
) -> None:
    journal = journal_of(
        written("a"), CREATED, written("a", branch=DEV), written("b"), e.BranchCreated(DEV), written("c", branch=DEV),
        e.RepositoryDeleted(REPO), written("d"), CREATED, written("e", branch=DEV), written("f"),
    )  # fmt: skip
    fold = folded(tmp_path, journal)
    assert [row.path for row in fold.rows("objects")] == ["b", "c", "f"]
    assert singly == [0, 1, 2, 4, 6, 7, 8, 9]


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_not_valid_is_folded_one_by_one_and_its_neighbours_are_not(
    tmp_path: Path, singly: list[int], wrong: dict[str, Any]
) -> None:
    bad = e.ObjectsWritten(MAIN, [written("t/0").entries[0], written("t/1").entries[0]._replace(**wrong)])
    fold = folded(tmp_path, journal_of(CREATED, written("a"), bad, written("b")))
    assert [row["outcome"] for row in fold.journal()] == ["accepted", "accepted", "rejected", "accepted"]
    assert singly == [0, 2]


def test_an_event_that_was_folded_in_columns_is_known_when_it_is_sent_again_with_a_mark(
    tmp_path: Path, singly: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metajournal.streaming.tasks._SLICE_ROWS", 1)
    first = journal_of(CREATED, written("f1"), written("f2"), written("f3"))
    again = record_of(written("f1"), 4, header=header_for(written("f1"), 2, repeat=True))
    late = record_of(written("f9"), 5, header=header_for(written("f9"), 2))
    other = record_of(written("f8"), 6, header=header_for(written("f8"), 9))
    fold = folded(tmp_path, [*first, again, late, other])
    assert [row["outcome"] for row in fold.journal()] == ["accepted"] * 4 + ["duplicate"] * 2 + ["accepted"]
    assert singly == [0, 4, 5]
