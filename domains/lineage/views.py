"""Lineage, runs and accesses as trees and tables; `rendering.py` makes text safe.

Invariant: what is drawn comes from the same value that `--json` prints, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from ...schemas.urn import Urn
from ...terminal.rendering import fields, many, named, safe, shortened, table, time_text, verdict
from .events import UNKNOWN, is_definition
from .walk import TO_DATA, TO_PROGRAM, Direction

_ARROWS = {"read": "→ read by", "write": "← written by", None: "– accessed by"}
_NOT_FINAL = "not final: facts that arrive later may change it"
_BACK = {"read": "← reads", "write": "→ writes", None: "– touches"}


def lineage_view(
    answer: Mapping[str, Any], data: Urn, *, within: bool = False, direction: Direction = "both"
) -> RenderableType:
    """A lineage as a tree from the data that was asked about; what stands above already is not unfolded again.

    Args:
        within: a window was asked for.
        direction: the one that was asked for; in a single one, no branch goes against it.
    """
    from .values import dotted

    relations = answer["relations"]
    root = dotted(data)
    urns = {name: shown["urn"] for side in ("programs", "data") for name, shown in answer[side].items()}
    tree = Tree(_name(str(data)))
    _Drawing(relations, urns, direction).unfold(tree, root)
    programs, others = len(answer["programs"]), len(answer["data"])
    notes = [f"{many(programs, 'program')}, {others:,} data, {many(len(relations), 'relation')}"]
    notes += [f"incomplete: {answer['why']}"] if answer.get("partial") else []
    notes += [_NOT_FINAL] if answer.get("final") is False else []
    if not relations:
        notes = ["no access to it is known" + " in this window" * within, *notes[1:]]
    return Group(tree, Text("; ".join(safe(note) for note in notes), style="dim"))


class _Drawing:
    """Draws breadth first, so that each node is unfolded where it is nearest to the root.

    Args:
        urns: of the nodes, by their ids in the relations.
        direction: that of the branches. A relation that the walk went along is drawn where it goes in that direction.
    """

    def __init__(self, relations: list[dict[str, Any]], urns: Mapping[str, str], direction: Direction) -> None:
        self._urns = urns
        self._is_both = direction == "both"
        self._of_data: dict[str, list[dict[str, Any]]] = {}
        self._of_program: dict[str, list[dict[str, Any]]] = {}
        for relation in relations:
            access = relation.get("access", UNKNOWN)
            if access in TO_PROGRAM[direction]:
                self._of_data.setdefault(relation["data"], []).append(relation)
            if access in TO_DATA[direction]:
                self._of_program.setdefault(relation["program"], []).append(relation)

    def unfold(self, tree: Tree, root: str) -> None:
        seen, waiting = {root}, [(tree, root, "")]
        while waiting:
            following = []
            for branch, node, above in waiting:
                for other, label in self._beside(node, above):
                    more = "" if other not in seen else "  (shown elsewhere)"
                    new = branch.add(_whole(Text.assemble(label, (more, "dim"))))
                    if other not in seen:
                        seen.add(other)
                        following.append((new, other, node))
            waiting = following

    def _beside(self, node: str, above: str) -> list[tuple[str, Text]]:
        """The nodes beside a node, each with how the two are related.

        Without the one above, unless in a single direction the way back is a relation of its own.
        """
        beside: dict[str, list[dict[str, Any]]] = {}
        for relation in self._of_data.get(node, []):
            beside.setdefault(relation["program"], []).append(relation)
        for relation in self._of_program.get(node, []):
            beside.setdefault(relation["data"], []).append(relation)
        return [
            (other, _related(self._urns[other], relations, _ARROWS if node in self._of_data else _BACK))
            for other, relations in sorted(beside.items())
            if other != above or (not self._is_both and any("access" in relation for relation in relations))
        ]


def _related(other: str, relations: list[dict[str, Any]], arrows: Mapping[str | None, str]) -> Text:
    how = ", ".join(arrows[relation.get("access")] for relation in relations)
    return Text.assemble((f"{how} ", "dim"), _name(other), (f"  {_counted(relations)}", "dim"))


def _counted(relations: list[dict[str, Any]]) -> str:
    """How many runs are behind relations; definitions are none."""
    numbers = {run for relation in relations for run in relation["runs"]}
    runs = sum(not is_definition(number) for number in numbers)
    counted = f"{runs:,} run{'' if runs == 1 else 's'}"
    if runs == len(numbers):
        return counted
    return f"by definition, {counted}" if runs else "by definition"


def _name(urn: str) -> Text:
    """A complete URN, to be pasted into the next command."""
    return _whole(Text(safe(urn), style="bold"))


def _whole(line: Text) -> Text:
    """A line that is never wrapped."""
    line.no_wrap, line.overflow = True, "ignore"
    return line


def runs_view(shown: Mapping[str, Any]) -> RenderableType:
    """Runs of a program, one a line."""
    rows = [(named(run["id"]), _began(run), _ended(run), _status(run["id"], run)) for run in shown["runs"]]
    drawn: RenderableType = table(["run", "started", "stopped", "status"], rows) if rows else Text("no runs", "dim")
    return _paged(drawn, shown)


def run_view(shown: Mapping[str, Any]) -> RenderableType:
    """A run with what it touched and what was recorded with it."""
    head = fields(
        {"run": shown["run"], "program": shown["program"], "started": _began(shown), "stopped": _ended(shown),
         "status": _status(shown["run"], shown)}
    )  # fmt: skip
    rows = [
        (access["access"], access["data"], named(access["component"] or "-"), time_text(access["at"]))
        for access in shown["accesses"]
    ]
    parts: list[RenderableType] = [head, Text(), table(["access", "data", "component", "at"], rows)]
    for scope, recorded in shown["metadata"].items():
        if recorded["properties"] or recorded["tags"]:
            pairs = {
                **recorded["properties"],
                **({"tags": ", ".join(recorded["tags"])} if recorded["tags"] else {}),
            }
            parts += [Text(), Text(f"recorded in {scope.upper()}", style="bold"), fields(pairs, indent=2)]
    return _paged(Group(*parts), shown)


def imported_view(imported: Mapping[str, Any]) -> RenderableType:
    """What came of an import."""
    lines = [Text(f"{imported['events']:,} run events, {imported['facts']:,} facts emitted")]
    for refusal in imported["refused"]:
        lines.append(
            Text.assemble(verdict("refused"), f"  event {refusal['line']}: {shortened(refusal['message'], 160)}")
        )
    return Group(*lines)


def _status(run: str, shown: Mapping[str, Any]) -> str:
    """The final status; of what stands for a definition (and has not ended), that."""
    return shown["status"] or ("definition" if is_definition(run) else "-")


def _began(run: Mapping[str, Any]) -> str:
    return time_text(run["start"])


def _ended(run: Mapping[str, Any]) -> str:
    return "-" if run["stop"] == -1 else time_text(run["stop"])


def _paged(drawn: RenderableType, shown: Mapping[str, Any]) -> RenderableType:
    """What is drawn of an answer, and below it what continues it, and that it may change."""
    parts = [drawn]
    if shown["cursor"] is not None:
        parts.append(Text(f"next page: --cursor {shown['cursor']}", style="dim", no_wrap=True, overflow="ignore"))
    if shown.get("final") is False:
        parts.append(Text(_NOT_FINAL, style="dim"))
    return Group(*parts)
