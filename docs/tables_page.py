"""The reference page of topics and tables."""

from __future__ import annotations

from typing import Any

from metajournal.lake.columns import PARTITION_COLUMNS
from metajournal.lake.declared import SPECS
from metajournal.producers.topics import wanted_topics
from metajournal.schemas.settings import Settings

from .markdown import prose, table


def tables_page() -> list[str]:
    """The lines of the page."""
    settings = Settings()
    lines = [
        "# Topics and tables",
        "",
        "## Topics",
        "",
        *prose(
            "With the default prefix and number of partitions.",
            "Operators may change the retention; everything else listed is checked at every start.",
        ),
    ]
    rows = []
    for topic in wanted_topics(settings):
        wanted = ", ".join(f"`{key}={topic.config[key]}`" for key in sorted(topic.config))
        rows.append((f"`{topic.topic}`", topic.partitions, _topic(topic.topic), wanted))
    lines += table(["topic", "partitions", "holds", "configuration"], rows)
    lines += [
        "### Headers of change and state records",
        "",
        "CloudEvents in binary mode. Values are JSON in the domain's own shape and nothing else.",
        "",
    ]
    lines += table(["header", "says"], [(f"`{name}`", meaning) for name, meaning in HEADERS.items()])
    lines += ["## Tables", "", "Delta tables under `lake.path`; which folder holds which is said by `tables.json`.", ""]
    for name, spec in SPECS.items():
        schema = spec.schema
        order = f"Compaction sorts it by {', '.join(spec.sorted_by)}."
        by = f" Partitioned by {', '.join(PARTITION_COLUMNS[name])}." if name in PARTITION_COLUMNS else ""
        lines += [f"### {name}", "", TABLES.get(name, ""), "", order + by, ""]
        columns = ((f"`{col.name}`", _arrow(col.type), "" if col.nullable else "never null", COLUMNS.get(col.name, ""))
                   for col in schema)  # fmt: skip
        lines += table(["column", "type", "", "meaning"], columns)
    return lines


def _topic(name: str) -> str:
    part = name.split(".")[1]
    return {
        "schemas": "the schemas that the journal's records were written with",
        "epochs": "epoch, id and number of partitions of each journal topic; shelved positions",
        "dlq": "copies of shelved records, with the reason in their headers",
        "journal": "the events: the source of truth, never compacted, kept without limit",
        "changes": "what changed, JSON with CloudEvents headers",
        "state": "the complete current document of each entity, compacted",
        "outcomes": "the verdict of every position that was not simply accepted, and how far the stream is",
    }.get(part, "")


def _arrow(kind: Any) -> str:
    return (
        str(kind)
        .replace("timestamp[us, tz=UTC]", "timestamp, UTC")
        .replace("<item: ", "<")
        .replace("date32[day]", "date")
    )


