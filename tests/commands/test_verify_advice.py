"""What `verify` says of what does not hold, and which next step it names."""

from __future__ import annotations

import pytest

from metajournal.commands.refolding import RefoldLines, _index_check, _mends
from metajournal.indexer.fill.compare import Comparison
from metajournal.terminal.options import Options

BEHIND = {("metajournal.journal.catalog", 1): 3}


@pytest.mark.parametrize(("count", "next_step"), [(0, "metajournal up"), (2, "metajournal rebuild index")])
def test_an_index_that_is_behind_does_not_hold_and_is_not_to_be_rebuilt_for_that(
    monkeypatch: pytest.MonkeyPatch, count: int, next_step: str
) -> None:
    found = Comparison(compared=5, count=count, behind=BEHIND)
    monkeypatch.setattr("metajournal.indexer.fill.compare.compare_index", lambda *_, **__: found)
    check = _index_check(Options(None, ()), RefoldLines(None))
    assert not check.ok
    assert "index 3 positions behind; is the indexer running? (metajournal status)" in check.text
    assert check.failures == ("metajournal.journal.catalog/1 by 3",)
    [advice] = _mends([check])
    assert next_step in advice
