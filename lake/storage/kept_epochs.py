"""A copy of the epochs topic in the lake, and the note of a restoration under way: what a lost cluster cannot tell.

Which epoch a topic is in, which kinds are whose, and what an operator shelved decides verdicts and stands in
`<prefix>.epochs` alone. So the stream keeps a copy as an object beside the tables, whenever it starts and the topics
are those that the lake was made from. `metajournal restore topics` reads it where that topic is lost too.
Left to others: what the records mean (producers.topics), and when a copy may be trusted (streaming.restoring).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...schemas.errors import StreamError
from .generations import store_of

_COPY, _NOTE = "epochs.json", "restore.json"


class KeptEpochs:
    """The copy and the note in one lake.

    Args:
        path: local folder or URI of the lake.
        storage_options: options of its store.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str]) -> None:
        self._path = path.rstrip("/")
        self._store = store_of(self._path, storage_options)

    def copy(self) -> dict[str, bytes]:
        """The records of the epochs topic by key, as they were when they were kept; none where they never were.

        Raises:
            StreamError: there is a copy, and it cannot be read.
        """
        records = self._read(_COPY).get("records", {})
        return {str(key): json.dumps(value).encode() for key, value in records.items()}

    def keep(self, records: Mapping[str, bytes]) -> None:
        """Keep the records of the epochs topic, unless the copy says the same."""
        decoded = {key: json.loads(value) for key, value in records.items()}
        if self._store.version(_COPY) is None or self._read(_COPY).get("records") != decoded:
            self._store.replace(_COPY, json.dumps({"records": decoded}, indent=1, sort_keys=True) + "\n")

    def note(self) -> dict[str, Any]:
        """The records that an unfinished restoration is going to write, by topic. Raises: as `copy`."""
        return dict(self._read(_NOTE).get("topics", {}))

    def note_down(self, topics: Mapping[str, Any]) -> None:
        """Note the records of the topics that are being restored."""
        self._store.replace(_NOTE, json.dumps({"topics": dict(topics)}, indent=1) + "\n")

    def finish(self) -> None:
        """The restoration is complete."""
        self._store.delete(_NOTE)

    def _read(self, name: str) -> dict[str, Any]:
        text = self._store.read(name)
        try:
            entries = json.loads(text or "{}")
            if not isinstance(entries, dict):
                raise ValueError(f"{entries!r:.80}")
            return entries
        except ValueError as error:
            raise StreamError(
                f"{self._path}/{name} cannot be read.",
                code="lake-epochs",
                hint="Restore it from a copy of the lake.",
            ) from error
