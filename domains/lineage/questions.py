"""Questions about lineage: their points, windows, pages and numbers, checked before anything is read.

A page's cursor carries the cut of the first page, so that pages skip and double nothing while facts arrive, and a sign
of the question, so that it is not taken for another one's. What a question reads is `lineage_queries`' matter.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ...lake.cuts import At, Bounds
from ...schemas.errors import InputError
from ...schemas.hashing import canonical_json, digest
from ...schemas.urn import Urn
from .events import LATEST_AT_MS

LEVELS: Final = 10
NODES: Final = 1_000
MOST_NODES: Final = 100_000
PAGE: Final = 100
MOST_PAGE: Final = 1_000


class Page(NamedTuple):
    """Some of the answer's items, as JSON values; `cursor` asks for the next ones, None: there are none."""

    items: list[dict[str, Any]]
    cursor: str | None


_PLACES: Final = ([int, str], [str, str, str])
"""What a page begins behind: a run's begin and URN, or an access's data, kind and component."""


class Asked(NamedTuple):
    """A question whose answer comes in pages: what a cursor must agree with."""

    what: str
    tenant: str
    urn: str
    start_ms: int
    end_ms: int
    at: At | None

    def cursor(self, bounds: Bounds, after: list[Any]) -> str:
        """Where the next page begins, and the cut that it is of."""
        held = [self._sign(), bounds.to_json(), after]
        return base64.urlsafe_b64encode(canonical_json(held)).decode().rstrip("=")

    def resumed(self, cursor: str, topic: str) -> tuple[Bounds, list[Any]]:
        """The cut and the place of a cursor. Raises: InputError: it is none of this question."""
        try:
            sign, held, after = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            bounds = Bounds.from_json(topic, held, True)
            good = sign == self._sign() and [type(one) for one in after] in _PLACES
        except (ValueError, TypeError, RecursionError):
            good = False
        if not good:
            raise InputError(
                "The cursor is not of this question.", hint="Ask with the words of the first page, or without a cursor."
            )
        return bounds, list(after)

    def _sign(self) -> str:
        at = str(self.at) if not isinstance(self.at, Mapping) else sorted(map(str, self.at.items()))
        return digest(canonical_json([*self[:-1], at])).hex()[:16]


def check_window(start_ms: int, end_ms: int) -> None:
    for name, value in (("start", start_ms), ("end", end_ms)):
        check_number(name, value, 0, LATEST_AT_MS + 1)
    if start_ms > end_ms:
        raise InputError(
            f"The window begins at {start_ms} and ends at {end_ms}.", hint="It must not end before its start."
        )


def check_as_of(as_of: Any) -> None:
    if as_of is not None:
        check_number("time of as_of", as_of, 0, LATEST_AT_MS)


def check_number(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"The {name} must be a whole number from {least} to {most:,}, not {value!r}.")


def check_kind(urn: Urn, kind: str) -> None:
    if urn.kind != kind:
        raise InputError(f"{urn} is no {kind}.", hint=f"The URN of a {kind} begins with {kind}:.")
