"""Errors as HTTP tells them: one table over the error classes, and the body `application/problem+json`.

Source: RFC 9457.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from ..schemas.errors import (
    MOST_FAULTS,
    EventTooLargeError,
    Fault,
    ForbiddenError,
    InputError,
    MetajournalError,
    NotFinalError,
    OperatorError,
    OutcomeUnknownError,
    PositionExpired,
    QueueFullError,
    RejectedError,
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
_INTERNAL: Final = "The request failed inside of the gateway; its log says why."


_OVER_HTTP: Final = {
    "at_least (`--at-least POSITION`)": "the header Metajournal-At-Least",
    "as_at (`--as-at TIME`)": "as_at (`?as_at=TIME`)",
}
"""What hints name that command line and Python call otherwise."""


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


def problem_of(error: BaseException, request_id: str) -> Problem:
    """An error's status and body.

    Args:
        error: one that is no MetajournalError, or an operator's, is told without what it says.
        request_id: for the log's lines that belong to it.
    """
    if not isinstance(error, MetajournalError):
        return _problem(500, "internal", _INTERNAL, "Report this as a bug, with the log.", request_id)
    status = status_of(error)
    if isinstance(error, OperatorError):
        hint = "Tell the operator of this gateway the request id; its log says what is wrong."
        return _problem(status, error.code, _INTERNAL, hint, request_id)
    code = error.reason if isinstance(error, RejectedError) else error.code
    more = {key: plain(value) for key, value in error.data.items() if key not in _OWN_DATA}
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
    problem = _problem(status, code, error.message, hint_of(error), request_id)
    return Problem(status, {**more, **problem.body}, headers)


def told_faults(faults: Sequence[Fault]) -> list[dict[str, str]]:
    """Faults as they are answered, of very many the first ones: an answer is not to be longer than what it answers."""
    return [{"field": fault.field, "message": fault.message} for fault in faults[:MOST_FAULTS]]


def hint_of(error: MetajournalError) -> str:
    """What to do about an error, in the words of HTTP."""
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
