"""The shape of what each command prints with `--json`, for the reference page and for the tests that check it.

A shape is a type of Python, None, a tuple of alternatives, a list of one shape for each entry, a mapping of names to
shapes (`name?` may be missing), or `Map` for any names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple


class Map(NamedTuple):
    """An object with any names, each value of one shape."""

    value: Any


class Printed(NamedTuple):
    """What a command prints.

    Attributes:
        shape: of the value.
        lines: whether it prints one such value per line, instead of a single one.
        said: what it is.
    """

    shape: Any
    said: str
    lines: bool = False


TEXT: Final = (str, None)
NUMBER: Final = (int, float)
WHOLE: Final = (int, None)
METADATA: Final = {"properties": Map(str), "tags": [str]}
ENTITY: Final = {
    "tenant": str, "urn": str, "kind": str, "namespace": TEXT, "name": str, "aggregate": str,
    "logical_timestamp": int, "seq": int, "system_time": int, "event_time": int, "event_id": str, "actor": TEXT,
    "deleted": bool, "record": (Map(object), None), "user": METADATA, "system": METADATA,
}  # fmt: skip
WRITE: Final = {"at": int, "program": TEXT, "run": TEXT, "source": TEXT}
ERROR: Final = {"ok": bool, "error": Map(object)}
OUTCOME: Final[dict[str, Any]] = {"outcome": str, "reason?": str, "detail?": object, "of?": (str, int)}
EMITTED: Final = {
    "ok": bool, "line?": int, "event_id": str, "type": str, "entity": str, "position?": str, "system_time?": int,
    "outcome?": str, "reason?": str, "detail?": object, "of?": (str, int), "original?": Map(object),
    "error?": Map(object),
}  # fmt: skip
REFUSED: Final = {"line": int, **ERROR}
PLACED: Final = {"id": str, "urn": str, "tenant": str, "position": str, "seq": int, "time": int}
CHANGE: Final = {**PLACED, "scope": TEXT, "type": str, "record": Map(object)}
STATE: Final = {**PLACED, "deleted": bool, "document": Map(object)}
WHY: Final = {
    "field": str, "key": str, "text": str, "matched": [[int]], "scope?": TEXT, "instead_of": str, "marked": str,
}  # fmt: skip
HIT: Final = {
    "urn": str, "tier": TEXT, "why": [WHY], "entity": Map(object),
    "then?": ({**ENTITY, "final": bool}, {"final": bool}, None),
}  # fmt: skip
RESULTS: Final = {
    "total": int, "hits": [HIT], "facets": Map([{"value": str, "hits": int}]), "shows": Map(int), "cursor": TEXT,
    "note": str,
}  # fmt: skip
PLACE: Final = {
    "topic": str, "partition": int, "offset": int, "position": str, "logical_timestamp": int, "tenant": str,
    "type": str, "aggregate": str, "entities": [str], "actor": TEXT, "append_time": int, "system_time": WHOLE,
    "event_time": WHOLE, "unit_id": TEXT, "outcome": str, "reason": TEXT, "detail": object, "original": TEXT,
    "rows": [Map(object)], "behind": int, "index": {"name": TEXT, "shows": WHOLE, "said": str}, "row_counts": Map(int),
}  # fmt: skip
FILE: Final = {
    "file": str, "version": object, "url": str, "time_index_key": object, "work_id_index_key": object,
    "range_key": object, "metadata": Map(object), "size": WHOLE, "created": WHOLE, "logical_timestamp": int,
    "system_time": int, "actor": TEXT,
}  # fmt: skip
RECORDED: Final = {"ok": bool, "event_id": str, "position": str, "outcome?": str, "reason?": str, "detail?": object,
                   "of?": (str, int), "original?": Map(object)}  # fmt: skip
GARBAGE: Final = {
    "repository": str, "position": str, "before": int, "branches": int, "old_transactions": int, "commits": int,
    "unreached_commits": int, "earlier_commits": int, "layers": int, "unreached_layers": int, "pending_commits": int,
    "blocks": int, "unused_blocks": int,
}  # fmt: skip
UNUSED_BLOCK: Final = {"address": str, "written": int}
UNREACHED_COMMIT: Final = {"id": str, "logical_timestamp": int, "time": int, "earlier": bool}
LAYER_USE: Final = {"layer": str, "rows": int, "commits": int}
OLD_TRANSACTION: Final = {"name": str, "head": TEXT, "logical_timestamp": int, "time": int}
BRANCH: Final = {
    "urn": str, "name": str, "head": TEXT, "staged_events": int, "staged_rows": int, "staging_digest": str,
    "logical_timestamp": int, "dirty": bool,
}  # fmt: skip
OBJECT: Final = {
    "path": str, "size": int, "checksum": str, "address": TEXT,
    "blocks": [{"address": str, "size": int, "checksum": str}], "content_type": TEXT, "metadata": Map(str),
    "mtime": WHOLE, "content": str,
}  # fmt: skip
OBJECT_STATE: Final = {"size": int, "content": str}
COMMIT: Final = {
    "urn": str, "id": str, "branch": str, "parents": [str], "strategy": TEXT, "message": str, "metadata": Map(str),
    "actor": TEXT, "event_time": int, "logical_timestamp": int,
}  # fmt: skip
PRINCIPAL: Final = {
    "tenant": str, "name": str, "enabled": bool, "grants": [{"role": str, "pattern": str}], "logical_timestamp": int,
}  # fmt: skip
KEY: Final = {
    "tenant": str, "principal": str, "id": str, "label": str, "not_after": WHOLE, "once": bool,
    "logical_timestamp": int,
}  # fmt: skip
RUN: Final = {"run": str, "program": str, "id": str, "start": WHOLE, "stop": int, "status": TEXT}
ACCESS: Final = {"data": str, "access": str, "at": int, "component": TEXT, "metadata": (Map(object), None)}
LINEAGE: Final = {
    "start": str, "end": str, "relations": [Map(object)], "programs": Map(Map(object)), "data": Map(Map(object)),
    "partial?": bool, "why?": str, "withheld?": bool, "final?": bool,
}  # fmt: skip
COMPONENT: Final = {
    "name": str, "state": str, "pid": WHOLE, "since_ms": WHOLE, "endpoint": TEXT, "log": TEXT, "exit_code": WHOLE,
    "message": str, "mend": str, "restarts": int, "up_s": WHOLE,
}  # fmt: skip
STATUS: Final = {
    "ok": bool, "home": str, "lake": str, "components": [COMPONENT],
    "stages": [{"name": str, "freshness_s": (int, float, None), "reached": Map(object)}], "verdicts": Map(int),
    "derived": [Map(object)], "unserved": [Map(object)],
}  # fmt: skip
DOMAIN: Final = {
    "name": str, "state": str, "package": str, "kinds": [str], "commands": [str], "topic": TEXT, "problem?": str,
}  # fmt: skip
_INGESTED: Final = "what was read and emitted; with `--every` one such value per round"
BROUGHT: Final = {"count": int, "first": [str]}
INGESTED: Final = {
    "ok": bool, "source": str, "kind": str, "dry_run": bool, "found": int, "registered": BROUGHT, "changed": BROUGHT,
    "deleted": BROUGHT, "released": BROUGHT, "unchanged": int, "runs": int, "kept": int,
    "unselected": int, "other_sources": Map(int),
    "problems": [{"what": str, "why": str}], "refused": [{"entity": str, "why": str}], "events": int, "run": TEXT,
    "seconds": NUMBER,
}  # fmt: skip
NOT_INGESTED: Final = {"source": str, **ERROR}
SHAPES: Final[Mapping[str, Printed]] = {
    "access define-role": Printed(RECORDED, "the result of its event"),
    "access delete-role": Printed(RECORDED, "the result of its event"),
    "access disable": Printed(RECORDED, "the result of its event"),
    "access grant": Printed(RECORDED, "the result of its event"),
    "access issue-code": Printed(
        {**RECORDED, "id?": str, "code?": str, "link?": (str, None)},
        "the result of its event; if it is accepted the code, this once, and where to log in with it",
    ),
    "access issue-key": Printed(
        {**RECORDED, "id?": str, "key?": str}, "the result of its event; if it is accepted the key, this once"
    ),
    "access keys": Printed([KEY], "the keys that have not ended, the oldest first"),
    "access principals": Printed([{**PRINCIPAL, "keys": int}], "the principals, by name"),
    "access register": Printed(RECORDED, "the result of its event"),
    "access revoke": Printed(RECORDED, "the result of its event"),
    "access revoke-key": Printed(RECORDED, "the result of its event"),
    "access roles": Printed(
        [{"name": str, "actions": [str], "constant": bool, "logical_timestamp": int}], "the roles"
    ),
    "access show": Printed({**PRINCIPAL, "keys": [KEY]}, "the principal with its keys"),
    "config init": Printed({"ok": bool, "file": str}, "the file that was written"),
    "config show": Printed(
        Map((object, {"value": object, "from": str})), "each setting by its key; with `--origin`, with its source"
    ),
    "demo": Printed(
        {"ok": bool, "python": str, "checks": Map(bool), "folder": str, "events": int, "try": [[str]],
         "seconds": NUMBER,
         "published": Map(object), "outcomes": Map(int), "counts": Map(int), "freshness_ms": object,
         "searches": [Map(object)], "live_tag": Map(object), "rejected": Map(object), "entity": object,
         "history": object, "files": Map(object), "lineage": Map(object), "as_at": object, "rebuild": Map(object),
         "git": (Map(object), None)},
        "what each step did, and whether it is correct",
    ),
    "doctor": Printed(
        {"ok": bool, "checks": [{"part": str, "found": str, "needed": str, "verdict": str, "mend": str}]},
        "every component that was checked",
    ),
    "domains": Printed([DOMAIN], "every domain"),
    "domains add": Printed(
        {"ok": bool, "domain": str, "package": str, "kinds": [str], "topic": str}, "the domain that is now served"
    ),
    "emit": Printed(
        (EMITTED, REFUSED, {"ok": bool, "unit": str, "events": [EMITTED]}),
        "the result of each event, in the order of the input, with the number of its line (JSON lines, `--each`); "
        "with `--unit` one value, the unit's", lines=True,
    ),
    "files": Printed({"files": [FILE], "cursor": TEXT, "final": bool}, "a page of files"),
    "files latest": Printed(({**FILE, "final?": bool}, None), "the newest file; null if there is none"),
    "files record": Printed(
        ({**RECORDED, "files": [{"id": str, "url": str}], "error?": Map(object)}, {"ok": bool, "files": int}),
        "the result of each event, and the files in it", lines=True,
    ),
    "history": Printed([{**ENTITY, "position": str}], "rows of the entity, oldest first"),
    "ingest": Printed(
        {"ok": bool, "sources": [(INGESTED, NOT_INGESTED)]},
        "the result of each source of the recipe; with `--every` one such value per round", lines=True,
    ),
    "ingest databases": Printed((INGESTED, NOT_INGESTED), _INGESTED, lines=True),
    "ingest dbt": Printed((INGESTED, NOT_INGESTED), _INGESTED, lines=True),
    "ingest kafka": Printed((INGESTED, NOT_INGESTED), _INGESTED, lines=True),
    "ingest lakehouse": Printed((INGESTED, NOT_INGESTED), _INGESTED, lines=True),
    "ingest openlineage": Printed((INGESTED, NOT_INGESTED), _INGESTED, lines=True),
    "lineage import": Printed(
        {"ok": bool, "events": int, "facts": int, "refused": [{"line": int, "message": str}]}, "its result"
    ),
    "lineage of": Printed(LINEAGE, "the lineage, in the source's shape"),
    "rebuild index": Printed(
        {"ok": bool, "index": str, "old": TEXT, "kept": bool, "resumed": bool, "thrown_away": [str], "documents": int,
         "compared": int, "took_s": NUMBER},
        "what the rebuild did",
    ),
    "rebuild lake": Printed(
        {"ok": bool, "generation": int, "records": int, "seconds": NUMBER, "equal": bool,
         "tables": Map({"digest": str, "before": TEXT})},
        "what the rebuild did",
    ),
    "repo branch": Printed(RECORDED, "the result of its event", lines=True),
    "repo branches": Printed([{**BRANCH, "final?": bool}], "the branches, by name"),
    "repo commit": Printed(COMMIT, "the commit"),
    "repo create": Printed(RECORDED, "the result of its event", lines=True),
    "repo delete": Printed(RECORDED, "the result of its event", lines=True),
    "repo diff": Printed(
        {"items": [{"path": str, "change": str, "left": (None, OBJECT_STATE), "right": (None, OBJECT_STATE)}],
         "after": TEXT, "final?": bool},
        "paths that differ, each `added`, `changed` or `removed`; `after` asks for more",
    ),
    "repo get": Printed({**OBJECT, "final?": bool}, "the object"),
    "repo gc": Printed(
        (GARBAGE, UNUSED_BLOCK, UNREACHED_COMMIT, LAYER_USE, OLD_TRANSACTION),
        "the counts; with `--list` each address, commit, layer or branch", lines=True,
    ),
    "repo import-git": Printed(
        {"ok": bool, "repository": str, "dry_run": bool,
         "branches": Map({"name": str, "git_id": str, "commit": TEXT}), "had_commits": int, "events": int,
         "commits": int, "merges": int, "resolved": int, "resolved_paths": int, "written": int, "deleted": int,
         "branches_made": int, "resets": int, "omitted": [{"path": str, "why": str}], "elsewhere": [str],
         "readable?": bool, "seconds": NUMBER},
        "what was imported; `resolved`: merges whose result git made otherwise; `readable`: what the branches contain "
        "is known, so that `ls` and `diff` answer",
    ),
    "repo list": Printed(
        [{"urn": str, "name": str, "default_branch": str, "storage_namespace": str, "created": int, "members": int,
          "final?": bool}],
        "the repositories, by name",
    ),
    "repo ls": Printed(
        {"items": [({"type": str, **OBJECT}, {"type": str, "path": str})], "after": TEXT, "final?": bool},
        "objects (`type` object) and common prefixes (`type` prefix), by path; `after` asks for more",
    ),
    "repo log": Printed(
        {"commits": [COMMIT], "before": WHOLE, "final?": bool}, "commits, the newest first; `before` asks for more"
    ),
    "repo merge": Printed(COMMIT, "the commit of the merge"),
    "repo register": Printed(RECORDED, "the result of each event", lines=True),
    "repo reset": Printed(RECORDED, "the result of its event", lines=True),
    "repo revert": Printed(RECORDED, "the result of its event", lines=True),
    "repo rm": Printed(RECORDED, "the result of each event", lines=True),
    "repo tail": Printed(CHANGE, "each change", lines=True),
    "repo unregister": Printed(RECORDED, "the result of each event", lines=True),
    "repo write": Printed(RECORDED, "the result of each event", lines=True),
    "restore topics": Printed(
        {"ok": bool, "dry_run": bool, "epochs": bool, "schemas": bool, "created": [str], "records": int,
         "topics": [{"topic": str, "state": str, "epoch": int, "records": int, "offsets": int}], "seconds": NUMBER,
         "marks": Map(Map(int)), "ahead": Map(Map(int)), "torn_units": int, "note": str},
        "what was lost and restored; `marks`: the next position of each journal partition",
    ),
    "run": Printed(
        {**RUN, "accesses": [ACCESS], "cursor": TEXT, "metadata": Map(METADATA), "final?": bool}, "the run"
    ),
    "runs": Printed({"runs": [RUN], "cursor": TEXT, "final?": bool}, "a page of runs, the latest start first"),
    "search": Printed(RESULTS, "a page of hits, best first"),
    "shelve": Printed({"ok": bool, "shelved": str}, "the position that is skipped"),
    "show": Printed({**ENTITY, "latest_write?": (WRITE, None), "final?": bool}, "the entity's row"),
    "status": Printed(STATUS, "the services and stages; with `--watch` one such value a second", lines=True),
    "suggest": Printed([{"text": str, "entities": int}], "the completions"),
    "tail": Printed((CHANGE, STATE), "each change; with `--state` each state", lines=True),
    "verify": Printed(
        {"ok": bool, "checks": [{"name": str, "ok": bool, "said": str, "found": [str]}]}, "every check"
    ),
    "why": Printed({"event_id": TEXT, "made_at": WHOLE, "places": [PLACE]}, "each place where the event is stored"),
}  # fmt: skip
"""By the command's name."""


