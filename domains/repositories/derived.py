"""What each commit contains: its layers, and what the lake tells of it, made beside the fold.

A commit has its first parent's layers and one more: its staging area, or net rows in `trees` where a reset fell into
that, half of it is overwritten, or the commit is a merge. Then the tiers join the last ones. What a large staging area
holds is made in parts ahead of its commit (`partial`). Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson
import polars as pl
import pyarrow as pa

from ...fold.derived import Derived, Earlier, EndsBefore, Made, Piece, Rows
from ...lake.spool import Spool
from ...schemas.lthash import NOTHING
from ...schemas.urn import Urn
from .ancestry import Counted, graph_of
from .areas import Area
from .graph import Graph
from .kept_layers import KEPT_COLUMNS, KeptLayers
from .lanes import Lanes
from .layers import OBJECTS as OBJECTS_TABLE
from .layers import TREES as TREES_TABLE
from .layers import Contents, Layer, joined
from .made_layers import PassReads
from .merged_layers import LayerMerge
from .merging.bases import base_of
from .merging.roots import content_id, root_of
from .merging.staging import is_layer
from .partial import partial_key, partials_of
from .tables import COMMIT_TREES, COMMITS, OF_OBJECT, TREES
from .tallies import Tally
from .urns import commit_urn

MOST_WORK: Final = 262_144
"""Rows that a piece reads or writes before it ends, behind a whole commit."""
_WORK_OF_COMMIT: Final = 64
_FETCHED: Final = 256
_NEXT: Final = -1
"""The number of a layer that is made of others, one of which may still have the commit's own."""
_PLACE: Final = ("logical_timestamp", "seq")
_OF_EVENT: Final = (
    "tenant", "aggregate", "journal_partition", "logical_timestamp", "system_time", "event_time", "event_id", "actor",
)  # fmt: skip


class _Tree(NamedTuple):
    """What a later commit needs to know of one.

    Attributes:
        changes: paths added, changed and removed; of a partial commit, at the head that it stands on.
        position: of its event.
    """

    layers: tuple[Layer, ...]
    objects: int
    size_bytes: int
    lanes: Lanes | bytes
    changes: tuple[int, int, int] = (0, 0, 0)
    position: int = -1


_NOTHING: Final = _Tree((), 0, 0, NOTHING)


class _Step(NamedTuple):
    """A commit, or a partial one, that is made.

    Attributes:
        row: of `commits`, or of `branches`.
        repo: the repository's name.
        key: what stands for it in `commit_trees`.
        parents: the keys of its parents' rows.
        staging: the staging area that it takes.
    """

    row: Mapping[str, Any]
    repo: str
    key: str
    parents: tuple[str, ...]
    staging: int | None

    @property
    def tenant(self) -> str:
        return str(self.row["tenant"])

    @property
    def position(self) -> int:
        return int(self.row["logical_timestamp"])

    @property
    def is_partial(self) -> bool:
        return "parents" not in self.row

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Step:
        """The step of a commit."""
        repo = Urn.parse(row["aggregate"]).parts[0]
        parents = tuple(str(commit_urn(repo, one)) for one in row["parents"])
        return cls(row, repo, row["commit"], parents, row["staging"])

    @classmethod
    def ahead(cls, row: Mapping[str, Any]) -> _Step:
        """The step of a partial commit."""
        repo = Urn.parse(row["aggregate"]).parts[0]
        parents = () if row["head"] is None else (str(commit_urn(repo, row["head"])),)
        return cls(row, repo, partial_key(repo, row["staging"]), parents, row["staging"])


