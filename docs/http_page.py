"""The reference page of HTTP: the table of endpoints, and the status of every error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from metajournal.gateway.problems import REASONS, REJECTED, STATUSES
from metajournal.gateway.table import Table
from metajournal.schemas.endpoints import Endpoint
from metajournal.schemas.registry import domains

from .markdown import prose, table

EXAMPLE: Final = (
    '{"type": "RepositoryCreated", "repository": "repo:sales", "default_branch": "main", "storage_namespace": '
    '"s3://sales/"}',
    '{"type": "ObjectsWritten", "branch": "branch:sales/main", "entries": [{"path": "orders.csv", "size": 12, '
    '"checksum": "d41d8cd98f00b204e9800998ecf8427e", "address": "s3://sales/orders.csv"}]}',
    '{"type": "Committed", "branch": "branch:sales/main", "message": "the first orders"}',
)
"""Lines of `POST /api/v1/events`."""


def http_page() -> list[str]:
    """The lines of the page."""
    rows = Table(domain.name for domain in domains() if domain.journal is None).endpoints
    return [
        "# HTTP",
        "",
        *prose(
            "What `metajournal serve` answers. A path's part is percent-decoded once, so any name is one part; `{urn}`",
            "takes the rest of the path, and `?urn=` says the same where a proxy changes paths. `/openapi.json`",
            "describes bodies and answers, and needs no key. A page that is not the last one has the next one's",
            'address in its `Link` header, as `rel="next"`.',
        ),
        "## Writing events",
        "",
        *prose(
            "`POST /api/v1/events` takes any event, as `metajournal emit -` does: its `type` without domain and",
            "version, and its fields as [Events](events.md) has them; those that may be null may be left out. One",
            "event is JSON; several are one a line, with `Content-Type: application/x-ndjson`, and a unit as `?unit`.",
            "A repository that is created, written to and committed:",
        ),
        *[f"    {line}" for line in EXAMPLE],
        "",
        "## Reading what was written",
        "",
        *prose(
            "The answer to a write has its position in the header `Metajournal-Position`. A read that must include it",
            "sends that as `Metajournal-At-Least`; several are separated by commas. Reads of one entity, its history",
            "and its differences include every answered write anyway. A 404 (`unknown-entity`) may have `held_to`, the",
            "position up to which events were looked at: what was written at or behind it was not.",
        ),
        "## Endpoints",
        "",
        *table(["request", "right", "query", "what it does"], map(_row, rows)),
        "## Errors",
        "",
        *prose(
            "An error is `application/problem+json`: `title`, `status`, `code`, `detail` (one sentence), `hint` (the",
            "next step), `request_id`, and the error's data. Codes are those of [Errors](errors.md); one that is not",
            "here has the status of the error that it is a kind of: `not-json` that of `bad-input`, `not-yet-visible`",
            "that of `unavailable`.",
        ),
        *table(["status", "error"], _errors()),
    ]


def _row(endpoint: Endpoint) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{parameter.name}`" for parameter in endpoint.query)
    return f"`{endpoint.name}`", _right(endpoint), names or "-", endpoint.about


def _right(endpoint: Endpoint) -> str:
    if endpoint.is_public:
        return "none"
    if endpoint.lines:
        return "those of each event"
    if endpoint.needs is not None:
        return "limited to what may be read" if endpoint.event is None else "those of the event"
    return endpoint.action


def _errors() -> Iterator[tuple[str, str]]:
    seen: dict[str, list[str]] = {}
    for kind, status in STATUSES:
        seen.setdefault(str(status), []).append(f"`{kind.CODE}`")
    for reason, status in REASONS.items():
        seen.setdefault(str(status), []).append(f"`{reason}` (a rejection)")
    seen.setdefault(str(REJECTED), []).append("any other rejection, `key-reused`")
    more = {"404": "`no-such-address`", "405": "`no-such-method`", "406": "`not-acceptable`", "408": "`too-slow`",
            "413": "`body-too-large`", "415": "`unsupported-type`", "421": "`unknown-host`",
            "429": "`too-many-requests`, with `Retry-After`"}  # fmt: skip
    for status, text in more.items():
        seen.setdefault(status, []).append(text)
    return ((status, ", ".join(dict.fromkeys(seen[status]))) for status in sorted(seen))
