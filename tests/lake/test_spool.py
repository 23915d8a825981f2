"""What is set aside is what comes back, in memory or in a file; and a kill leaves none of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from metajournal.lake.group_rows import Span
from metajournal.lake.spool import Spool


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"path": [f"{number:05}" for number in range(first, first + count)], "size": range(count)})


@pytest.mark.parametrize("most_bytes", [0, 2_500, 1 << 20])
def test_tables_come_back_as_they_were_set_aside_wherever_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Spool("path", most_bytes) as spool:
        for number in (1, 2):
            for chunk in range(3):
                spool.add(number, rows(1_000 * number + 100 * chunk, 60))
        spool.add(1, rows(0, 0))
        assert [chunk["path"].to_pylist() for chunk in spool.chunks(2)] == [
            rows(2_000 + 100 * chunk, 60)["path"].to_pylist() for chunk in range(3)
        ]
        assert [chunk["path"][0].as_py() for chunk in spool.chunks(1, "01059", "01100")] == ["01000", "01100"]
        assert spool.spans(1)[1] == Span("01100", "01159", 60)
        spool.rename(1, 2)
        assert [span.least for span in spool.spans(2)] == ["01000", "01100", "01200"]
        assert not spool.spans(1)
        held = next(spool.chunks(2))
        spool.drop(2)
        assert list(spool.chunks(2)) == []
        assert held.equals(rows(1_000, 60))
        assert list(tmp_path.iterdir()) == []


def test_room_that_a_dropped_table_had_is_used_again() -> None:
    spool = Spool("path", rows(0, 10).nbytes)
    for number in range(3):
        spool.add(number, rows(0, 10))
        spool.drop(number)
    assert spool._file is None
