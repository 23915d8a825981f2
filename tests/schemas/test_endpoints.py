"""What a request's query says, read by the rows of the table of endpoints."""

from __future__ import annotations

import pytest

from metajournal.schemas.endpoints import whole_number
from metajournal.schemas.errors import InputError

LARGEST = (1 << 63) - 1


def test_the_largest_whole_number_that_is_named_is_taken() -> None:
    assert whole_number("cursor", str(LARGEST), LARGEST) == LARGEST


@pytest.mark.parametrize("text", ["", "-1", "0", "1.0", "٣", str(LARGEST + 1), "9" * 19, "1" * 5_000])
def test_what_is_no_whole_number_within_the_bounds_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cursor must be a whole number from 1 to 9,223,372,036,854,775,807"):
        whole_number("cursor", text, LARGEST)
