"""What a question about lineage must look like: values, checked as they are made, before anything is read.

Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple, TypeAlias, cast

from ...schemas.arguments import time_of
from ...schemas.errors import InputError
from ...schemas.kinds import a_kind
from ...schemas.urn import Urn
from .events import LATEST_AT_MS, NO_DATA
from .walk import DIRECTIONS, Direction

LEVELS: Final = 10
NODES: Final = 1_000
MOST_NODES: Final = 100_000
PAGE: Final = 100
MOST_PAGE: Final = 1_000


Data: TypeAlias = "Urn | str | Collection[Urn | str]"
"""Data that lineage begins at: one or several."""


class LineageQuestion(NamedTuple):
    """Who touched data in a window of time, what else these touched, and so on; made by `of`.

    Attributes:
        data: where to begin; several, sorted.
        start_ms, end_ms: a run counts when it starts before the end and has not stopped before the start,
            milliseconds UTC.
        levels: how many times to go from data to programs to data.
        direction: both; or upstream, to who wrote it and what these read; or downstream, the reverse.
        limit: most nodes, data and programs together.
        as_of: only facts about this time or an earlier one, milliseconds UTC; a run that stopped later has not
            stopped. None: all facts.
    """

    data: tuple[Urn, ...]
    start_ms: int
    end_ms: int
    levels: int
    direction: Direction
    limit: int
    as_of: int | None

    @classmethod
    def of(
        cls, data: Data, start: Any = None, end: Any = None, *, levels: int = LEVELS, direction: str = "both",
        limit: int = NODES, as_of: Any = None,
    ) -> LineageQuestion:  # fmt: skip
        """A question from what somebody asks.

        Args:
            start, end, as_of: as `schemas.arguments.time_of` takes them; open ends are the beginning and the end of
                time.
        Raises:
            InputError: a bound or number cannot be, or the URN is no data's.
        """
        urns = tuple(sorted({Urn.parse(one) for one in ([data] if isinstance(data, str) else data)}))
        for urn in urns:
            if urn.kind in NO_DATA:
                raise InputError(
                    f"Lineage starts at data, and {urn} is not data.", hint="`runs` lists the runs of a program."
                )
        start_ms, end_ms = _window(start, end)
        by = _fact_time(as_of)
        _check_number("levels", levels, 1, 1_000)
        _check_number("limit", limit, 1, MOST_NODES)
        if direction not in DIRECTIONS:
            raise InputError(f"The direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}.")
        if not 1 <= len(urns) <= limit:
            raise InputError(f"Lineage starts at 1 to {limit:,} data (limit), not at {len(urns):,}.")
        return cls(urns, start_ms, end_ms, levels, cast(Direction, direction), limit, by)

    def at_any_time(self) -> LineageQuestion:
        """The same question in no window, of all facts."""
        return self._replace(start_ms=0, end_ms=LATEST_AT_MS + 1, as_of=None)


class RunsQuestion(NamedTuple):
    """The runs of a program in a window of time (as of LineageQuestion); made by `of`."""

    urn: Urn
    start_ms: int
    end_ms: int
    as_of: int | None

    @classmethod
    def of(cls, program: Urn | str, start: Any = None, end: Any = None, *, as_of: Any = None) -> RunsQuestion:
        """A question from what somebody asks. Raises: InputError: it is no program's URN, or a bound cannot be."""
        return cls(_of_kind(program, "program"), *_window(start, end), _fact_time(as_of))


class RunQuestion(NamedTuple):
    """A run, and what it touched; made by `of`."""

    urn: Urn
    as_of: int | None

    @classmethod
    def of(cls, run: Urn | str, *, as_of: Any = None) -> RunQuestion:
        """A question from what somebody asks. Raises: InputError: it is no run's URN, or no time."""
        return cls(_of_kind(run, "run"), _fact_time(as_of))


class WriteQuestion(NamedTuple):
    """The latest write to data, by any time; made by `of`."""

    data: Urn
    as_of: int | None

    @classmethod
    def of(cls, data: Urn | str, *, as_of: Any = None) -> WriteQuestion:
        """A question from what somebody asks. Raises: InputError: it is not a valid URN, or not a valid time."""
        return cls(Urn.parse(data), None if as_of is None else time_of("as_of", as_of))


def check_limit(limit: int) -> None:
    """Refuse what is not a number of items of a page. Raises: InputError."""
    _check_number("limit", limit, 1, MOST_PAGE)


def _of_kind(urn: Urn | str, kind: str) -> Urn:
    parsed = Urn.parse(urn)
    if parsed.kind != kind:
        raise InputError(f"{parsed} is not {a_kind(kind)}.", hint=f"The URN of {a_kind(kind)} begins with {kind}:.")
    return parsed


def _window(start: Any, end: Any) -> tuple[int, int]:
    """A window in milliseconds; open ends are the beginning and the end of time."""
    start_ms = 0 if start is None else time_of("start", start)
    end_ms = LATEST_AT_MS + 1 if end is None else time_of("end", end)
    for name, value in (("start", start_ms), ("end", end_ms)):
        _check_number(name, value, 0, LATEST_AT_MS + 1)
    if start_ms > end_ms:
        raise InputError(
            f"The window starts at {start_ms} and ends at {end_ms}.", hint="It must not end before its start."
        )
    return start_ms, end_ms


def _fact_time(as_of: Any) -> int | None:
    """The time of `as_of` in milliseconds."""
    if as_of is None:
        return None
    time_ms = time_of("as_of", as_of)
    _check_number("time of as_of", time_ms, 0, LATEST_AT_MS)
    return time_ms


def _check_number(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"The {name} must be a whole number from {least} to {most:,}, not {value!r}.")
