"""The files that pages load: read once, compressed once, and kept by browsers for as long as they are what they are.

All of them stand below one part of the path that names their state, so what a page loads, and what its scripts load by
relative names, is of one state. An address of another state (a page of another version of the server asked) is
answered with what is there now, and not kept.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from .conditions import is_unmodified
from .problems import HttpError

_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_KEPT: Final = "public, max-age=31536000, immutable"
_ASKED_AGAIN: Final = "no-cache"
_GZIP: Final = re.compile(r"(?:^|,)\s*gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))[0-9.]+\s*)?(?:,|$)", re.IGNORECASE)
_CHARACTERS: Final = 16


class Assets:
    """The files of a package's folder `assets`.

    Args:
        package: whose.
        headers: that every answer has.
    Attributes:
        base: the address below which they stand now.
    """

    def __init__(self, package: str, headers: Mapping[str, str]) -> None:
        folder = files(package).joinpath("assets")
        found = {one.name: one.read_bytes() for one in folder.iterdir() if one.name.rpartition(".")[2] in _TYPES}
        self._files = {name: (data, gzip.compress(data, 9, mtime=0)) for name, data in found.items()}
        self._headers = headers
        digest = sha256()
        for name, data in sorted(found.items()):
            digest.update(f"{name} {len(data)}\n".encode() + data)
        self._state = digest.hexdigest()[:_CHARACTERS]
        self.base = f"/assets/{self._state}"

    def answer(self, request: HttpRequest, state: str, name: str) -> Response:
        """A file, compressed where its reader takes that. Raises: HttpError: 404."""
        if name not in self._files:
            raise HttpError(404, "There is no such file.", code="no-such-address", hint="Open the first page: /.")
        is_packed = _GZIP.search(request.headers.get("accept-encoding", "")) is not None
        etag = f"{self._state}-{'gzip' if is_packed else 'plain'}"
        headers = {
            **self._headers, "ETag": f'"{etag}"', "Vary": "Accept-Encoding",
            "Cache-Control": _KEPT if state == self._state else _ASKED_AGAIN,
        }  # fmt: skip
        if is_unmodified(request.headers.get("if-none-match"), etag):
            return Response(status_code=304, headers=headers)
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        return Response(self._files[name][is_packed], headers=headers, media_type=_TYPES[name.rpartition(".")[2]])
