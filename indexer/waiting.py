"""Questions to Elasticsearch with a deadline: an outage is waited out until then, and ends in a typed error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from elasticsearch import ApiError, Elasticsearch

from ..schemas.errors import NotYetVisibleError, OperatorError, SearchUnavailableError
from ..schemas.positions import Cut, Position, behind
from .connection import is_away, is_refused, reason_of
from .errors import IndexMissingError
from .mapping import check_mapping, mapping_digest
from .shown import Shown, read_shown

_FIRST_PAUSE_S: Final = 0.05
_MOST_PAUSE_S: Final = 1.0
_POLL_S: Final = 0.02
_T = TypeVar("_T")


class Deadline:
    """The time until which a search may take.

    Args:
        client: asked with the remaining time as its timeout.
        url: where it is, for messages.
        timeout_s: seconds from now.
    """

    def __init__(self, client: Elasticsearch, url: str, timeout_s: float) -> None:
        self._client = client
        self._url = url
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self._end - time.monotonic())

    def ask(self, question: Callable[[Elasticsearch], _T]) -> _T:
        """Ask, again while the server is away.

        Raises:
            SearchUnavailableError: it stayed away.
            OperatorError: it refuses this client.
            ApiError: it answered with another error.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return question(self._client.options(request_timeout=max(0.1, self.left_s)))
            except Exception as error:
                if is_refused(error):
                    message = f"Elasticsearch at {self._url} refuses this client ({reason_of(error)})."
                    raise OperatorError(
                        message, hint="Correct elasticsearch.api_key.", code="search-refused"
                    ) from error
                if not is_away(error):
                    raise
                if self.left_s <= pause_s:
                    said = f"did not answer within {self._timeout_s:g} s ({reason_of(error)})"
                    message = f"Elasticsearch at {self._url} {said}."
                    raise SearchUnavailableError(message, url=self._url) from error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)

    def shown(self, index: str, at_least: Position | Cut | None) -> Shown:
        """What the index shows, once that is at least what is asked for.

        Raises:
            NotYetVisibleError: it did not get there in time.
            IndexMissingError: there is no index (nor was one made in time, where a position is asked for).
            MappingMismatchError: the index was made by another version.
        """
        wanted = wanted_marks(at_least)
        while True:
            try:
                shown = self.ask(lambda client: read_shown(client, index))
            except IndexMissingError:
                if not wanted or self.left_s <= _POLL_S:
                    raise
            else:
                if shown.mapping != mapping_digest():
                    self.ask(lambda client: check_mapping(client, index))
                lacking = behind(shown.vector, wanted)
                if not lacking:
                    return shown
                if self.left_s <= _POLL_S:
                    raise not_yet(lacking, self._timeout_s)
            time.sleep(_POLL_S)


def wanted_marks(at_least: Position | Cut | None) -> Cut:
    """The marks that an index must show: an event's position is inside once the mark is beyond it."""
    if at_least is None:
        return {}
    if isinstance(at_least, Position):
        return {(at_least.topic, at_least.partition): at_least.value + 1}
    return at_least


def not_yet(lacking: dict[tuple[str, int], int], waited_s: float) -> NotYetVisibleError:
    """The error that says how far the index is behind."""
    said = ", ".join(f"{topic}/{partition} by {count:,}" for (topic, partition), count in sorted(lacking.items()))
    return NotYetVisibleError(
        lacking, f"The index is behind the asked position after {waited_s:g} s: {said} positions."
    )


def is_missing_index(error: ApiError) -> bool:
    """Whether an answer means that there is no index behind the alias."""
    return error.status_code == 404 and error.error == "index_not_found_exception"


def is_gone_view(error: ApiError) -> bool:
    """Whether an answer means that a point in time is no longer held (or never was)."""
    text: Any = error.body
    return error.status_code in (400, 404) and "context" in f"{error.error} {text}"
