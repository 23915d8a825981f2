"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.schemas.times import time_ms


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (1_426_809_920_345, 1_426_809_920_345),
        (5, 5),
        (-5, -5),
        (1_426_809_920_345.0, 1_426_809_920_345),
        ("100000000001", 100_000_000_001),
        ("100000000000", 100_000_000_000_000),
        ("1426809920", 1_426_809_920_000),
        ("1426809920.345", 1_426_809_920_345),
        ("1426809920345.9", 1_426_809_920_345),
        ("0", 0),
        ("-1", -1000),
        ("-0.0001", -1),
        ("2015-03-20T00:05:20.345Z", 1_426_809_920_345),
        ("2015-03-20T00:05:20.345", 1_426_809_920_345),
        ("2015-03-20 02:05:20.345+02:00", 1_426_809_920_345),
        ("2015-03-20T00:05:20.345999Z", 1_426_809_920_345),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("2015-03-20", 1_426_809_600_000),
        (datetime(2015, 3, 20), 1_426_809_600_000),
        (datetime(2015, 3, 20, 1, tzinfo=timezone(timedelta(hours=1))), 1_426_809_600_000),
    ],
)
def test_numbers_are_milliseconds_and_text_is_iso_or_a_number_by_its_size(given: Any, wanted: int) -> None:
    assert time_ms(given) == wanted


@pytest.mark.parametrize(
    "given",
    [
        *(None, True, 1.5, float("nan"), float("inf"), "", "x", "1e12", "٣", "1_000", "nan", "infinity", b"1", []),
        *(1 << 63, "9" * 30, "2015-13-01", "2015-03-20T25:00", " 5", "0x10", "-"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(given: Any) -> None:
    with pytest.raises(ValueError, match="must "):
        time_ms(given)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_iso_text_is_the_moment_that_it_names(moment: datetime) -> None:
    wanted = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert time_ms(moment.isoformat()) == time_ms(moment.isoformat() + "Z") == time_ms(moment) == wanted
