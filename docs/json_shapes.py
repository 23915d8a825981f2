"""The shape of what each command prints with `--json`, for the reference page and for the tests that check it.

How a shape is written, and the shapes that answers over HTTP have too, stand in `schemas/shapes.py` and the domains'
`values.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from metajournal.domains.access.values import KEY, PRINCIPAL, ROLE
from metajournal.domains.files.values import FILE, FILES
from metajournal.domains.lineage.values import LATEST_WRITE, LINEAGE_ANSWER, RUNS, TOUCHED
from metajournal.domains.repositories.values import BRANCH, COMMIT, DIFF, LISTED, LOG, OBJECT, REPOSITORY
from metajournal.schemas.shapes import (
    CHANGE,
    COMPLETIONS,
    EMITTED,
    EMITTED_UNIT,
    ENTITY,
    ERROR,
    NUMBER,
    RECORDED,
    REFUSED,
    RESULTS,
    REVISION,
    STATE,
    TEXT,
    TRACE,
    WHOLE,
    Map,
)  # fmt: skip


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


GARBAGE: Final = {
    "repository": str, "position": str, "before": int, "branches": int, "old_transactions": int, "commits": int,
    "unreached_commits": int, "earlier_commits": int, "layers": int, "unreached_layers": int, "pending_commits": int,
    "blocks": int, "unused_blocks": int,
}  # fmt: skip
UNUSED_BLOCK: Final = {"address": str, "written": int}
UNREACHED_COMMIT: Final = {"id": str, "logical_timestamp": int, "time": int, "earlier": bool}
LAYER_USE: Final = {"layer": str, "rows": int, "commits": int}
OLD_TRANSACTION: Final = {"name": str, "head": TEXT, "logical_timestamp": int, "time": int}
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
    "access roles": Printed([ROLE], "the roles"),
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
        (EMITTED, REFUSED, EMITTED_UNIT),
        "the result of each event, in the order of the input, with the number of its line (JSON lines, `--each`); "
        "with `--unit` one value, the unit's", lines=True,
    ),
    "files": Printed(FILES, "a page of files"),
    "files latest": Printed(({**FILE, "final?": bool}, None), "the newest file; null if there is none"),
    "files record": Printed(
        ({**RECORDED, "files": [{"id": str, "url": str}], "error?": Map(object)}, {"ok": bool, "files": int}),
        "the result of each event, and the files in it", lines=True,
    ),
    "history": Printed([REVISION], "rows of the entity, oldest first"),
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
    "lineage of": Printed(LINEAGE_ANSWER, "the lineage, in the source's shape"),
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
        DIFF,
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
        [{**REPOSITORY, "final?": bool}],
        "the repositories, by name",
    ),
    "repo ls": Printed(
        LISTED,
        "objects (`type` object) and common prefixes (`type` prefix), by path; `after` asks for more",
    ),
    "repo log": Printed(LOG, "commits, the newest first; `before` asks for more"),
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
    "run": Printed(TOUCHED, "the run"),
    "runs": Printed(RUNS, "a page of runs, the latest start first"),
    "search": Printed(RESULTS, "a page of hits, best first"),
    "shelve": Printed({"ok": bool, "shelved": str}, "the position that is skipped"),
    "show": Printed({**ENTITY, "latest_write?": (LATEST_WRITE, None), "final?": bool}, "the entity's row"),
    "status": Printed(STATUS, "the services and stages; with `--watch` one such value a second", lines=True),
    "suggest": Printed(COMPLETIONS, "the completions"),
    "tail": Printed((CHANGE, STATE), "each change; with `--state` each state", lines=True),
    "verify": Printed(
        {"ok": bool, "checks": [{"name": str, "ok": bool, "said": str, "found": [str]}]}, "every check"
    ),
    "why": Printed(TRACE, "each place where the event is stored"),
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