class _Pass:
    """One piece.

    Args:
        piece: what is made now.
        earlier: what stands in front of it.
        made: takes the layers that are made.
    """

    def __init__(self, piece: Piece, earlier: Earlier, made: Spool) -> None:
        self._piece = piece
        self._earlier = earlier
        self._made_layers = made
        self._reads = PassReads(earlier, piece.start, made)
        self._kept: KeptLayers = earlier.kept.setdefault("layers", KeptLayers())
        self._beside = earlier.beside
        self._trees: dict[tuple[str, str], _Tree | None] = {}
        self._content_ids: dict[tuple[str, str], str] = {}
        self._graphs: dict[tuple[str, str], Graph] = {}
        self._work = 0

    def run(self) -> Iterator[Made]:
        """The rows of every commit of the piece, as far as there is not too much to do."""
        steps = [*map(_Step.of, self._piece.rows["commits"].to_pylist())]
        steps += map(_Step.ahead, partials_of(self._piece.rows["branches"], self._earlier))
        steps.sort(key=lambda step: step.position)
        made: list[Callable[[], dict[str, Any]]] = []
        end = self._piece.end
        for number, step in enumerate(steps):
            self._fetch(step, islice(steps, number, number + _FETCHED))
            made.append(self._made(step))
            for chunk in self._made_layers.chunks(step.position):
                self._work += chunk.num_rows
                yield Rows(TREES_TABLE, chunk)
            self._work += _WORK_OF_COMMIT
            if self._work >= MOST_WORK:
                end = step.position + 1
                break
        yield Rows("commit_trees", pa.Table.from_pylist([one() for one in made], schema=COMMIT_TREES))
        if end < self._piece.end:
            yield EndsBefore(end)

    def _fetch(self, step: _Step, following: Iterator[_Step]) -> None:
        """Take up what stands of the commits that a step needs, and of those that the next ones do."""
        if all((step.tenant, one) in self._trees for one in _needed(step)):
            return
        self._take_up({(one.tenant, key) for one in following for key in _needed(one)})

    def _take_up(self, wanted: set[tuple[str, str]]) -> None:
        lacking = sorted(wanted - self._trees.keys())
        if not lacking:
            return
        keys = pa.table({"tenant": [one for one, _ in lacking], "commit": [one for _, one in lacking]})
        self._trees |= dict.fromkeys(lacking)
        for row in self._earlier.newest("commit_trees", keys).to_pylist():
            layers = tuple(map(Layer.of, row["layers"], row["layer_rows"]))
            changes = (row["added"], row["changed"], row["removed"])
            key = row["tenant"], row["commit"]
            self._trees[key] = _Tree(
                layers, row["objects"], row["bytes"], row["lanes"], changes, row["logical_timestamp"]
            )
            self._content_ids[key] = row["content_id"]

    def _tree(self, tenant: str, key: str) -> _Tree:
        """What is known of a commit that is made."""
        found = self._trees[tenant, key]
        if found is None:
            raise LookupError(f"{key} of {tenant} is not made")
        return found

    def _made(self, step: _Step) -> Callable[[], dict[str, Any]]:
        """Make a commit: its rows are set aside; gives what gives its row, as soon as its objects are hashed."""
        tenant = step.tenant
        parents = [self._tree(tenant, parent) for parent in step.parents]
        first = parents[0] if parents else _NOTHING
        contents = Contents(self._reads, tenant, step.repo, self._kept)
        if len(parents) > 1:
            tally, layers = self._merged(step, first, contents)
        elif step.staging is None:
            tally, layers = self._tally(first), first.layers
        else:
            tally, layers = self._plain(step, first, contents, step.staging)
        layers = self._join(contents, layers, step)
        objects = first.objects + tally.added - tally.removed
        changes = (tally.added, tally.changed, tally.removed)
        tree = _Tree(tuple(layers), objects, tally.told_bytes, tally.lanes, changes, step.position)
        self._trees[tenant, step.key] = tree
        return partial(self._told, step, tree, tally)

    def _tally(self, tree: _Tree, changes: tuple[int, int, int] = (0, 0, 0)) -> Tally:
        """Counts from a commit on."""
        return Tally(Lanes(self._beside, tree.lanes), tree.size_bytes, *changes)

    # a commit of what is staged

    def _plain(self, step: _Step, first: _Tree, contents: Contents, staging: int) -> tuple[Tally, Sequence[Layer]]:
        """Lay a staging area over a commit, or what is new in it over its last partial commit."""
        area = Area(self._reads, step.tenant, step.repo, staging, step.position + 1)
        ahead = self._trees.get((step.tenant, partial_key(step.repo, staging)))
        stands_elsewhere = step.row.get("strategy") is not None  # on nothing, where a merge stands on its source
        if ahead is None or stands_elsewhere or ahead.position < area.last_reset:
            return self._whole(step, first, contents, area)
        area.since = ahead.position + 1
        tally = self._tally(ahead, ahead.changes)
        for within in area.ranges():
            new = area.net(within, OF_OBJECT)
            old, at_first = (
                contents.overlaid(one.layers, ["content", "size"], within=within, paths=new["path"])
                for one in (ahead, first)
            )
            tally.count(new, old, at_first)
            self._set_aside(step, new)
        return tally, self._with_made(step, ahead.layers)

    def _whole(self, step: _Step, first: _Tree, contents: Contents, area: Area) -> tuple[Tally, Sequence[Layer]]:
        writes = step.is_partial or bool(area.resets)
        tally = self._tally(first)
        columns = OF_OBJECT if writes else sorted(KEPT_COLUMNS)
        ranges, count = area.ranges(), 0
        for within in ranges:
            new = area.net(within, columns)
            tally.count(new, contents.overlaid(first.layers, ["content", "size"], within=within, paths=new["path"]))
            count += new.height
            if writes:
                self._set_aside(step, new)
        self._work += count
        if not writes and count and is_layer(area.rows, count, 0):
            layer = Layer(OBJECTS_TABLE, area.number, count)
            if len(ranges) == 1:
                contents.keep(layer, new)
            return tally, [*first.layers, layer]
        for within in () if writes else ranges:
            self._set_aside(step, area.net(within, OF_OBJECT))
        return tally, self._with_made(step, first.layers)

    # a merge

    def _merged(self, step: _Step, first: _Tree, contents: Contents) -> tuple[Tally, Sequence[Layer]]:
        """What a merge changes at its destination, and over it what was staged there."""
        graph = self._graph(step)
        # The newest before the merge, as its client has seen them: an id may come again.
        destination, source = (graph.numbers(one, until=step.position)[-1] for one in step.row["parents"])
        parents = Counted(graph.parents)
        base = base_of(parents, graph.ids, destination, source)
        self._work += parents.count
        before = step.parents[0].removesuffix(step.row["parents"][0])  # of all commits' URNs: each is not made anew
        sides = {one: before + graph.id_of(one) for one in LayerMerge.sides(base, destination, source)}
        self._take_up({(step.tenant, urn) for urn in sides.values()})
        layers = {one: self._tree(step.tenant, urn).layers for one, urn in sides.items()}
        merge = LayerMerge(contents, layers, base, destination, source, step.row["strategy"])
        staging = step.staging
        area = None if staging is None else Area(self._reads, step.tenant, step.repo, staging, step.position)
        tally = self._tally(first)
        for within, taken in merge.changes(tally.note, staging):
            new = taken if area is None else _laid_over(taken, area.net(within, OF_OBJECT))
            tally.count(new, contents.overlaid(first.layers, ["content", "size"], within=within, paths=new["path"]))
            self._set_aside(step, new)
        self._work += merge.rows
        return tally, self._with_made(step, first.layers)

    def _graph(self, step: _Step) -> Graph:
        """All commits of a repository, up to the piece's end."""
        key = step.tenant, step.row["aggregate"]
        if key not in self._graphs:
            self._graphs[key] = graph_of(self._piece, self._earlier, *key)
        return self._graphs[key]

    # layers

    def _set_aside(self, step: _Step, rows: pl.DataFrame) -> None:
        if rows.height:
            self._made_layers.add(step.position, self._as_trees(rows, step))

    def _with_made(self, step: _Step, layers: Sequence[Layer]) -> Sequence[Layer]:
        """Some layers, and that of the rows that were set aside, if there are any."""
        count = sum(span.rows for span in self._made_layers.spans(step.position))
        return [*layers, Layer(TREES_TABLE, step.position, count)] if count else layers

    def _join(self, contents: Contents, layers: Sequence[Layer], step: _Step) -> Sequence[Layer]:
        """The layers after the tiers have joined what they do; of the steps only the last one's rows are kept."""
        made, kept = self._made_layers, list[pl.DataFrame]()
        while True:
            front, frames = joined(contents, layers, OF_OBJECT, step.position)
            if frames is None:
                if kept and layers[-1:] and layers[-1][:2] == (TREES_TABLE, step.position):
                    contents.keep(layers[-1], pl.concat(kept))
                return layers
            is_kept = contents.keeps(sum(layer.rows for layer in layers[len(front) :]))
            kept.clear()
            for frame in frames:
                made.add(_NEXT, self._as_trees(frame, step))
                if is_kept:
                    kept.append(frame.select("path", "deleted", *sorted(KEPT_COLUMNS)))
            made.rename(_NEXT, step.position)
            layers = self._with_made(step, front)

    def _as_trees(self, rows: pl.DataFrame, step: _Step) -> pa.Table:
        """Net rows as rows of `trees`, made by a commit."""
        wanted = rows.select("path", "deleted", *OF_OBJECT)
        table = wanted.to_arrow(compat_level=pl.CompatLevel.oldest())  # its texts become those of `trees` as they are
        given = {name: step.row[name] for name in _OF_EVENT} | {
            "domain": self._piece.domain, "repo": step.repo, "layer": step.position, "seq": 0,
        }  # fmt: skip
        columns = [
            table[name].cast(one.type) if (name := one.name) in table.column_names
            else pa.repeat(pa.scalar(given[name], one.type), table.num_rows)
            for one in TREES
        ]  # fmt: skip
        return pa.table(columns, schema=TREES)

    def _told(self, step: _Step, tree: _Tree, tally: Tally) -> dict[str, Any]:
        """The row of a commit; of commits of a piece in their order."""
        lanes = tally.lanes.state
        root = root_of(lanes)
        known = "" if step.is_partial else content_id(
            root, [self._content_ids[step.tenant, one] for one in step.parents], step.row["message"],
            orjson.loads(step.row["metadata"]),
        )  # fmt: skip
        self._content_ids[step.tenant, step.key] = known
        return {
            **{name: step.row[name] for name in (*_OF_EVENT, "seq")},
            "domain": self._piece.domain,
            "deleted": False,
            "commit": step.key,
            "layers": [layer.name for layer in tree.layers],
            "layer_rows": [layer.rows for layer in tree.layers],
            "added": tally.added,
            "changed": tally.changed,
            "removed": tally.removed,
            "objects": tree.objects,
            "bytes": tree.size_bytes,
            "conflicts": tally.conflicts,
            "conflicting": orjson.dumps(tally.shown).decode(),
            "root": root,
            "lanes": lanes,
            "content_id": known,
        }


def _needed(step: _Step) -> list[str]:
    """The commits that a step stands on, and the partial commit that it may."""
    return [*step.parents] + ([] if step.staging is None else [partial_key(step.repo, step.staging)])


def _laid_over(taken: pl.DataFrame, staged: pl.DataFrame) -> pl.DataFrame:
    """What is staged over what a merge takes, by path."""
    left = taken.join(staged.select("path"), on="path", how="anti")
    return pl.concat([left, staged.select(taken.columns)]).sort("path")


def _derive(piece: Piece, earlier: Earlier) -> Iterator[Made]:
    with Spool("path") as made:
        yield from _Pass(piece, earlier, made).run()


DERIVED: Final = (
    Derived(
        "trees",
        (TREES_TABLE, "commit_trees"),
        {
            "commits": tuple(COMMITS.names),
            "branches": (*_OF_EVENT, "seq", "deleted", "urn", "head", "staging", "staged_rows"),
        },
        _derive,
        looks_up=(OBJECTS_TABLE, "resets"),
    ),
)
