"""What `status` makes of what processes left behind; no service runs."""

from __future__ import annotations

import pytest

from metajournal.stack.status import Stage, _behind


@pytest.mark.parametrize(
    ("lake_s", "index_s", "told_s"),
    [(40.0, 0.0, 40.0), (0.5, 3.0, 3.0), (None, 0.0, None), (0.5, None, None)],
)
def test_the_index_is_never_said_to_be_fresher_than_the_lake(
    lake_s: float | None, index_s: float | None, told_s: float | None
) -> None:
    """Nothing comes to the indexer while the stream hangs, so by itself it would say that all is shown."""
    told = _behind(Stage("index", index_s, {"t/0": 7}), Stage("lake", lake_s, {}))
    assert told == Stage("index", told_s, {"t/0": 7})
