"""Files: records about archived files, many of one program on one server in one event."""

from __future__ import annotations

from typing import Final

from ...schemas.domain import Actions, Domain, Kind

DOMAIN: Final = Domain(
    "files",
    __package__,
    kinds=(Kind("file", "files", 3, 3, "files", 2), Kind("files", "files", 2, 2)),
    event_types=("files.FilesRecorded.1",),
    reasons=("too-large",),
    next_steps=(("too-large", "Send less; the detail names the limit."),),
    names_many=True,
    actions=Actions("File"),
    original=True,
)
