"""Digests that a rebuild makes ahead of time are those that it asks for, or they do not count."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from metajournal.domains.catalog.events import EntityRegistered
from metajournal.lake.digest import table_digest
from metajournal.lake.tables import Table
from metajournal.schemas.urn import Urn
from metajournal.streaming import early_digests
from metajournal.streaming.early_digests import EarlyDigests
from metajournal.streaming.rebuild import Pool
from tests.streaming.harness import TOPIC, Fold
from tests.streaming.test_engine import PARTITIONS, journal_of
from tests.streaming.test_rebuild_lake import rebuild


@pytest.fixture(autouse=True)
def _every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_digests, "FEWEST_BYTES", 0)


@pytest.fixture
def fold(tmp_path: Path) -> Fold:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal_of(*(EntityRegistered(Urn.parse(f"dataset:d/n{number}")) for number in range(9))))
    return fold


def test_a_digest_is_given_once_and_below_its_own_marks_alone(fold: Fold) -> None:
    table, marks = fold.lake.tables["entities"], fold.engine.marks
    with EarlyDigests() as early:
        assert early.of(table, marks) is None
        early.begin(table, marks)
        early._made[table.uri][1].result(60)
        assert early.of(table, marks) == table_digest(table.delta, marks)
        assert early.of(table, marks) is None
        early.begin(table, marks)
        early._made[table.uri][1].result(60)
        assert early.of(table, {(TOPIC, 0): 1}) is None


def test_one_that_failed_or_has_not_begun_is_left_to_whoever_asks(fold: Fold) -> None:
    table, marks = fold.lake.tables["entities"], fold.engine.marks
    (file,) = [Path(one) for one in table.delta.file_uris()][:1]
    file.write_bytes(b"no parquet")
    with EarlyDigests() as early:
        early.begin(table, marks)
        assert early._made[table.uri][1].exception(60) is not None
        assert early.of(table, marks) is None
        early.begin(Table("entities", "/nowhere", {}), marks)
        assert early.of(Table("entities", "/nowhere", {}), marks) is None


def test_a_small_table_is_left_to_whoever_asks(fold: Fold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_digests, "FEWEST_BYTES", 1 << 30)
    with EarlyDigests() as early:
        early.begin(fold.lake.tables["entities"], fold.engine.marks)
        assert not early._made


def test_a_rebuild_takes_them_and_is_the_same(fold: Fold, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str | None] = []
    plain = EarlyDigests.of

    def of(early: EarlyDigests, *asked: object) -> str | None:
        if (begun := early._made.get(asked[0].uri)) is not None:  # type: ignore[attr-defined]
            begun[1].result(60)
        taken.append(plain(early, *asked))  # type: ignore[arg-type]
        return taken[-1]

    monkeypatch.setattr(EarlyDigests, "of", of)
    assert rebuild(fold).run().equal
    assert table_digest(fold.lake.tables["entities"].delta, fold.engine.marks) in taken


def _squared(number: int) -> int:
    return number * number


def _killed(pid: int) -> int:
    if os.getpid() != pid:
        os.kill(os.getpid(), signal.SIGKILL)
    return pid


@pytest.mark.thorough
def test_what_is_computed_beside_is_the_same_also_where_the_processes_die() -> None:
    with Pool() as pool:
        waiting = [pool.beside(_squared, number) for number in range(30)]
        assert [one() for one in waiting] == [one() for one in waiting] == [number**2 for number in range(30)]
        assert pool.beside(_killed, os.getpid())() == os.getpid()
        assert pool.beside(_squared, 3)() == 9
