"""Questions about lineage: their points, windows, pages and numbers, checked before anything is read.

A page's cursor carries the cut of the first page, so that pages skip and double nothing while facts arrive, and a sign
of the question, so that it is not taken for another one's. What a question reads is `lineage_queries`' matter.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..schemas.errors import InputError
from ..schemas.events.lineage import LATEST_AT_MS
from ..schemas.hashing import canonical_json, digest
from ..schemas.positions import Cut, Position
from ..schemas.urn import Urn

Point = Position | int | Cut
"""A position (that event included), milliseconds UTC, or next positions by topic and partition."""

LEVELS: Final = 10
NODES: Final = 1_000
MOST_NODES: Final = 100_000
PAGE: Final = 100
MOST_PAGE: Final = 1_000


class Page(NamedTuple):
    """Some of the answer's items, as JSON values; `cursor` asks for the next ones, None: there are none."""

    items: list[dict[str, Any]]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """A cut of the catalog's journal: rows below a position of each partition, and up to a time.

    Attributes:
        below: next position by partition; of a partition that is not named nothing is seen.
        time_ms: rows of a greater system_time are not seen, but for those of `whole`; None: no such bound.
        whole: the partition that a position bounds by itself.
        final: nothing that is still to come can add a row to it.
    """

    below: Mapping[int, int]
    time_ms: int | None = None
    whole: int | None = None
    final: bool = True

    def condition(self) -> str:
        """The rows inside, as SQL."""
        parts = []
        for partition, below in sorted(self.below.items()):
            part = f"journal_partition = {partition} and logical_timestamp < {below}"
            if self.time_ms is not None and partition != self.whole:
                part += f" and epoch_us(system_time) <= {self.time_ms * 1000}"
            parts.append(f"({part})")
        return f"({' or '.join(parts)})" if parts else "false"


_PLACES: Final = ([int, str], [str, str, str])
"""What a page begins behind: a run's begin and URN, or an access's data, kind and component."""


class Asked(NamedTuple):
    """A question whose answer comes in pages: what a cursor must agree with."""

    what: str
    tenant: str
    urn: str
    start_ms: int
    end_ms: int
    at: Point | None

    def cursor(self, seen: Seen, after: list[Any]) -> str:
        """Where the next page begins, and the cut that it is of."""
        cut = [sorted(seen.below.items()), seen.time_ms, seen.whole]
        return base64.urlsafe_b64encode(canonical_json([self._sign(), cut, after])).decode().rstrip("=")

    def resumed(self, cursor: str) -> tuple[Seen, list[Any]]:
        """The cut and the place of a cursor. Raises: InputError: it is none of this question."""
        try:
            read = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            sign, (below, time_ms, whole), after = read
            seen = Seen({int(one): int(position) for one, position in below}, _number(time_ms), _number(whole))
            good = sign == self._sign() and [type(one) for one in after] in _PLACES
        except (ValueError, TypeError, RecursionError):
            good = False
        if not good:
            raise InputError(
                "The cursor is not of this question.", hint="Ask with the words of the first page, or without a cursor."
            )
        return seen, list(after)

    def _sign(self) -> str:
        at = str(self.at) if not isinstance(self.at, Mapping) else sorted(map(str, self.at.items()))
        return digest(canonical_json([*self[:-1], at])).hex()[:16]


def check_window(start_ms: int, end_ms: int) -> None:
    for name, value in (("start", start_ms), ("end", end_ms)):
        check_number(name, value, 0, LATEST_AT_MS + 1)
    if start_ms >= end_ms:
        raise InputError(f"The window begins at {start_ms} and ends at {end_ms}.", hint="It must end after its start.")


def check_number(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"The {name} must be a whole number from {least} to {most:,}, not {value!r}.")


def check_kind(urn: Urn, kind: str) -> None:
    if urn.kind != kind:
        raise InputError(f"{urn} is no {kind}.", hint=f"The URN of a {kind} begins with {kind}:.")


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
