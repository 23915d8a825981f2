"""What a question about archived files must look like: values, checked as they are made, before anything is read.

Source: docs/concepts.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...schemas.errors import FilesQueryError
from ...schemas.times import time_ms, time_shown


class FilesQuestion(NamedTuple):
    """Which files; made by `of`.

    Attributes:
        where: of one server, or None.
        what: of one program, or None.
        start: milliseconds since the epoch, with `end`; a file that ends at it is found.
        end: milliseconds since the epoch; a file that starts at it is found.
        work_id: instead of times.
    """

    where: str | None
    what: str | None
    start: int | None
    end: int | None
    work_id: str | None

    @classmethod
    def of(
        cls, *, where: str | None = None, what: str | None = None, start: Any = None, end: Any = None,
        work_id: str | None = None,
    ) -> FilesQuestion:  # fmt: skip
        """A question from what somebody asks.

        Args:
            start, end: as `schemas.times.time_ms` takes them.
        Raises:
            FilesQueryError: with a code for each way in which it cannot be: `no-arguments`, `work-id-with-times`,
                `one-time-only`, `unreadable-time`, `start-after-end`, `bad-name`.
        """
        check_names(where=where, what=what, work_id=work_id)
        if work_id is None and start is None and end is None:
            raise FilesQueryError("Give either a work_id, or both start and end.", code="no-arguments")
        if work_id is not None and (start is not None or end is not None):
            raise FilesQueryError("Give a work_id or times, not both.", code="work-id-with-times")
        if work_id is not None:
            return cls(where, what, None, None, work_id)
        if start is None or end is None:
            missing = "start" if start is None else "end"
            raise FilesQueryError(f"Times need both start and end; {missing} is missing.", code="one-time-only")
        first, last = _time("start", start), _time("end", end)
        if first > last:
            raise FilesQueryError(
                f"start ({time_shown(first)}) is after end ({time_shown(last)}).",
                code="start-after-end",
                hint="Correct the times: end must not be before start.",
            )
        return cls(where, what, first, last, None)


def check_names(**given: Any) -> None:
    """Refuse names that are not text. Raises: FilesQueryError."""
    for name, value in given.items():
        if value is not None and (not isinstance(value, str) or not value):
            raise FilesQueryError(f"{name} must be text, not {value!r:.80}.", code="bad-name")


def _time(name: str, value: Any) -> int:
    try:
        return time_ms(value)
    except ValueError as error:
        raise FilesQueryError(
            f"{name}: {error}.",
            code="unreadable-time",
            hint="Write ISO 8601 (a time without a zone is UTC), or seconds or milliseconds since 1970.",
        ) from None
