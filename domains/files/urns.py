"""URNs of files, from names of any characters."""

from __future__ import annotations

from ...schemas.urn import Urn, urn


def file_urn(where: str, what: str, id: str) -> Urn:  # noqa: A002
    """URN of an archived file. Raises: InvalidUrnError."""
    return urn("file", where, what, id)
