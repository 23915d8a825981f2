"""The JSON shapes of lineage: a walk's answer, a run, an access, the latest write.

A lineage has the source's shape. Two things are decided here that the source leaves open: `data` is always the data and
`program` the program (its sample swaps them in half its rows), and a `.` inside a part of a dotted id is written `%2E`,
so that no two entities share one. Beside each `id` is the `urn`, which commands accept. Source: docs/concepts.md; the
source text's section Lineage Output JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...schemas.urn import Urn
from .events import UNKNOWN
from .walk import Relation, Walked


class LineagePage(NamedTuple):
    """Some of the answer's items, as JSON values; `cursor` asks for the next ones, None: there are none."""

    items: list[dict[str, Any]]
    cursor: str | None


def run_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """A run: its program, its times (stop is -1 while there is none) and its status."""
    return {
        "run": row["run"],
        "program": row["program"],
        "id": run_id(row["run"]),
        "start": row["start"],
        "stop": -1 if row["stop"] is None else row["stop"],
        "status": row["status"],
    }


def access_json(
    data: str, access: str, component: str, at_ms: int, metadata: Mapping[str, Any] | None
) -> dict[str, Any]:
    """An access of a run."""
    return {"data": data, "access": access, "at": at_ms, "component": component or None, "metadata": metadata}


def recorded_json(recorded: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The metadata that was recorded with several accesses, by scope; the latest comes last."""
    properties: dict[str, dict[str, str]] = {"user": {}, "system": {}}
    tags: dict[str, set[str]] = {"user": set(), "system": set()}
    for metadata in recorded:
        for scope in properties:
            properties[scope] |= metadata[scope]["properties"]
            tags[scope] |= {*metadata[scope]["tags"]}
    return {
        scope: {"properties": dict(sorted(properties[scope].items())), "tags": sorted(tags[scope])}
        for scope in properties
    }


def write_json(at_ms: int, run: str | None, program: str | None, source: str | None) -> dict[str, Any]:
    """A write to data: by a run, or to a stream from outside."""
    return {"at": at_ms, "program": program or None, "run": run or None, "source": source}


def runs_json(page: LineagePage) -> dict[str, Any]:
    """Some runs of a program, and the cursor of the next ones."""
    return {"runs": page.items, "cursor": page.cursor}


def touched_json(run: Mapping[str, Any], page: LineagePage) -> dict[str, Any]:
    """A run with some of its accesses, and the cursor of the next ones."""
    return {**run, "accesses": page.items, "cursor": page.cursor}


def lineage_json(walked: Walked, *, start_ms: int, end_ms: int) -> dict[str, Any]:
    """A walk's answer in the source's shape.

    Args:
        start_ms, end_ms: the window that was asked for.
    Returns:
        {"start", "end", "relations", "programs", "data"}, and where it is not all {"partial": true, "why"};
        where something may not be seen {"withheld": true}, without how much.
    """
    shown = [
        _Shown(_relation(relation), Urn.parse(relation.data), Urn.parse(relation.program))
        for relation in walked.relations
    ]
    shown.sort(key=_Shown.order)
    answer: dict[str, Any] = {
        "start": str(start_ms),
        "end": str(end_ms),
        "relations": [relation for relation, _, _ in shown],
        "programs": dict(sorted({dotted(program): _program(program) for _, _, program in shown}.items())),
        "data": dict(sorted({dotted(data): _data(data) for _, data, _ in shown}.items())),
    }
    if walked.partial is not None:
        answer |= {"partial": True, "why": walked.partial}
    if walked.withheld:
        answer["withheld"] = True
    return answer


class _Shown(NamedTuple):
    """A relation as it is shown, and what it is between."""

    relation: dict[str, Any]
    data: Urn
    program: Urn

    def order(self) -> tuple[str, str, str]:
        return self.relation["data"], self.relation["program"], self.relation.get("access", "")


def _relation(related: Relation) -> dict[str, Any]:
    relation: dict[str, Any] = {"data": dotted(Urn.parse(related.data)), "program": dotted(Urn.parse(related.program))}
    if related.access != UNKNOWN:
        relation["access"] = related.access
    relation["runs"] = sorted(map(run_id, related.runs))
    if related.components:
        relation["component"] = sorted(related.components)
    return relation


def run_id(run: str) -> str:
    """The last part of a run's URN, decoded."""
    last = run.rpartition("/")[2]
    return Urn.parse(run).name if "%" in last else last


def dotted(entity: Urn) -> str:
    """An entity's id in an answer: `dataset.default.purchases`, `flow.default.PurchaseHistory.PurchaseFlow`."""
    kind, parts = entity.kind, entity.path.replace(".", "%2E").split("/")
    if kind == "program":
        kind = parts.pop(2)
    return ".".join([kind, *parts])


def _program(program: Urn) -> dict[str, Any]:
    namespace, application, kind, name = program.parts
    return {"id": {"namespace": namespace, "application": application, "type": kind, "id": name}, "urn": str(program)}


def _data(data: Urn) -> dict[str, Any]:
    """Names of datasets and streams are decoded; of any other kind the id is the path as written, which none shares."""
    name = data.name if data.kind in ("dataset", "stream") else data.path
    return {"id": {"namespace": data.namespace, "type": data.kind, "id": name}, "urn": str(data)}
