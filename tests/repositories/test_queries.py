"""What the lake tells of repositories, against the plain model, now and as at any point; refs as people write them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories import refs as named
from metajournal.domains.repositories.graph import Graph
from metajournal.domains.repositories.moment import Moment
from metajournal.domains.repositories.pieces import pieces
from metajournal.domains.repositories.queries import RepositoryQueries
from metajournal.domains.repositories.questions import Ref
from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from metajournal.lake.cuts import Bounds
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import InputError, UnavailableError, UnknownEntityError
from metajournal.schemas.hashing import digest
from metajournal.schemas.positions import position
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.rebuild import InProcess, LakeRebuild
from tests.builders import header_for, record_of
from tests.properties import examples
from tests.repositories.operations import operations
from tests.repositories.plain_model import Refs
from tests.streaming.harness import Fold

TOPIC = "metajournal.journal.repositories"
OBJECT = {"path": "a", "size": 3, "checksum": "c1", "address": "s3://b/1"}
REPO, MAIN, DEV = repository_urn("r1"), branch_urn("r1", "main"), branch_urn("r1", "dev")


def folded(folder: str | Path, events: list[Any]) -> RepositoryQueries:
    """The queries over what a journal of one partition gives: the n-th event stands at offset n."""
    fold = Fold(Path(folder), 1, topic=TOPIC, joined=("repositories",))
    fold.batch([record_of(event, number) for number, event in enumerate(events)])
    return RepositoryQueries(Lake(str(folder)), TopicNames(), {TOPIC: 1})


def at(number: int) -> dict[tuple[str, int], int]:
    """The cut in front of the n-th event."""
    return {(TOPIC, 0): position(1, number)}


@pytest.mark.thorough
@settings(max_examples=examples(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_repositories_branches_and_heads_are_those_of_the_plain_model_at_every_cut(data: st.DataObject) -> None:
    refs, events = Refs(), []
    stood: list[dict[str, dict[str, tuple[str, int, int]]]] = [{}]
    for number in range(data.draw(st.integers(1, 20))):
        event = data.draw(operations(refs))
        refs.judge(event, digest(codec.encode(event, header_for(event, number))))
        events.append(event)
        stood.append(
            {
                name: {branch: (one.head, one.events, one.paths) for branch, one in repository.branches.items()}
                for name, repository in refs.repositories.items()
            }
        )
    with tempfile.TemporaryDirectory() as folder:
        queries = folded(folder, events)
        for number in {len(events), data.draw(st.integers(0, len(events)))}:
            cut = at(number)
            assert [one.name for one in queries.repositories("default", as_at=cut)] == sorted(stood[number])
            for name, branches in stood[number].items():
                found = queries.branches("default", name, transactions=True, as_at=cut)
                assert {one.name: (one.head or "", one.staged_events, one.staged_rows) for one in found} == branches
                assert [one.name for one in found] == sorted(branches)
                shown = queries.branches("default", name, as_at=cut)
                assert [one.name for one in shown] == sorted(one for one in branches if not one.startswith("_tx/"))


class History:
    """Commits 1 and 2 on main, 3 on dev beside 2, and the merge 4 of dev into main."""

    def __init__(self, folder: Path) -> None:
        events: list[Any] = [e.RepositoryCreated(REPO, "main", "s3://b")]
        refs = Refs()

        def add(event: Any) -> str:
            outcome = refs.judge(event, digest(codec.encode(event, header_for(event, len(events)))))
            assert outcome == "accepted", event
            events.append(event)
            branch = refs.repositories["r1"].branches.get(event.branch.parts[1])
            return branch.head if branch is not None else ""

        refs.judge(events[0], b"")
        add(e.ObjectsWritten(MAIN, [OBJECT]))
        self.first = add(e.Committed(MAIN, "1", {"k": "ß"}))
        add(e.BranchCreated(DEV, commit_urn("r1", self.first)))
        add(e.ObjectsDeleted(MAIN, ["a"]))
        self.second = add(e.Committed(MAIN, "2"))
        add(e.ObjectsWritten(DEV, [{**OBJECT, "path": "b"}]))
        self.third = add(e.Committed(DEV, "3"))
        self.before_merge = len(events)
        self.fourth = add(e.Merged(DEV, MAIN, self.third, self.second, "dest-wins", message="4"))
        add(e.BranchCreated(branch_urn("r1", "empty")))
        self.queries = folded(folder, events)

    def resolved(self, text: str, **options: Any) -> str:
        return self.queries.commit("default", "r1", Ref.of(text), **options).id


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_the_log_has_all_that_a_ref_descends_from_the_newest_first_in_pages(history: History) -> None:
    everything = [history.fourth, history.third, history.second, history.first]
    page = history.queries.log("default", "r1", Ref.of("main"))
    assert ([one.id for one in page.items], page.before) == (everything, None)
    assert [one.message for one in page.items] == ["4", "3", "2", "1"]
    merge, _, _, first = page.items
    assert (merge.parents, merge.strategy, merge.branch) == ((history.second, history.third), "dest-wins", "main")
    assert (first.parents, first.strategy, dict(first.metadata), first.actor) == ((), None, {"k": "ß"}, "alice")
    seen: list[str] = []
    before = None
    for _ in range(4):
        page = history.queries.log("default", "r1", Ref.of("main"), limit=1, before=before)
        seen += [one.id for one in page.items]
        before = page.before
    assert (seen, before) == (everything, None)
    assert [one.id for one in history.queries.log("default", "r1", Ref.of("dev")).items] == [
        history.third,
        history.first,
    ]
    then = history.queries.log("default", "r1", Ref.of("main"), as_at=at(history.before_merge))
    assert [one.id for one in then.items] == [history.second, history.first]


@pytest.mark.thorough
def test_refs_are_branches_ids_and_beginnings_with_steps(history: History) -> None:
    for text, commit in {
        "main": history.fourth,
        "main@": history.fourth,
        "dev": history.third,
        history.second: history.second,
        history.second[:8]: history.second,
        "main~1": history.second,
        "main~": history.second,
        "main^": history.second,
        "main^2": history.third,
        "main^0": history.fourth,
        "main~2": history.first,
        "main^2~1": history.first,
        "main^2^": history.first,
        f"{history.third[:10]}~": history.first,
    }.items():
        assert history.resolved(text) == commit, text
    for text in ("main~3", "main^3", "dev^2", "nothing", "abcdef0", "ab"):
        with pytest.raises(UnknownEntityError):
            history.resolved(text)
    with pytest.raises(InputError, match="has no commit yet"):
        history.resolved("empty~1")
    with pytest.raises(UnknownEntityError):
        history.resolved(history.fourth, as_at=at(history.before_merge))


def test_a_beginning_of_several_commits_names_them() -> None:
    ids = ["abcd" + "0" * 60, "abcd" + "1" * 60]
    rows = pl.DataFrame({"id": [*map(bytes.fromhex, ids)], "first": [None, None], "second": [None, None],
                         "place": [1, 2], "time": [1, 2]})  # fmt: skip
    graph = Graph.empty().with_rows(rows)
    refs = object.__new__(named.Refs)
    view: Any = None  # nothing is read
    moment = Moment(view, Bounds(TOPIC, {0: 3}, {}, False), "default", "r1", 0)
    refs.__dict__ |= {"_graph": graph, "_moment": moment, "_rows": {"repo:r1": {"created": 0, "deleted": False}}}
    with pytest.raises(InputError, match="the beginning of 2 commits") as caught:
        refs._begun_so(Ref.of("abcd"))
    assert "abcd0000" in caught.value.hint
    assert (caught.value.data["number"], caught.value.data["commits"]) == (2, tuple(ids))
    assert refs._begun_so(Ref.of("abcd0")) == refs._begun_so(Ref.of("ABCD0")) == ids[0]
    with pytest.raises(UnknownEntityError, match="r1 has no branch and no commit abce"):
        refs._begun_so(Ref.of("abce"))


def test_of_very_many_commits_that_begin_alike_the_first_hundred_are_named() -> None:
    ids = [f"abcd{number:060x}" for number in range(250)]
    none, places = [None] * len(ids), [*range(1, len(ids) + 1)]
    rows = pl.DataFrame({"id": [*map(bytes.fromhex, ids)], "first": none, "second": none, "place": places,
                         "time": places})  # fmt: skip
    refs = object.__new__(named.Refs)
    view: Any = None  # nothing is read
    moment = Moment(view, Bounds(TOPIC, {0: 300}, {}, False), "default", "r1", 0)
    refs.__dict__ |= {"_graph": Graph.empty().with_rows(rows), "_moment": moment}
    refs.__dict__ |= {"_rows": {"repo:r1": {"created": 0, "deleted": False}}}
    with pytest.raises(InputError) as caught:
        refs._begun_so(Ref.of("abcd"))
    assert (caught.value.data["number"], caught.value.data["commits"]) == (250, tuple(ids[:100]))


@pytest.mark.parametrize(
    "text", ["", "~1", "^", "a..b", "main~x", "main~~^x", "main@{1}", "a b", None, 7, "main~9999999999999999999"]
)
def test_what_is_no_ref_is_refused_before_anything_is_read(text: Any) -> None:
    with pytest.raises(InputError) as caught:
        Ref.of(text)
    assert caught.value.code == "bad-ref"


@pytest.mark.thorough
def test_what_is_not_there_is_said(history: History) -> None:
    with pytest.raises(UnknownEntityError, match="repo:r2"):
        history.queries.branches("default", "r2")
    with pytest.raises(UnknownEntityError, match="branch:r1/nope"):
        history.queries.branch("default", "r1", "nope")
    with pytest.raises(UnknownEntityError, match=r"r1 has no commit main~9999999: [0-9a-f]{12} has no parent"):
        history.resolved("main~9999999")
    with pytest.raises(UnknownEntityError, match="repo:r1"):
        history.queries.log("another", "r1", Ref.of("main"))
    with pytest.raises(InputError, match="limit must be"):
        history.queries.log("default", "r1", Ref.of("main"), limit=0)


def test_a_reader_that_begins_after_a_rebuild_finds_the_tables_in_their_new_place(tmp_path: Path) -> None:
    """They stand in the folder of their generation, not in that of the first one."""
    fold = Fold(tmp_path, 1, topic=TOPIC, joined=("repositories",))
    fold.batch([record_of(e.RepositoryCreated(REPO, "main", "s3://b"), 0)])
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", 1)})
    tables = ["entities", "branches", "commits", "objects", "resets"]
    target = fold.lake.begin_generation(tables)
    LakeRebuild(fold.settings, epochs, fold.lake, target, tables, InProcess(), lambda _: None).run()
    fold.lake.swap_to(target.generation)
    queries = RepositoryQueries(Lake(str(tmp_path)), TopicNames(), {TOPIC: 1})
    assert [one.name for one in queries.repositories("default")] == ["r1"]


def test_a_lake_without_repositories_says_so(tmp_path: Path) -> None:
    fold = Fold(tmp_path, 1)
    fold.batch([])
    with pytest.raises(UnavailableError, match="no tables of repositories") as caught:
        RepositoryQueries(Lake(str(tmp_path)), TopicNames(), {TOPIC: 1}).repositories("default")
    assert "metajournal up" in caught.value.hint


@given(st.lists(st.integers(1, 60_000), max_size=2_500))
@settings(max_examples=examples(20), deadline=None)
def test_any_objects_are_cut_into_events_that_fit(lengths: list[int]) -> None:
    blocks = {length: (e.Block("x" * min(length, 1000), 1, "c"),) * (length // 1000 + 1) for length in {*lengths}}
    entries = [e.Entry(f"p{number}", 1, "c", blocks=blocks[length]) for number, length in enumerate(lengths)]
    made = list(pieces(entries))
    assert [entry for piece in made for entry in piece] == entries
    for piece in made:
        event = e.ObjectsWritten(MAIN, piece)
        assert len(codec.encode(event, header_for(event))) <= 1024 * 1024