def faults(shape: Any, value: Any, place: str = "") -> list[str]:
    """Where a value differs from its shape; empty if it does not."""
    if isinstance(shape, tuple) and not isinstance(shape, Map):
        tried = [faults(one_of, value, place) for one_of in shape]
        return [] if [] in tried else min(tried, key=len)
    if isinstance(shape, Map):
        if not isinstance(value, Mapping):
            return [f"{place}: {value!r:.80} is no object"]
        return [text for key, entry in value.items() for text in faults(shape.value, entry, f"{place}.{key}")]
    if isinstance(shape, Mapping):
        return _faults_of_object(shape, value, place)
    if isinstance(shape, list):
        if not isinstance(value, Sequence) or isinstance(value, str):
            return [f"{place}: {value!r:.80} is no array"]
        return [text for number, entry in enumerate(value) for text in faults(shape[0], entry, f"{place}[{number}]")]
    right = value is None if shape is None else isinstance(value, shape)
    right = right and (shape is object or shape is bool or not isinstance(value, bool))
    return [] if right else [f"{place}: {value!r:.80} is no {_named(shape)}"]


def _faults_of_object(shape: Mapping[str, Any], value: Any, place: str) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{place}: {value!r:.80} is no object"]
    known = {name.removesuffix("?"): part for name, part in shape.items()}
    lacking = [name for name in shape if not name.endswith("?") and name not in value]
    return [
        *(f"{place}: {name} is missing" for name in lacking),
        *(f"{place}: {name} is not documented" for name in value if name not in known),
        *(
            text
            for name, part in known.items()
            if name in value
            for text in faults(part, value[name], f"{place}.{name}")
        ),
    ]


