"""What somebody may have meant by a URN that is none.

Left to whom: what a URN is says `schemas/urn.py`, how other systems' names are spelled `domains/catalog/naming.py`.
Invariant: nothing here is taken without being typed again.
"""

from __future__ import annotations

import re
import shlex
from typing import Final
from urllib.parse import unquote_to_bytes

from ..domains.catalog.naming import namespace_of
from ..schemas.errors import InvalidUrnError, MetajournalError
from ..schemas.kinds import kind_of
from ..schemas.urn import Urn, urn

_ADDRESS: Final = re.compile(r"(?:([a-z][a-z0-9-]*):)?([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/(.+)")
_MOST_QUOTED: Final = 200  # characters of a text that is typed again


def advice(error: MetajournalError) -> str:
    """The next thing to try after an error of a command; of a text that is not a valid URN, the one probably meant."""
    if not isinstance(error, InvalidUrnError):
        return error.hint
    if (meant := meant_urn(error.text)) is not None:
        return f"Did you mean {meant}? {error.hint}"
    if ":" not in error.text and error.text.strip() and len(error.text) <= _MOST_QUOTED:
        if (meant := meant_urn(f"dataset:{error.text}")) is not None or _is_urn(f"dataset:{error.text}"):
            return f"Did you mean {meant or f'dataset:{error.text}'}? {error.hint}"
        name = error.text.strip("/").rpartition("/")[2] or error.text
        return f"Look for it by its name: `metajournal search {shlex.quote(name)}`. {error.hint}"
    return error.hint


def _is_urn(text: str) -> bool:
    try:
        return str(Urn.parse(text)) == text
    except InvalidUrnError:
        return False


def meant_urn(text: str) -> str | None:
    """The URN that a text becomes by percent-encoding its parts; None where that makes none, or changes nothing.

    Of an address of another system, with a kind before it or without, that of the data in it.
    """
    try:
        meant = _of_address(text) or _of_parts(text)
    except (InvalidUrnError, ValueError):
        return None
    return None if meant == text else str(meant)


def _of_address(text: str) -> Urn | None:
    """The URN of `[kind:]scheme://system/name`. Raises: InvalidUrnError.

    Without a host, a path is the system and its last part the name (`sqlite:///data/shop.db/main.orders`), except of
    files, which are named by their path.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    kind, scheme, host, path = match.groups()
    if host:
        return urn(kind or "dataset", namespace_of(f"{scheme}://{host}"), path)
    if scheme.lower() == "file":
        return urn(kind or "dataset", "file", f"/{path}")
    folder, _, name = path.rpartition("/")
    return urn(kind or "dataset", namespace_of(f"{scheme}:///{folder}"), name)


def _of_parts(text: str) -> Urn:
    """The URN of `kind:part/part`, of which what exceeds the kind's parts is its name's. Raises: InvalidUrnError."""
    kind, _, path = text.partition(":")
    parts = [unquote_to_bytes(part).decode() for part in path.split("/")]
    most = kind_of(kind).max_parts
    return urn(kind, *parts[: most - 1], "/".join(parts[most - 1 :])) if len(parts) > most else urn(kind, *parts)
