"""Pages of lineage, as tables: of data, of a program's runs, of a run; and one level of it on an entity's page.

They ask as the API's rows do, so what may not be seen is withheld here as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ....rules.entity import EntityRow
from ....schemas.endpoints import Parameter, Request
from ....schemas.errors import UnknownEntityError
from ....schemas.pages import Page, Section, Shown, address_of
from ....schemas.urn import Urn
from ..events import NO_DATA
from ..http import lineage_of, run_with_accesses, runs_of
from ..walk import DIRECTIONS

_NEAR: Final = {"levels": "1", "limit": "50"}
_KEPT: Final = ("start", "end", "levels", "direction", "as_at", "as_of")
_INTERVAL: Final = ("start", "end")
_POINTS: Final = frozenset({"as_at", "as_of"})
_RUN: Final = "run"
_PROGRAM: Final = "program"


class Line(NamedTuple):
    """A relation as a line of a table: data, program, how they touched, in which runs."""

    data: str
    program: str
    access: str
    runs: list[str]
    components: list[str]


def _lineage(journal: Any, request: Request) -> Shown:
    """The lineage of data; the runs of a program, or a run's accesses, where the entity is one."""
    request = _filled(request)
    kind = request.entity.kind
    if kind == _PROGRAM:
        return _runs(journal, request)
    if kind == _RUN:
        return _run(journal, request)
    found = lineage_of(journal, request).value
    lines = _lines(found)
    asked = {name: request.query.get(name, "") for name in _KEPT}
    graph = {name: text for name, text in asked.items() if text}
    values = {
        "urn": request.entity, "found": found, "lines": lines, "asked": asked, "directions": DIRECTIONS,
        "nodes": len({str(request.entity), *(urn for line in lines for urn in (line.data, line.program))}),
        "interval": {name: asked[name] for name in _INTERVAL if asked[name]},
        "graph": address_of("/graph", request.entity, **{"levels": "1", **graph}),
    }  # fmt: skip
    return Shown("lineage/lineage.html", values)


def _filled(request: Request) -> Request:
    """A request without the fields of a form that were left empty."""
    return replace(request, query={name: text for name, text in request.query.items() if text})


def _lines(found: Mapping[str, Any]) -> list[Line]:
    """The relations with the entities that their ids stand for."""
    lines = []
    for one in found["relations"]:
        data, program = found["data"][one["data"]]["urn"], found["programs"][one["program"]]["urn"]
        lines.append(Line(data, program, one.get("access", "unknown"), one["runs"], one.get("component", [])))
    return lines


def _graph(journal: Any, request: Request) -> dict[str, Any]:
    """Lineage as nodes and the ways between them, the nearest nodes first; each leads on, data also to more."""
    found = lineage_of(journal, _filled(request)).value
    kept = {name: request.query[name] for name in _KEPT if request.query.get(name)} | {"levels": "1"}
    root = str(request.entity)
    nodes, ways = {root: _node(root, kept)}, []
    for one in _lines(found):
        for urn in (one.data, one.program):
            nodes.setdefault(urn, _node(urn, kept))
        ends = (one.program, one.data) if one.access == "write" else (one.data, one.program)
        ways.append({"from": ends[0], "to": ends[1], "access": one.access})
    return {
        "nodes": list(nodes.values()), "ways": ways, "withheld": "withheld" in found, "partial": found.get("why"),
    }  # fmt: skip


def _node(text: str, kept: Mapping[str, str]) -> dict[str, Any]:
    """Data lead to their page, a program to its runs in the interval."""
    urn = Urn.parse(text)
    if urn.kind == _PROGRAM:
        interval = {name: kept[name] for name in _INTERVAL if name in kept}
        to, more = address_of("/lineage", urn, **interval), None
    else:
        to, more = address_of("/entity", urn), address_of("/graph", urn, **kept)
    return {
        "urn": text, "kind": urn.kind, "name": urn.name, "within": list(urn.parts[:-1]), "to": to, "more": more,
    }  # fmt: skip


def _runs(journal: Any, request: Request) -> Shown:
    answer = runs_of(journal, request)
    kept = {name: request.query[name] for name in _KEPT if name in request.query}
    more = None if answer.next is None else address_of("/lineage", request.entity, **{**kept, **answer.next})
    return Shown("lineage/runs.html", {"urn": request.entity, "found": answer.value, "next": more})


def _run(journal: Any, request: Request) -> Shown:
    answer = run_with_accesses(journal, request)
    more = None if answer.next is None else address_of("/lineage", request.entity, **answer.next)
    return Shown("lineage/run.html", {"urn": request.entity, "found": answer.value, "next": more})


def _near(journal: Any, request: Request, row: EntityRow) -> Shown | None:
    """One level of an entity's lineage; nothing of kinds that have none."""
    asked = replace(request, query={**_NEAR, **{name: request.query[name] for name in _POINTS & {*request.query}}})
    if request.entity.kind in NO_DATA - {_PROGRAM, _RUN}:
        return None
    try:
        if request.entity.kind not in NO_DATA:
            found = lineage_of(journal, asked).value
            values = {"urn": request.entity, "found": found, "lines": _lines(found), "interval": {}}
            return Shown("lineage/near.html", values)
    except UnknownEntityError:
        return None
    return Shown("lineage/near.html", {"urn": request.entity, "found": None, "lines": []})


_TIMES: Final = "Milliseconds, ISO 8601, or relative: now-1h."
_QUERY: Final = (
    Parameter("start", f"Only runs that had not stopped before. {_TIMES}"),
    Parameter("end", f"Only runs that started before. {_TIMES}"),
    Parameter("levels", "How often to go from data to programs to data.", int),
    Parameter("direction", f"One of {', '.join(DIRECTIONS)}."),
    Parameter("cursor", "Of the page before."),
    Parameter("as_at", "What the journal had recorded by a position or a time."),
    Parameter("as_of", "Only facts about this time or an earlier one."),
)
PAGES: Final = (
    Page(
        "GET", "/lineage/{urn}", "The lineage of data, the runs of a program, or what a run accessed.", show=_lineage,
        query=_QUERY,
    ),
    Page("GET", "/graph/{urn}", "The lineage of data, to be drawn.", data=_graph, query=_QUERY),
)  # fmt: skip
"""The rows of lineage."""
SECTIONS: Final[tuple[Section, ...]] = (_near,)
"""What it adds to an entity's page."""
