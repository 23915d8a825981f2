"""The rules of the files domain: a record of a file replaces all that was recorded of it before.

Records are unconditional: the order of the log alone decides. Each gives the file's entity row, which carries the
record, and a row for each day bucket; buckets that the file has left get a row that says so. The same record again
gives nothing. Tags and properties of files are the catalog's rules; they leave the record as it is.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...rules.admission import refusal
from ...rules.entity import At, EntityRow, RowReader, excess
from ...rules.outcome import UNCHANGED, Accepted, Outcome, Rejected
from ...schemas.header import Header
from ...schemas.ids import id_text
from ...schemas.limits import MAX_ENTITY_BYTES
from .events import DAY_MS, FileRecord, FilesRecorded, metadata_document
from .rows import FileRecordRow, index_keys, lasting_keys

_NONE: Final[Mapping[str, str]] = {}
_new: Final = tuple.__new__


def _recorded(header: Header, event: FilesRecorded, at: At, rows: RowReader) -> Outcome:
    """The rows of every file whose record is new; UNCHANGED where none is."""
    refused = refusal(header, event) or _conditional(header)
    if refused is not None:
        return refused
    return _Recording(header, at).judged(event, rows)


def _conditional(header: Header) -> Rejected | None:
    if header.expected is None:
        return None
    return Rejected("invalid", [{"field": "header.expected", "message": "files are recorded without a condition"}])


def buckets(start_ms: int, end_ms: int | None) -> range:
    """The day buckets that a time touches, both ends included; of an instant the one that it lies in."""
    return range(start_ms // DAY_MS, (start_ms if end_ms is None else end_ms) // DAY_MS + 1)


class _Recording:
    """One event's rows as they are made."""

    def __init__(self, header: Header, at: At) -> None:
        self._tenant, self._aggregate, self._actor = header.tenant, header.aggregate, header.actor
        self._position, self._system_time, self._event_time = at.position, at.system_time, header.event_time
        self._event_id = id_text(header.event_id)
        self._made = _stamped({"creation_time": str(at.system_time)}, "created_by", self._actor)
        self._first = self._stamped(self._made)  # of every file that is new: rows share it
        self._entities: list[EntityRow] = []
        self._records: list[FileRecordRow] = []

    def judged(self, event: FilesRecorded, rows: RowReader) -> Outcome:
        entity = rows.entity
        for urn, file in zip(event.entities, event.files, strict=True):
            held = entity(urn)  # nothing ends a file: a row of one is never a deleted one
            record = record_document(file)
            if held is not None and held.record == record:
                continue
            after = self._entity(urn, file, held, record)
            if (len(self._entities) == 1 or held is not None) and (size_bytes := excess(after)) is not None:
                detail = {"entity": str(urn), "size_bytes": size_bytes, "limit_bytes": MAX_ENTITY_BYTES}
                return Rejected("too-large", detail)
            if held is not None:
                self._leave(urn, file, held.record)
            self._stay(urn, file, held is not None, record["metadata"])
        if not self._entities:
            return UNCHANGED
        return Accepted(tuple(self._entities), tuple(self._records))

    def _entity(self, urn: str, file: FileRecord, held: EntityRow | None, record: Mapping[str, Any]) -> EntityRow:
        user_properties: Mapping[str, str] = _NONE
        user_tags: tuple[str, ...] = ()
        system_properties: Mapping[str, str] = self._first
        system_tags: tuple[str, ...] = ()
        if held is not None:
            user_properties, user_tags, system_tags = held.user_properties, held.user_tags, held.system_tags
            system_properties = self._stamped(held.system_properties)
        after: EntityRow = _new(EntityRow, (
            self._tenant, urn, "file", file.metadata.where, file.metadata.id, self._aggregate, self._position,
            len(self._entities), self._system_time, self._event_time, self._event_id, self._actor, False, record,
            user_properties, user_tags, system_properties, system_tags,
        ))  # fmt: skip
        self._entities.append(after)
        return after

    def _stamped(self, properties: Mapping[str, str]) -> dict[str, str]:
        """SYSTEM properties with who changed the entity last, and when; sorted by key."""
        stamped = {name: value for name, value in properties.items() if name != "last_updated_by"}
        stamped["last_update_time"] = str(self._system_time)
        return _stamped(stamped, "last_updated_by", self._actor)

    def _leave(self, urn: str, file: FileRecord, held: Mapping[str, Any] | None) -> None:
        """The rows that end a file's stay in buckets that it no longer touches. They are placed as it was there."""
        if held is None:
            return
        former, days = held["metadata"], buckets(file.metadata.start, file.metadata.end)
        where, what, file_id, start, work_id = (former[name] for name in ("where", "what", "id", "start", "work_id"))
        for bucket in buckets(start, former["end"]):
            if bucket not in days:
                self._records.append(_new(FileRecordRow, (
                    self._tenant, urn, bucket, self._aggregate, self._position, len(self._records), self._system_time,
                    self._event_time, self._event_id, self._actor, True,
                    where, what, file_id, start // DAY_MS, start, None, None, None, work_id, True, 0, None,
                    *index_keys(bucket, where, what, file_id, work_id), None,
                )))  # fmt: skip

    def _stay(self, urn: str, file: FileRecord, supersedes: bool, document: Mapping[str, Any]) -> None:
        """A row for each bucket that a file is in. (Past the tuple's own constructor: this is the fold's hot loop.)"""
        url, (_, start, end, where, what, _, file_id, _, work_id, _), size, created = file
        days, records = buckets(start, end), self._records
        work_id_index_key, range_key = lasting_keys(where, what, file_id, work_id)
        for bucket in days:
            records.append(_new(FileRecordRow, (
                self._tenant, urn, bucket, self._aggregate, self._position, len(records), self._system_time,
                self._event_time, self._event_id, self._actor, False,
                where, what, file_id, days.start, start, end, created, size, work_id, supersedes, 0, url,
                f"{bucket}:{what}", work_id_index_key, range_key, document,
            )))  # fmt: skip


def record_document(file: FileRecord) -> dict[str, Any]:
    """What the entity's row says of a file: the source's record without its keys, which differ by bucket."""
    url, metadata, size, created = file
    return {
        "version": 0,
        "url": url,
        "metadata": metadata_document(metadata),
        "size": size,
        "created": created,
    }


def _stamped(properties: dict[str, str], name: str, actor: str | None) -> dict[str, str]:
    if actor is not None:
        properties[name] = actor
    return dict(sorted(properties.items()))


RULES: Final = {FilesRecorded.TYPE: _recorded}
"""What judges the events of each type. It reads entities alone: a file's former buckets follow from its record."""