_NAMES: Final[Mapping[Any, str]] = {
    str: "text", int: "whole number", float: "number", bool: "true or false", None: "null", object: "anything",
}  # fmt: skip


def _named(shape: Any) -> str:
    return _NAMES[shape]


def lines_of(shape: Any, indent: str = "") -> list[str]:
    """A shape as shown on the page."""
    inner = indent + "  "
    if isinstance(shape, Map):
        return ["{", *_joined(f"{inner}NAME: ", lines_of(shape.value, inner)), f"{indent}}}"]
    if isinstance(shape, tuple):
        each = [lines_of(one_of, indent) for one_of in shape]
        together: list[str] = each[0]
        for lines in each[1:]:
            together = [*together[:-1], f"{together[-1]} or {lines[0]}", *lines[1:]]
        return together
    if isinstance(shape, Mapping):
        parts = [_joined(f"{inner}{name}: ", lines_of(part, inner)) for name, part in shape.items()]
        return ["{", *(line for part in parts for line in part), f"{indent}}}"]
    if isinstance(shape, list):
        lines = lines_of(shape[0], indent)
        return [f"[{lines[0]}", *lines[1:-1], f"{lines[-1]} …]"] if len(lines) > 1 else [f"[{lines[0]} …]"]
    return [_named(shape)]


def _joined(start: str, lines: list[str]) -> list[str]:
    return [start + lines[0], *lines[1:]]
