"""Names of repositories, branches and paths, and the URNs that they make.

Source: docs/concepts.md; the source text's "Indexing service".
"""

from __future__ import annotations

import re
from typing import Any, Final

from ...schemas.errors import InvalidUrnError
from ...schemas.events.base import text_fault
from ...schemas.urn import Urn, urn

TRANSACTION: Final = "_tx/"
"""How the names of branches begin that stand for a transaction: they are rows of `branches` and no entities."""
MAX_BRANCH_BYTES: Final = 255
MAX_PATH_BYTES: Final = 1024

_REPOSITORY: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_BRANCH: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_COMMIT: Final = re.compile(r"[0-9a-f]{64}")


def repository_urn(name: str) -> Urn:
    """URN of a repository. Raises: InvalidUrnError."""
    return urn("repo", name)


def branch_urn(repository: str, name: str) -> Urn:
    """URN of a branch, from the names of both. Raises: InvalidUrnError."""
    return urn("branch", repository, name)


def commit_urn(repository: str, commit_id: str) -> Urn:
    """URN of a commit, from its repository's name and its id. Raises: InvalidUrnError."""
    return urn("commit", repository, commit_id)


def object_urn(repository: str, path: str) -> Urn:
    """URN of an object: the segments of its path are its parts.

    Raises:
        InvalidUrnError: a segment is empty, or the URN is too long: such an object cannot be registered.
    """
    return urn("object", repository, *path.split("/"))


def is_transaction(branch: Urn) -> bool:
    """Whether a branch is the throw-away branch of a transaction."""
    return branch.parts[1].startswith(TRANSACTION)


def repository_fault(value: Any) -> str | None:
    """What is wrong with a repository's name, or None."""
    why = text_fault(value, empty=False)
    return why or (None if _REPOSITORY.fullmatch(value) else f"must match {_REPOSITORY.pattern}, not {value!r:.80}")


def branch_fault(value: Any) -> str | None:
    """What is wrong with a branch's name, or None."""
    why = text_fault(value, empty=False, limit_bytes=MAX_BRANCH_BYTES)
    if why is not None:
        return why
    if not _BRANCH.fullmatch(value) or ".." in value or "//" in value or value.endswith("/"):
        return f"must match {_BRANCH.pattern} without '..', '//' or a final '/', not {value!r:.80}"
    return None


def path_fault(value: Any) -> str | None:
    """What is wrong with a path or a prefix of paths, or None."""
    why = text_fault(value, empty=False, limit_bytes=MAX_PATH_BYTES)
    return why or ("must not hold NUL" if "\0" in value else None)


def commit_id_fault(value: Any) -> str | None:
    """What is wrong with the id of a commit, or None."""
    if isinstance(value, str) and _COMMIT.fullmatch(value):
        return None
    return f"must be a commit's id (64 hexadecimal digits in lower case), not {value!r:.80}"


def object_fault(repository: str, path: Any) -> str | None:
    """Why an object of this path cannot be registered, or None."""
    why = path_fault(path)
    if why is not None:
        return why
    try:
        object_urn(repository, path)
    except InvalidUrnError as error:
        return f"has no URN: {error.reason}"
    return None
