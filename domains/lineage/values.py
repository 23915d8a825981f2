"""The JSON shapes of lineage: a walk's answer, a run, an access, the latest write.

A lineage has the source's shape. Two things are decided here that the source leaves open: `data` is always the data and
`program` the program (its sample swaps them in half its rows), and a `.` inside a part of a dotted id is written `%2E`,
so that no two entities share one. Beside each `id` is the `urn`, which commands accept. Source: docs/concepts.md; the
source text's section Lineage Output JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from ...schemas.errors import InputError
from ...schemas.shapes import METADATA, TEXT, WHOLE, Map, Named
from ...schemas.urn import Urn, urn
from ..catalog.domain import PROGRAM_TYPES
from .events import UNKNOWN
from .walk import Relation, Walked

_PARTS_OF_PROGRAM: Final = 3
"""Of its dotted id, behind the type."""
LATEST_WRITE: Final = {"at": int, "program": TEXT, "run": TEXT, "source": TEXT}
RUN: Final = Named("Run", {"run": str, "program": str, "id": str, "start": WHOLE, "stop": int, "status": TEXT})
ACCESS: Final = Named("Access", {
    "data": str, "access": str, "at": int, "component": TEXT, "metadata": (Map(object), None),
})  # fmt: skip
RELATION: Final = {"data": str, "program": str, "access?": str, "runs": [str], "component?": [str]}
NODE: Final = {"id": Map(TEXT), "urn": str}
LINEAGE_ANSWER: Final = Named("Lineage", {
    "start": str, "end": str, "relations": [RELATION], "programs": Map(NODE), "data": Map(NODE),
    "partial?": bool, "why?": str, "withheld?": bool, "final?": bool,
})  # fmt: skip
RUNS: Final = {"runs": [RUN], "cursor": TEXT, "final?": bool}
ACCESSES_PAGE: Final = {"accesses": [ACCESS], "cursor": TEXT, "final?": bool}
TOUCHED: Final = {**RUN, **ACCESSES_PAGE, "metadata": Map(METADATA)}


class LineagePage(NamedTuple):
    """Some of the answer's items, as JSON values; `cursor` asks for the next ones, None: there are none.

    `withheld`: something of all pages, at whatever time, may not be seen. `final`: False where facts that arrive later
    may change what stood at the time that was asked for.
    """

    items: list[dict[str, Any]]
    cursor: str | None
    withheld: bool = False
    final: bool = True


class RunList(list[tuple[dict[str, Any], list[dict[str, Any]]]]):
    """Runs in the lineage of data, each with all of its accesses.

    Attributes:
        partial: why they are not all of them; None: they are.
    """

    def __init__(
        self, runs: Iterable[tuple[dict[str, Any], list[dict[str, Any]]]] = (), *, partial: str | None = None
    ) -> None:
        super().__init__(runs)
        self.partial = partial


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
    return {"runs": page.items, "cursor": page.cursor, **_lacking(page)}


def accesses_json(page: LineagePage) -> dict[str, Any]:
    """Some accesses of a run, and the cursor of the next ones."""
    return {"accesses": page.items, "cursor": page.cursor, **_lacking(page)}


def touched_json(run: Mapping[str, Any], page: LineagePage) -> dict[str, Any]:
    """A run with some of its accesses, and the cursor of the next ones."""
    return {**run, **accesses_json(page)}


def _lacking(page: LineagePage) -> dict[str, Any]:
    """Says that something may not be seen, without how much, and that the page is not final; nothing where neither."""
    withheld = {"withheld": True} if page.withheld else {}
    return withheld if page.final else {**withheld, "final": False}


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


def of_dotted(text: str) -> Urn:
    """The data that an id of an answer names: the reverse of `dotted`.

    Raises:
        InputError: it is a program's id, or none.
    """
    kind, *parts = text.split(".")
    if kind in PROGRAM_TYPES and len(parts) == _PARTS_OF_PROGRAM:
        raise InputError(f"{text!r:.200} is a program, and lineage starts at data.", hint="Give ids of `data`.")
    try:
        return urn(kind, *[unquote(part, errors="strict") for part in parts])
    except ValueError:
        raise InputError(f"{text!r:.200} is not an id of data.", hint="Ids look like dataset.default.orders.") from None


def _program(program: Urn) -> dict[str, Any]:
    namespace, application, kind, name = program.parts
    return {"id": {"namespace": namespace, "application": application, "type": kind, "id": name}, "urn": str(program)}


def _data(data: Urn) -> dict[str, Any]:
    """Names of datasets and streams are decoded; of any other kind the id is the path as written, which none shares."""
    name = data.name if data.kind in ("dataset", "stream") else data.path
    return {"id": {"namespace": data.namespace, "type": data.kind, "id": name}, "urn": str(data)}
