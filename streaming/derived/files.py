"""Files beside tables: whole before the row that names them is committed, the same whenever they are written again.

They stand below `<lake>/<domain>/<tenant>/`, under names that a function made; generations of a table share them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import quote

from ...fold.derived import File
from ...lake.storage.generations import store_of
from ...schemas.errors import StreamError

_PART: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._=-]{1,255}")


class Files(Protocol):
    """Where the files of a function go."""

    def put(self, domain: str, file: File) -> None:
        """Take a file; it is stored when this returns."""
        ...


class StoredFiles:
    """Files of a lake.

    Args:
        path, storage_options: of the lake.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str]) -> None:
        self._store = store_of(path, storage_options)

    def put(self, domain: str, file: File) -> None:
        path = path_of(domain, file)
        if self._store.read_bytes(path) != file.content:  # it is there from an earlier try, mostly; or it is damaged
            self._store.replace_bytes(path, file.content)


class ComparedFiles:
    """Holds files against those of a lake and writes none.

    Args:
        path, storage_options: of the lake.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str]) -> None:
        self._store = store_of(path, storage_options)
        self.count = 0
        self.differing: list[str] = []

    def put(self, domain: str, file: File) -> None:
        self.count += 1
        path = path_of(domain, file)
        if self._store.read_bytes(path) != file.content:
            self.differing.append(path)


def path_of(domain: str, file: File) -> str:
    """Where a file stands, relative to the lake. Raises: StreamError: its name could lead elsewhere."""
    if not file.tenant or not all(map(_PART.fullmatch, file.name.split("/"))):
        raise StreamError(
            f"A derived table of {domain} names a file {file.name!r} of tenant {file.tenant!r}.",
            code="derived-file-name",
            hint="Name files by a digest of their content, or by a position: letters, digits, '.', '_', '-', '='.",
        )
    tenant = quote(file.tenant, safe="")
    return f"{domain}/{tenant.replace('.', '%2E') if not tenant.strip('.') else tenant}/{file.name}"
