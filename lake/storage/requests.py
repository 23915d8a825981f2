"""A request to whoever writes the lake: to add a domain from outside between two batches, and the answer.

One request at a time stands in the lake, as an object beside the tables; the stream looks at it between two batches,
which costs one look at a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from .generations import store_of

_REQUEST, _ANSWER = "domain-request.json", "domain-answer.json"


class Answered(NamedTuple):
    """What the stream says of a request: nothing where it did it.

    Attributes:
        code, message, hint: of the error that kept it from doing so; None where nothing did.
    """

    name: str
    code: str | None = None
    message: str = ""
    hint: str = ""


class DomainRequests:
    """The request and the answer in one lake.

    Args:
        path: local folder or URI of the lake.
        storage_options: options of its store.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str]) -> None:
        self._store = store_of(path.rstrip("/"), storage_options)

    def ask(self, name: str) -> None:
        """Ask for a domain to be added; an earlier answer is forgotten."""
        self._store.delete(_ANSWER)
        self._store.replace(_REQUEST, json.dumps({"name": name}) + "\n")

    def requested(self) -> str | None:
        """The domain that is asked for; None where there is none, or what stands there cannot be read."""
        if self._store.version(_REQUEST) is None:
            return None
        request = _read(self._store.read(_REQUEST))
        return request["name"] if isinstance(request.get("name"), str) else None

    def answer(self, answered: Answered) -> None:
        """Say what became of the request, which is over."""
        self._store.replace(_ANSWER, json.dumps(answered._asdict()) + "\n")
        self._store.delete(_REQUEST)

    def answered(self) -> Answered | None:
        """What became of the request; None while it is not known."""
        answer = _read(self._store.read(_ANSWER))
        return Answered(**answer) if answer.keys() == set(Answered._fields) else None

    def withdraw(self) -> None:
        """Take the request back."""
        self._store.delete(_REQUEST)


def _read(text: str | None) -> dict[str, Any]:
    try:
        entries = json.loads(text or "{}")
    except ValueError:
        return {}
    return entries if isinstance(entries, dict) else {}
