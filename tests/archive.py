"""Archived files for tests: documents and records with defaults, and any events about few files."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.files.events import DAY_MS, FileMetadata, FileRecord, FilesRecorded
from metajournal.domains.files.urns import file_urn

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


MIDNIGHT = FIRST_DAY * DAY_MS
starts = st.sampled_from([-2, -1, 0, 1, DAY_MS - 1, DAY_MS, 2 * DAY_MS, 2 * DAY_MS + 5]).map(lambda one: MIDNIGHT + one)
lengths = st.sampled_from([None, 0, 1, DAY_MS - 1, DAY_MS, 3 * DAY_MS])
wheres, whats, works = st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), st.sampled_from([None, "w1", "w2"])


@st.composite
def recordings(draw: st.DrawFn) -> Any:
    """An event: files of one where and what, or a tag on one of them."""
    where, what = draw(wheres), draw(whats)
    if draw(st.integers(0, 5)) == 0:
        return TagsAdded(file_urn(where, what, draw(st.sampled_from("123"))), ["pii"])
    files = []
    for file_id in draw(st.lists(st.sampled_from("1234"), min_size=1, max_size=4, unique=True)):
        start, length = draw(starts), draw(lengths)
        created = draw(st.sampled_from([None, 1, 2]))
        end = None if length is None else start + length
        named = {"where": where, "what": what, "id": file_id, "work_id": draw(works)}
        files.append(a_file(draw(st.sampled_from(["u1", "u2"])), 7, created, start=start, end=end, **named))
    return FilesRecorded(files)
