"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metajournal.schemas.encoding.wire import MAX_LONG, MIN_LONG
from metajournal.schemas.times import time_ms


class Nowhere(tzinfo):
    """A zone that does not know where it is."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    dst = tzname = utcoffset

    def __repr__(self) -> str:
        return "nowhere"


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
        ("-100000000000", -100_000_000_000_000),
        ("-100000000001", -100_000_000_001),
        ("+1426809920", 1_426_809_920_000),
        ("-0.0001", -1),
        ("2015-03-20T00:05:20.345Z", 1_426_809_920_345),
        ("2015-03-20T00:05:20.345", 1_426_809_920_345),
        ("2015-03-20 02:05:20.345+02:00", 1_426_809_920_345),
        ("2015-03-20T00:05:20.345999Z", 1_426_809_920_345),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("2015-03-20", 1_426_809_600_000),
        (datetime(2015, 3, 20, 1, tzinfo=timezone(timedelta(hours=1))), 1_426_809_600_000),
    ],
)
def test_numbers_are_milliseconds_and_text_is_iso_or_a_number_by_its_size(given: Any, wanted: int) -> None:
    assert time_ms(given) == wanted


@pytest.mark.parametrize(
    "given",
    [
        *(None, True, 1.5, float("nan"), float("inf"), "", "x", "1e12", "٣", "1_000", "nan", "infinity", b"1", []),
        *(1 << 63, "9" * 30, "2015-13-01", "2015-03-20T25:00", " 5", "0x10", "-", "\ud800", "a\0", 1e300),
        -(1 << 63) - 1,
        *(datetime(2015, 3, 20), datetime(2015, 3, 20, tzinfo=Nowhere())),
    ],
)
def test_anything_else_is_refused_with_a_sentence(given: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^.{1,80} is not a valid time \(.+\), for example 2026-11-23T10:00"
    ) as caught:
        time_ms(given)
    assert str(caught.value).startswith(repr(given)[:77])


@pytest.mark.parametrize("example", ["2026-11-23T10:00:00Z", "1700000000", "1700000000000"])
def test_the_examples_of_the_sentence_are_times_of_this_century(example: str) -> None:
    assert 1_600_000_000_000 < time_ms(example) < 1_800_000_000_000


def test_a_datetime_without_a_zone_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"without a zone; datetime\.replace\(tzinfo=UTC\) gives it one"):
        time_ms(datetime(2015, 3, 20))


@pytest.mark.parametrize("given", ["2015-03-20T00:05:20.345", "2015-03-20", "1426809920", "1426809920345", "x", ""])
def test_where_a_zone_is_required_text_without_one_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="is not a valid time"):
        time_ms(given, zone_required=True)
    assert time_ms("2015-03-20T00:05:20.345Z", zone_required=True) == 1_426_809_920_345


@given(st.integers(MIN_LONG, MAX_LONG))
def test_a_number_is_milliseconds_and_as_text_goes_by_its_size(number: int) -> None:
    assert time_ms(number) == number
    if abs(number) > 10**11:
        assert time_ms(str(number)) == number
    else:
        assert time_ms(str(number)) == number * 1000


@given(st.one_of(st.text(), st.floats(), st.binary(), st.booleans(), st.integers(), st.datetimes(), st.none()))
@example("1e400")
def test_anything_is_a_time_of_64_bits_or_refused(given: Any) -> None:
    try:
        ms = time_ms(given)
    except ValueError:
        return
    assert type(ms) is int
    assert MIN_LONG <= ms <= MAX_LONG


@given(st.datetimes(timezones=st.timezones()))
def test_a_moment_is_the_same_as_a_datetime_and_as_its_text(moment: datetime) -> None:
    moment = moment.astimezone(timezone(moment.utcoffset() or timedelta()))
    assert time_ms(moment) == time_ms(moment.isoformat()) == time_ms(moment.isoformat(), zone_required=True)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_iso_text_is_the_moment_that_it_names(moment: datetime) -> None:
    wanted = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert time_ms(moment.isoformat()) == time_ms(moment.isoformat() + "Z") == wanted
    assert time_ms(moment.replace(tzinfo=UTC)) == wanted
