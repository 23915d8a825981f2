"""Errors as HTTP tells them: one table over the error classes, and the body `application/problem+json`.

Source: RFC 9457.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeGuard

from ..schemas.errors import (
    MOST_FAULTS,
    EventTooLargeError,
    Fault,
    ForbiddenError,
    InputError,
    KafkaUnavailableError,
    MetajournalError,
    NotFinalError,
    NotYetVisibleError,
    OperatorError,
    OutcomeUnknownError,
    PositionExpired,
    QueueFullError,
    RejectedError,
    SearchUnavailableError,
    UnauthenticatedError,
    UnavailableError,
    UnknownEntityError,
    UnknownEventError,
)
from ..values import plain

STATUSES: Final[tuple[tuple[type[MetajournalError], int], ...]] = (  # the first that fits counts
    (UnauthenticatedError, 401),
    (ForbiddenError, 403),
    (UnknownEntityError, 404),
    (UnknownEventError, 404),
    (NotFinalError, 409),
    (PositionExpired, 410),
    (EventTooLargeError, 413),
    (InputError, 400),
    (QueueFullError, 503),
    (UnavailableError, 503),
    (OutcomeUnknownError, 504),
    (OperatorError, 500),
)
"""The status of each class of errors."""
REASONS: Final[Mapping[str, int]] = {"unknown-entity": 404, "stale-entity": 412, "too-large": 413}
"""The status of rejections by their reason; any other is 422."""
REJECTED: Final = 422
_OWN_DATA: Final = frozenset({"faults", "retry_after_s", "status", "position", "reason", "servers", "headers"})
_RETRY_AFTER_S: Final = 1
_TELLING: Final = (NotFinalError, NotYetVisibleError)
"""Classes of services that do not answer whose texts name nothing of the installation."""
_AWAY: Final[tuple[tuple[type[UnavailableError], str], ...]] = (  # the first that fits counts
    (KafkaUnavailableError, "Kafka does not answer this gateway."),
    (SearchUnavailableError, "The search index does not answer this gateway, or is not there yet."),
    (UnavailableError, "A service that this gateway needs does not answer."),
)
"""What those who cannot reach the installation are told of a service that does not answer."""
_PATIENCE: Final = "Try again shortly. If it lasts, tell the operator of this gateway the request id."
_INTERNAL: Final = "The request failed inside of the gateway; its log says why."


_OVER_HTTP: Final = {
    "at_least (`--at-least POSITION`)": "the header Metajournal-At-Least",
    "as_at (`--as-at TIME`)": "as_at (`?as_at=TIME`)",
}
"""What hints name that command line and Python call otherwise."""
_AGAIN: Final = (
    "Send the request again with its Idempotency-Key, or with this one if it had none: {}. A line is sent again with "
    "this event_id and repeat. What is there already counts once."
)
_UNIT_AGAIN: Final = "Send the unit again, each line with its event_id and repeat: what is there already counts once."


class HttpError(InputError):
    """A request that HTTP itself refuses.

    Args:
        status: of the answer.
        headers: of the answer.
    """

    CODE = "bad-request"

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.status = status
        self.headers: Mapping[str, str] = headers or {}


@dataclass(slots=True)
class Problem:
    """An error as it is answered."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


def is_of_installation(error: BaseException) -> TypeGuard[UnavailableError]:
    """Whether an error's text is for those who run the installation: it names servers, folders or settings."""
    return isinstance(error, UnavailableError) and not isinstance(error, _TELLING)


def problem_of(error: BaseException, request_id: str, *, is_local: bool = False) -> Problem:
    """An error's status and body.

    Args:
        error: one that is no MetajournalError, or an operator's, is told without what it says.
        request_id: for the log's lines that belong to it.
        is_local: whether this machine alone is answered: what is said of services is of use there, and no secret.
    """
    if not isinstance(error, MetajournalError):
        return _problem(500, "internal", _INTERNAL, "Report this as a bug, with the log.", request_id)
    status = status_of(error)
    if isinstance(error, OperatorError):
        hint = "Tell the operator of this gateway the request id; its log says what is wrong."
        return _problem(status, error.code, _INTERNAL, hint, request_id)
    code = error.reason if isinstance(error, RejectedError) else error.code
    message, hint = words_of(error, is_local=is_local)
    own = error.data.keys() if message != error.message else _OWN_DATA
    more = {key: plain(value) for key, value in error.data.items() if key not in own}
    if faults := error.data.get("faults"):
        more["faults"] = told_faults(faults)
    if isinstance(error, RejectedError):
        more["why"] = plain(error.detail)
        more.pop("detail", None)
    headers = dict(error.headers if isinstance(error, HttpError) else error.data.get("headers", {}))
    if status == 503:
        headers["Retry-After"] = str(error.data.get("retry_after_s", _RETRY_AFTER_S))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="metajournal"'
    problem = _problem(status, code, message, hint, request_id)
    return Problem(status, {**more, **problem.body}, headers)


def words_of(error: MetajournalError, *, is_local: bool) -> tuple[str, str]:
    """What an error says and what to do next, as those may know it who are answered."""
    if is_local or not is_of_installation(error):
        return error.message, hint_of(error)
    return next(text for kind, text in _AWAY if isinstance(error, kind)), _PATIENCE


def told_faults(faults: Sequence[Fault]) -> list[dict[str, str]]:
    """Faults as they are answered, of very many the first ones: an answer is not to be longer than what it answers."""
    return [{"field": fault.field, "message": fault.message} for fault in faults[:MOST_FAULTS]]


def hint_of(error: MetajournalError) -> str:
    """What to do about an error, in the words of HTTP."""
    if isinstance(error, OutcomeUnknownError):
        return _AGAIN.format(error.data["event_id"]) if "event_id" in error.data else _UNIT_AGAIN
    hint = error.hint
    for there, here in _OVER_HTTP.items():
        hint = hint.replace(there, here)
    return hint


def status_of(error: MetajournalError) -> int:
    """The status of an error."""
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, RejectedError):
        return REASONS.get(error.reason, REJECTED)
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def _problem(status: int, code: str, detail: str, hint: str, request_id: str) -> Problem:
    title = HTTPStatus(status).phrase
    body = {"title": title, "status": status, "code": code, "detail": detail, "hint": hint, "request_id": request_id}
    return Problem(status, body)
