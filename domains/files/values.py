"""The JSON shapes of files: what commands and the gateway say of one, and of a page of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...schemas.shapes import TEXT, WHOLE, Map, Named
from .rows import FileRecordRow, source_record

if TYPE_CHECKING:
    from .queries import FilesPage

FILE: Final = Named("File", {
    "file": str, "version": object, "url": str, "time_index_key": object, "work_id_index_key": object,
    "range_key": object, "metadata": Map(object), "size": WHOLE, "created": WHOLE, "logical_timestamp": int,
    "system_time": int, "actor": TEXT,
})  # fmt: skip
FILES: Final = {"files": [FILE], "cursor": TEXT, "final": bool}


def file_json(row: FileRecordRow) -> dict[str, Any]:
    """A file: the source's record, and what the journal knows beside it."""
    return {
        "file": str(row.urn),
        **source_record(row),
        "size": row.size_bytes,
        "created": row.created_ms,
        "logical_timestamp": row.logical_timestamp,
        "system_time": row.system_time,
        "actor": row.actor,
    }


def page_json(page: FilesPage) -> dict[str, Any]:
    """Some files in order, the cursor of the next ones, and whether events still to come could change them."""
    return {"files": [file_json(row) for row in page.files], "cursor": page.cursor, "final": page.final}
