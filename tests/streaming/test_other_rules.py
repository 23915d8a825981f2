"""A batch is ended by the rules that began it, and judged by one set of them; a domain's count for it alone."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, cast

import pytest

from metajournal.lake.table import Reached
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.rules import digest as digest_module
from metajournal.rules.digest import digests_of_topics, served_digests
from metajournal.schemas.errors import StreamError
from metajournal.schemas.registry import served_domains
from metajournal.streaming import plan as plan_module
from metajournal.streaming.plan import Plan, WorkerRulesError
from metajournal.streaming.rebuild import InProcess, LakeRebuild
from metajournal.streaming.spark.wide import SparkTasks
from tests.streaming.harness import TOPIC, Crash, EndsAt, Fold, LocalTasks, registered, table_of
from tests.streaming.spark_here import Frame


def others_of(monkeypatch: pytest.MonkeyPatch, *domains: str) -> None:
    """From here on this process has other rules of some domains."""
    own = digest_module.digest_of
    other = {name: f"other rules of {name}" for name in domains}
    monkeypatch.setattr(digest_module, "digest_of", lambda name: other.get(name) or own(name))


def killed(path: Path, *, wide: bool = False) -> Fold:
    """A stream that ended in its second batch, behind the history tables: they are ahead of the journal table."""
    fold = Fold(path, 1)
    records = registered(4)
    fold.batch(records[:2], wide=wide)
    fold.engine._crash = EndsAt("after-history")
    with pytest.raises(Crash):
        fold.batch(records, wide=wide)
    fold.start()
    return fold


@pytest.mark.thorough
@pytest.mark.parametrize("wide", [False, True])
def test_a_batch_that_a_domains_other_rules_began_is_refused_by_that_domain_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    fold = killed(tmp_path, wide=wide)
    fold.engine.check_rules()
    own = served_digests()
    assert fold.lake.tables["entities"].rules() == {name: own[name] for name in ("catalog", "lineage")}
    assert fold.lake.journal.rules() == own
    with monkeypatch.context() as patch:
        others_of(patch, "files")  # none of its events stand in this topic
        fold.engine.check_rules()
    for domain in ("catalog", "lineage"):
        with monkeypatch.context() as patch:
            others_of(patch, domain)
            with pytest.raises(StreamError) as caught:
                fold.engine.check_rules()
        assert caught.value.code == "other-rules"
        said = (
            "Table 'entities' holds rows ahead of the journal table that were written under other rules of the domain "
            f"'{domain}'."
        )
        assert caught.value.message == said
        assert caught.value.hint == "Finish that batch with the version that started it, then upgrade."
    fold.batch(registered(4), wide=wide)
    others_of(monkeypatch, "catalog", "lineage", "files")
    fold.engine.check_rules()  # nothing is ahead


def test_a_batch_of_the_first_version_which_told_one_digest_for_all_is_refused_where_it_is_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = killed(tmp_path)
    monkeypatch.setattr("metajournal.lake.table.digests_text", lambda digests: digests["catalog"])
    table = fold.lake.tables["entities"]
    table.append(table.schema.empty_table(), Reached({}, {}, {"catalog": "0" * 64}))
    monkeypatch.undo()
    fold.start()
    with pytest.raises(StreamError, match="Table 'entities' holds rows ahead") as caught:
        fold.engine.check_rules()
    assert caught.value.code == "other-rules"


def test_a_table_that_holds_nothing_ahead_is_taken_over_from_the_first_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = registered(4)
    fold = Fold(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr("metajournal.lake.table.digests_text", lambda digests: "0" * 64)
        fold.batch(records[:2])
    fold.start()
    originals = digests_of_topics(served_domains())  # a domain that joins later was none of that version's
    assert fold.lake.journal.rules() == dict.fromkeys(originals, "0" * 64)
    fold.engine.check_rules()
    fold.batch(records)
    assert fold.lake.journal.rules() == served_digests()
    assert fold.lake.tables["entities"].rules() == originals | {"files": "0" * 64}  # no event of its topic came since


def test_a_commit_keeps_what_the_table_knew_of_other_domains(tmp_path: Path) -> None:
    lake = Fold(tmp_path, 1).lake
    for rules in ({"files": "a", "catalog": "b"}, {"catalog": "c"}, {}):
        table = lake.tables["entities"]
        table.append(table.schema.empty_table(), Reached({}, {}, rules))
    assert Fold(tmp_path, 1).lake.tables["entities"].rules() == {"files": "a", "catalog": "c"}


class Worker(LocalTasks):
    """Tasks on a machine with other rules, or without a domain."""

    def __init__(self, *given: Any, patch: pytest.MonkeyPatch, own: str | None) -> None:
        super().__init__(*given)
        self._patch, self._own = patch, own

    def fold(self, plan: Any) -> Any:
        with self._patch.context() as patch:
            patch.setattr(plan_module, "digest_of", lambda name: self._own)
            if self._own is None:
                patch.setattr(plan_module, "domain_named", lambda name: None)
            return super().fold(plan)


@pytest.mark.parametrize(("own", "said"), [("0" * 64, "has 000000000000."), (None, "does not have that domain.")])
def test_a_task_refuses_to_judge_by_other_rules_than_the_drivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None, said: str
) -> None:
    fold = Fold(tmp_path, 1)
    records = registered(3)
    tasks = Worker(table_of(records), fold.topics, patch=monkeypatch, own=own)
    with pytest.raises(WorkerRulesError) as caught:
        fold.engine.run_wide(tasks, {(TOPIC, 0): 3})
    assert caught.value.code == "worker-rules-differ"
    assert "of the domain 'catalog'; the worker " in caught.value.message
    assert caught.value.message.endswith(said)
    assert (
        "Install the driver's version of metajournal, and of each package that provides a domain, on every worker"
        in caught.value.hint
    )
    again = pickle.loads(pickle.dumps(caught.value))  # as it comes from a worker
    assert (type(again), again.message, again.domain) == (WorkerRulesError, caught.value.message, "catalog")
    assert (fold.rows(), fold.journal(), fold.topics.records) == ([], [], {})
    fold.batch(records, wide=True)
    assert len(fold.journal()) == 3


def test_a_sparks_worker_says_so_itself(tmp_path: Path) -> None:
    """Spark would try three times again, and make a text of it."""
    fold = Fold(tmp_path, 1)
    other = Plan({}, {}, (), fold.engine.names, {}, None, {"catalog": "0" * 64})
    batches = table_of(registered(3)).combine_chunks().to_batches()
    with pytest.raises(WorkerRulesError, match="The driver has the rules 000000000000 of the domain 'catalog'"):
        SparkTasks(cast(Any, Frame(batches)), fold.settings).fold(other)


def test_a_rebuilds_tasks_refuse_the_same_and_tell_the_rules_that_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = Fold(tmp_path, 1)
    fold.batch(registered(3))
    target = Lake(str(tmp_path)).begin_generation(["entities"])
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", 1)}, frozenset())
    rebuild = LakeRebuild(fold.settings, epochs, fold.lake, target, ["entities"], InProcess())
    with monkeypatch.context() as patch:
        patch.setattr(plan_module, "digest_of", lambda name: "0" * 64)
        with pytest.raises(WorkerRulesError):
            rebuild.round(fold.engine.marks)
    rebuild.round(fold.engine.marks)
    own = served_digests()
    assert target.tables["entities"].rules() == {name: own[name] for name in ("catalog", "lineage")}