HEADERS = {
    "ce_specversion": "1.0",
    "ce_source": "journal topic and partition of its event, `/TOPIC/PARTITION`",
    "ce_id": "permanent id: `TOPIC/PARTITION/POSITION/SEQ`; the same text means the same row",
    "ce_type": "of a change `metajournal.<domain>.<name>`, of a state `metajournal.state.Entity`",
    "ce_subject": "URN of the entity",
    "ce_time": "system_time of the event, RFC 3339 in UTC",
    "ce_domain": "the domain of a change; an older record lacks it, and its topic says it",
    "content-type": "application/json",
}
TABLES = {
    "journal": "Every record of the journal topics, verbatim, with its decoded header and its outcome.",
    "entities": "Existence and annotations of every kind of entity: one row for each change of one entity.",
    "runs": "What is known of each run: one row for each fact that changed it.",
    "accesses": "Which run accessed which data, and how.",
    "relations": "Which program has ever accessed which data: the path from data to `accesses`.",
    "external_writes": "The first write of each external source to each stream on each day.",
    "writes": "Derived from `accesses`: those that are writes, by what was written.",
    "file_records": "One row for each record of one file in one of its day buckets.",
    "access_keys": "One row for each key that is issued or ends; only here stands its hash.",
    "access_principals": "How many keys of a principal have not ended, after each event that changes it.",
    "branches": "Branches and repositories: one row for each event that changes one.",
    "commits": "Commits and merges.",
    "objects": "What was written to and deleted from branches: one row for each path of each event.",
    "resets": "Resets of one path, or of all paths with a prefix: what was staged of them before is dropped.",
    "trees": "Derived: net rows of those layers of commits that are no staging area.",
    "commit_trees": "Derived: what each commit contains, and how it differs from its first parent.",
}
COLUMNS = {
    "hash": "SHA-256 of the key's text, 64 hexadecimal digits; null once the key has ended",
    "not_after": "when it expires; null: never",
    "label": "what it is for",
    "once": "whether it is good for one exchange only",
    "live_keys": "keys that were issued and did not end, expired ones too",
    "layer": "position of the commit that made the layer",
    "layers": "layers of the commit, the oldest first: `objects/<staging area>` or `trees/<layer>`",
    "layer_rows": "paths in each layer",
    "added": "objects that the commit has and its first parent does not have",
    "changed": "objects whose content differs from that in the first parent",
    "removed": "objects that the first parent has and the commit does not have",
    "objects": "objects that the commit contains",
    "bytes": "the sum of their sizes",
    "conflicts": "of a merge: paths that both sides changed, and differently",
    "conflicting": "the first 100 of them, JSON: [path, content at the base, in the destination, in the source]",
    "root": "digest of all objects of the commit, 64 hexadecimal digits",
    "lanes": "LtHash16 of all objects of the commit, 2,048 bytes",
    "content_id": "digest of root, parents' content ids, message and metadata, 64 hexadecimal digits",
    "head": "id of the commit that the branch is at; null while it has none",
    "staging": "the staging area: the position of the branch's creation, last commit, merge, revert or whole reset",
    "staging_digest": "digest of the events in the staging area, 32 hexadecimal digits",
    "staged_events": "events in the staging area; 0: the branch is clean",
    "staged_rows": "paths written or deleted by them",
    "created": "position of the repository's creation; null for a branch",
    "members": "branches and registered objects of the repository; null for a branch",
    "commit": "URN of the commit",
    "branch": "URN of the branch",
    "parents": "ids of the commits before it; of a merge the destination's first",
    "strategy": "of a merge: none, source-wins or dest-wins",
    "message": "the commit's message",
    "digest": "digest of the record that made it, 32 hexadecimal digits",
    "repo": "name of the repository",
    "path": "path of the object; of a reset a path, or a prefix of paths",
    "is_prefix": "whether `path` is a prefix",
    "size": "bytes",
    "checksum": "as its producer told it",
    "address": "where the object is stored; null where `blocks` say it",
    "blocks": "JSON: address, size and checksum of each part",
    "content_type": "as its producer told it",
    "mtime_ms": "when the object was modified: milliseconds since 1970, UTC",
    "content": "16 bytes, equal where checksum, size, content type and metadata are",
    "tenant": "whose it is",
    "urn": "the entity",
    "aggregate": "URN of the aggregate (the unit of order) that it belongs to",
    "domain": "domain of the journal topic",
    "journal_partition": "partition of the journal topic",
    "logical_timestamp": "the event's position: epoch × 2^40 + offset",
    "seq": "number of the row among those of its event",
    "system_time": "when the broker appended the event, never going back within a partition",
    "append_time": "when the broker appended the event, as reported by it",
    "event_time": "when it happened, as the emitter said",
    "event_id": "UUIDv7 of the event",
    "actor": "who did it",
    "deleted": "whether the row marks its key as deleted",
    "topic": "journal topic",
    "system_date": "day of system_time",
    "outcome": "accepted, unchanged, rejected, duplicate or shelved",
    "reason": "why it was rejected or shelved",
    "detail": "JSON: details of the reason",
    "duplicate_of": "logical timestamp of the original",
    "event_type": "domain, name and version",
    "entities": "URNs that the event names",
    "expected": "logical timestamp that its entity had to have",
    "unit_id": "id of its unit",
    "unit_index": "its place in the unit, from 0",
    "unit_count": "events in the unit",
    "cause": "id of the event that led to it",
    "repeat": "it may already be in the journal",
    "key": "key of the Kafka record",
    "event_payload": "value of the Kafka record, verbatim",
    "headers": "headers of the Kafka record, verbatim",
    "kind": "kind of the entity",
    "namespace": "namespace in its URN",
    "name": "name in its URN",
    "record": "JSON: data of the entity's own domain",
    "user_properties": "properties of scope USER",
    "user_tags": "tags of scope USER",
    "system_properties": "properties of scope SYSTEM",
    "system_tags": "tags of scope SYSTEM",
    "run": "URN of the run",
    "program": "URN of the program",
    "start": "when the run started, the earliest that was told",
    "first_access": "the earliest access of the run",
    "stop": "when the run ended, the latest that was told",
    "status": "how the run ended",
    "data": "URN of the dataset, stream or file",
    "access": "read, write or unknown",
    "component": "part of the program; empty where none was told",
    "happened_at": "when it happened, as its source said",
    "metadata": "canonical JSON of what was told with it",
    "stream": "URN of the stream",
    "source": "who wrote from outside",
    "day": "day of the write, UTC",
    "bucket": "day that the row stands for: days since 1970, UTC",
    "first_bucket": "the first day that the file touches",
    "file_where": "where the file is",
    "file_what": "what kind of file it is",
    "file_id": "id of the file within its where and what",
    "start_ms": "begin of the file's time, milliseconds since 1970",
    "end_ms": "end of the file's time, milliseconds since 1970; null where it is a moment",
    "created_ms": "when the file was made, milliseconds since 1970",
    "size_bytes": "size of the file",
    "work_id": "id of the work that made it",
    "supersedes": "the file was recorded before",
    "version": "version of the record's form",
    "url": "where the file's bytes are",
    "time_index_key": "key of the source's index by time",
    "work_id_index_key": "key of the source's index by work id",
    "range_key": "range key of the source's table",
}
"""What a column holds, where its name stands for the same thing in every table."""
