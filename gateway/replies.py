"""Answers as bytes: JSON, headers, entity tags, links to the next page, problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ..schemas.endpoints import Answer
from .conditions import is_another, is_unmodified
from .problems import HttpError, Problem

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
_ACCEPTED: Final = frozenset({"*/*", "application/*", JSON, PROBLEM})
SAFE: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Vary": "Authorization"}
_encode: Final = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


def reply_of(request: HttpRequest, answer: Answer) -> Response:
    """An answer to a read or a write; 304 where its caller has it already.

    Raises: HttpError: 412: its caller asks for another state (RFC 9110, 13.1.1).
    """
    headers = {**SAFE, **answer.headers}
    if answer.etag is not None:
        headers["ETag"] = f'{"W/" if answer.weak else ""}"{answer.etag}"'
        headers["Cache-Control"] = "no-cache"
    if answer.next is not None:
        headers["Link"] = f'<{_next(request, answer.next)}>; rel="next"'
    is_read = request.method in ("GET", "HEAD")
    if is_read and is_another(request.headers.get("if-match"), answer.etag, weak=answer.weak):
        raise HttpError(
            412, "If-Match names another state than this one.", code="stale-entity",
            hint="Ask without If-Match: the answer has its ETag.",
        )  # fmt: skip
    if is_read and not answer.by_rights and is_unmodified(request.headers.get("if-none-match"), answer.etag):
        return Response(status_code=304, headers=headers)
    if answer.value is None:
        return Response(status_code=answer.status, headers=headers)
    return Response(_encode(answer.value), answer.status, headers, media_type=JSON)


def problem_reply(problem: Problem) -> Response:
    """An error's answer."""
    return Response(_encode(problem.body), problem.status, {**SAFE, **problem.headers}, media_type=PROBLEM)


def encoded(value: Any) -> bytes:
    """A value as JSON."""
    return _encode(value)


def check_accepts(accept: str | None, answered: str = JSON) -> None:
    """Refuse who does not take what is answered.

    Args:
        answered: the media type.
    Raises:
        HttpError: 406.
    """
    if not accept:
        return
    accepted = _ACCEPTED if answered == JSON else {"*/*", f"{answered.partition('/')[0]}/*", answered}
    for part in accept.split(","):
        name, _, options = part.partition(";")
        refused = any(option.strip() in ("q=0", "q=0.0", "q=0.00", "q=0.000") for option in options.split(";"))
        if name.strip().lower() in accepted and not refused:
            return
    what = "JSON" if answered == JSON else answered
    raise HttpError(406, f"This address answers in {what} only.", code="not-acceptable", hint=f"Accept {answered}.")


def _next(request: HttpRequest, changed: Mapping[str, str]) -> str:
    """The address of the next page: the same one with other values in its query."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in changed]
    path = request.scope["raw_path"].decode("latin-1")
    return f"{quote(path, safe='/%:@!$&()*+,;=~-._')}?{urlencode([*kept, *changed.items()])}"
