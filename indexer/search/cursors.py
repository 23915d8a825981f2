"""Cursors: where a page ended, as a text that callers hand back and need not understand.

A cursor holds the point in time that its page was taken from, the order's values of the page's last hit, how far that
page showed the journal, and the digest of the search it belongs to. The values are the index's own in every index
(tiers, names, times, URNs), so a page can go on behind them also where the point in time is gone.
Invariant: whatever text is handed in, what comes out has the shape that its search needs, or InvalidCursorError.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from ...schemas.errors import InvalidPositionError
from ...schemas.positions import Cut, cut_from_json, cut_to_json
from ..errors import InvalidCursorError
from .edits import edits_of
from .options import SearchOptions
from .ranking import plain_word

_INDEX: Final = re.compile(r"[\w.-]{1,255}")
_VIEW: Final = re.compile(r"[\w+/=-]{1,4096}", re.ASCII)
"""A point in time of one index with one shard takes about 200 characters."""
_FIRST: Final[dict[str, tuple[type, ...]]] = {"relevance": (int, float), "name": (str,), "creation_time": (int,)}


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended.

    Args:
        view: id of the point in time.
        index: the index that it is of.
        after: the order's values of the last hit.
        vector: how far of the journal the page showed, at least.
        digest: digest of the search.
        misspelt: which terms of the query, by number, found nothing by themselves.
    """

    view: str
    index: str
    after: list[Any]
    vector: Cut
    digest: str
    misspelt: tuple[int, ...] = ()

    def text(self) -> str:
        """The cursor as a text; callers get its name (kept_cursors)."""
        data = [self.view, self.index, self.after, cut_to_json(self.vector), self.digest]
        data += [list(self.misspelt)] if self.misspelt else []
        return base64.urlsafe_b64encode(json.dumps(data, separators=(",", ":")).encode()).decode()

    @classmethod
    def parse(cls, text: object, options: SearchOptions) -> Cursor:
        """Read a caller's cursor for a search.

        Raises:
            InvalidCursorError: it is none, or belongs to another search.
        """
        try:
            content = json.loads(base64.urlsafe_b64decode(str(text).encode("ascii")))
            view, index, after, vector, digest, misspelt = content if len(content) == 6 else [*content, []]
            if not (_VIEW.fullmatch(view) and _INDEX.fullmatch(index) and isinstance(after, list)):
                raise ValueError("another shape")
            cursor = cls(view, index, after, cut_from_json(vector), str(digest), tuple(misspelt))
        except (ValueError, TypeError, RecursionError, binascii.Error, InvalidPositionError) as error:
            raise InvalidCursorError("This is not a valid search cursor.") from error
        if cursor.digest != options.digest:
            raise InvalidCursorError(
                "The cursor belongs to another search; its query, filters and order must be the same."
            )
        if not (_fits(cursor.after, options.sort) and all(_is_word(number, options) for number in cursor.misspelt)):
            raise InvalidCursorError("This is not a valid search cursor.")
        return cursor


def _is_word(number: object, options: SearchOptions) -> bool:
    """Whether a term of that number may hold a typing error."""
    terms = options.query.terms
    return type(number) is int and 0 <= number < len(terms) and edits_of(plain_word(terms[number])) > 0


def _fits(after: list[Any], sort: str) -> bool:
    """Whether the values are those of an order: its own, then a URN."""
    if len(after) != 2 or not isinstance(after[1], str) or isinstance(after[0], bool):
        return False
    return isinstance(after[0], _FIRST[sort.partition(":")[0]]) and len(repr(after)) < 20_000
