"""Questions to Elasticsearch with a deadline: an outage is waited out until then, and ends in a typed error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from elasticsearch import ApiError, Elasticsearch

from ..schemas.arguments import Inside, marks_of
from ..schemas.errors import NotYetVisibleError, OperatorError, SearchUnavailableError
from ..schemas.positions import Cut, behind, behind_text
from ..schemas.setting_keys import url_shown
from .connection import is_away, is_no_connection, is_refused, reason_of
from .errors import IndexMissingError, InvalidQueryError
from .mapping import SEARCHED_DIGESTS, check_mapping, mapping_digest
from .shown import Shown, read_shown

_FIRST_PAUSE_S: Final = 0.05
_MOST_PAUSE_S: Final = 1.0
_POLL_S: Final = 0.02
_MOST_TIMEOUT_S: Final = 86_400
_SLOW_S: Final = 2.0
"""A server that has been silent for less may just be slow: what it said last still counts."""
_T = TypeVar("_T")


class Deadline:
    """The time until which a search may take.

    Args:
        client: asked with the remaining time as its timeout.
        url: where it is, for messages.
        timeout_s: seconds from now.
        refused_s: seconds that a server may refuse connections; as long as the time-out where None.
    """

    def __init__(self, client: Elasticsearch, url: str, timeout_s: float, *, refused_s: float | None = None) -> None:
        self._client = client
        self._url = url_shown(url)
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s
        self._refused_s = timeout_s if refused_s is None else min(timeout_s, refused_s)

    @property
    def left_s(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self._end - time.monotonic())

    def ask(
        self, question: Callable[[Elasticsearch], _T], *, is_final: Callable[[Exception], bool] = lambda error: False
    ) -> _T:
        """Ask, again while the server is away.

        Args:
            is_final: errors that are raised at once, whatever they say of the server.
        Raises:
            SearchUnavailableError: it stayed away.
            OperatorError: it refuses this client.
            ApiError: it answered with another error.
        """
        pause_s = _FIRST_PAUSE_S
        begun_s = time.monotonic()
        while True:
            try:
                return question(self._client.options(request_timeout=max(0.1, self.left_s)))
            except Exception as error:
                if is_final(error):
                    raise
                if is_refused(error):
                    message = f"Elasticsearch at {self._url} refuses this client ({reason_of(error)})."
                    raise OperatorError(
                        message, hint="Correct elasticsearch.api_key.", code="search-refused"
                    ) from error
                if not is_away(error):
                    raise
                refused_for_s = time.monotonic() + pause_s - begun_s if is_no_connection(error) else 0.0
                if self.left_s <= pause_s or refused_for_s >= self._refused_s:
                    waited_s = self._refused_s if refused_for_s else self._timeout_s
                    failure = f"did not answer within {waited_s:g} s ({reason_of(error)})"
                    message = f"Elasticsearch at {self._url} {failure}."
                    raise SearchUnavailableError(message, url=self._url) from error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)

    def shown(self, index: str, wanted: Cut, doubt: Callable[[Cut, Cut], None] = lambda lacking, shown: None) -> Shown:
        """What the index shows, once that is at least what is asked for.

        Args:
            doubt: told once, before anything is waited for, what is lacking and what is shown; may refuse it.

        Raises:
            NotYetVisibleError: it did not get there in time.
            IndexMissingError: there is no index (nor was one made in time, where a position is asked for).
            MappingMismatchError: the index was made by another version.
            AliasReplacedError: an index has the alias's name.
        """
        doubted = False
        lacking, heard_s = dict[tuple[str, int], int](), 0.0
        while True:
            try:
                shown = self.ask(lambda client: read_shown(client, index))
            except IndexMissingError:
                if not wanted or self.left_s <= _POLL_S:
                    raise
            except SearchUnavailableError as error:
                if lacking and time.monotonic() - heard_s < _SLOW_S:
                    raise not_yet(lacking, self._timeout_s) from error
                raise
            else:
                heard_s = time.monotonic()
                if shown.mapping not in (mapping_digest(), *SEARCHED_DIGESTS):
                    self.ask(lambda client: check_mapping(client, index))
                lacking = behind(shown.vector, wanted)
                if not lacking:
                    return shown
                if not doubted:
                    doubt(lacking, shown.vector)
                    doubted = True
                if self.left_s <= _POLL_S:
                    raise not_yet(lacking, self._timeout_s)
            time.sleep(_POLL_S)


def wanted_marks(at_least: Inside | None) -> Cut:
    """The marks that an index must show: an event's position is inside once the mark is beyond it.

    Raises:
        InputError: it is nothing that can be inside.
    """
    return {} if at_least is None else marks_of("at_least", at_least)


def checked_timeout(timeout_s: Any) -> float:
    """The time-out, where it is one.

    Raises:
        InvalidQueryError: it is not a number of seconds.
    """
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s < _MOST_TIMEOUT_S:
        raise InvalidQueryError(f"timeout_s must be a number of seconds, not {timeout_s!r}.", option="timeout_s")
    return float(timeout_s)


def not_yet(lacking: dict[tuple[str, int], int], waited_s: float) -> NotYetVisibleError:
    """The error that says how far the index is behind."""
    message = f"The index is behind the requested position after {waited_s:g} s: {behind_text(lacking)} positions."
    return NotYetVisibleError(lacking, message)


def is_missing_index(error: ApiError) -> bool:
    """Whether an answer means that there is no index behind the alias."""
    return error.status_code == 404 and error.error == "index_not_found_exception"


def is_gone_view(error: ApiError) -> bool:
    """Whether an answer means that a point in time is no longer held (or never was)."""
    text: Any = error.body
    return error.status_code in (400, 404) and "context" in f"{error.error} {text}"
