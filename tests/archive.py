"""Archived files for tests: documents and records with defaults."""

from __future__ import annotations

from typing import Any

from metajournal.schemas.events.files import DAY_MS, FileMetadata, FileRecord

FIRST_DAY = 16_636
START = FIRST_DAY * DAY_MS + 3_600_000
"""An hour into a day, in milliseconds UTC."""
HASH = "a3e75ee4f45f676422e038f2c116d000"


def document(**changes: Any) -> dict[str, Any]:
    """The source's document of a file; `data_version` stands for `data-version`."""
    whole: dict[str, Any] = {
        "version": 0,
        "start": START,
        "end": None,
        "where": "nebraska",
        "what": "nginx",
        "data-version": "1",
        "id": "f1",
        "hash": HASH,
        "work_id": None,
    }
    return whole | {name.replace("data_version", "data-version"): value for name, value in changes.items()}


def a_file(
    url: str = "s3://archive/f1", size: int | None = 7, created: int | None = START, **changes: Any
) -> FileRecord:
    """A valid file, but for what is changed in its document."""
    names = [name.replace("-", "_") for name in document()]
    values = {name.replace("-", "_"): value for name, value in document(**changes).items()}
    return FileRecord(url, FileMetadata(*[values.pop(name) for name in names], **values), size, created)
