"""What each commit contains: its layers, and what the lake tells of it, made beside the fold.

A commit has its first parent's layers and one more: its staging area, or net rows in `trees` where a reset fell into
that, half of it is overwritten, or the commit is a merge. Then the tiers join the last ones. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson
import polars as pl
import pyarrow as pa

from ...fold.derived import Derived, Earlier, File, Piece, Rows
from ...schemas.lthash import NOTHING
from ...schemas.lthash_bulk import updated
from ...schemas.urn import Urn
from .layers import OBJECTS as OBJECTS_TABLE
from .layers import TREES as TREES_TABLE
from .layers import Contents, Layer, PathRange, as_frame, joined, newest
from .merging.bases import ParentColumns, base_of
from .merging.paths import Conflicting
from .merging.ranges import BaseContent, Content, MergedRange, SortedRange, commits_of, merged
from .merging.roots import content_id, object_element, root_of
from .merging.staging import Reset, covered_up_to, is_layer
from .tables import COMMIT_TREES, COMMITS, OBJECTS, OF_OBJECT, RESETS, TREES
from .urns import commit_urn

MOST_SHOWN: Final = 100
"""Conflicts of a merge that its row tells."""
_PLACE: Final = ("logical_timestamp", "seq")
_OF_EVENT: Final = (
    "tenant", "aggregate", "domain", "journal_partition", "logical_timestamp", "system_time", "event_time", "event_id",
    "actor",
)  # fmt: skip


class _Tree(NamedTuple):
    """What a later commit needs to know of one."""

    layers: tuple[Layer, ...]
    objects: int
    size_bytes: int
    lanes: bytes
    content_id: str


_NOTHING: Final = _Tree((), 0, 0, NOTHING, "")


@dataclass
class _Tally:
    """What a commit changes, added up range by range."""

    lanes: bytes
    added: int = 0
    changed: int = 0
    removed: int = 0
    size_bytes: int = 0
    conflicts: int = 0
    shown: list[list[Any]] = field(default_factory=list)

    def count(self, new: pl.DataFrame, old: pl.DataFrame) -> None:
        """Some paths as they become, and as they were."""
        before = old.filter(~pl.col("deleted")).select("path", old_content="content", old_size="size")
        after = new.select(
            "path",
            content=pl.when(~pl.col("deleted")).then("content"),
            size=pl.when(~pl.col("deleted")).then("size"),
        )
        both = after.join(before, on="path", how="left", maintain_order="left")
        both = both.filter(pl.col("content").ne_missing(pl.col("old_content")))
        is_there, was_there = pl.col("content").is_not_null(), pl.col("old_content").is_not_null()
        self.added += both.filter(~was_there).height
        self.removed += both.filter(~is_there).height
        self.changed += both.filter(is_there & was_there).height
        self.size_bytes += int(both["size"].sum()) - int(both["old_size"].sum())
        self.lanes = updated(
            self.lanes, _elements(both, "content"), _elements(both, "old_content")
        )  # fmt: skip

    def note(self, found: MergedRange) -> None:
        """The conflicts of a range of a merge."""
        self.conflicts += len(found.conflicts)
        for path, base, destination, source in found.conflicts[: MOST_SHOWN - len(self.shown)]:
            self.shown.append([path, _text(base), _text(destination), _text(source)])


def _elements(rows: pl.DataFrame, column: str) -> Iterator[bytes]:
    there = rows.filter(pl.col(column).is_not_null())
    return map(object_element, there["path"], there[column])


def _text(content: BaseContent) -> str | None:
    if isinstance(content, Conflicting):
        return "conflict"
    return None if content is None else content.hex()


class _Area:
    """The staging area that a commit takes.

    Args:
        reads: the tables.
        row: of the commit.
        repo: the repository's name.
    """

    def __init__(self, reads: _Reads, row: Mapping[str, Any], repo: str) -> None:
        self._reads = reads
        self._of = {"tenant": [row["tenant"]], "repo": [repo], "staging": [row["staging"]]}
        resets = reads.rows("resets", self._of, columns=["path", "is_prefix", "logical_timestamp"]).to_pylist()
        self._resets = [
            Reset(one["path"].encode(), one["is_prefix"], one["logical_timestamp"]) for one in resets
        ]  # fmt: skip
        paths = as_frame(reads.rows(OBJECTS_TABLE, self._of, columns=["path"]))["path"]
        paths_once = paths.n_unique()
        self.layer = Layer(OBJECTS_TABLE, row["staging"], paths_once)
        self.is_layer = is_layer(len(paths), paths_once, len(self._resets))

    def net(self, within: PathRange | None) -> pl.DataFrame:
        """What stands in it, by path."""
        rows = self._reads.rows(
            OBJECTS_TABLE,
            self._of,
            columns=["path", "deleted", *OF_OBJECT, *_PLACE],
            between=None if within is None else {"path": (within.first, within.last)},
        )
        standing = newest(as_frame(rows))
        if self._resets:
            up_to = covered_up_to([path.encode() for path in standing["path"]], self._resets)
            standing = standing.filter(standing["logical_timestamp"] > pl.Series(up_to, dtype=pl.Int64))
        return standing.drop(_PLACE)


class _Reads:
    """Rows in front of a piece, those of the piece, and the layers that were made of it so far."""

    def __init__(self, piece: Piece, earlier: Earlier) -> None:
        self._start = piece.start
        self._earlier = earlier
        self._piece = {name: as_frame(rows) for name, rows in piece.rows.items()}
        self._schemas = {name: rows.schema for name, rows in piece.rows.items()} | {TREES_TABLE: TREES}
        self.made: dict[int, list[pa.Table]] = {}

    def rows(
        self,
        table: str,
        among: Mapping[str, Sequence[Any]],
        *,
        columns: Sequence[str] | None = None,
        between: Mapping[str, tuple[Any, Any]] | None = None,
        keys: pa.Table | None = None,
    ) -> pa.Table:
        """As of `Earlier`, up to the piece's end; not in the order of positions."""
        schema = self._schemas[table]
        names = schema.names if columns is None else list(columns)
        found = self._now(table, among)
        if found is not None:
            for name, (low, high) in (between or {}).items():
                found = found.filter(pl.col(name).is_between(pl.lit(low), pl.lit(high)))
            if keys is not None:
                found = found.join(as_frame(keys), on=keys.column_names, how="semi")
        wanted = pa.schema([schema.field(name) for name in names])
        parts = [] if found is None else [found.select(names).to_arrow().cast(wanted)]
        if not self._all_made_now(table, among):
            parts.append(
                self._earlier.rows(table, among, columns=names, between=between, keys=keys).cast(wanted)
            )  # fmt: skip
        return pa.concat_tables(parts) if parts else wanted.empty_table()

    def _now(self, table: str, among: Mapping[str, Sequence[Any]]) -> pl.DataFrame | None:
        if table == TREES_TABLE:
            chunks = [chunk for number in among["layer"] for chunk in self.made.get(number, ())]
            return as_frame(pa.concat_tables(chunks)) if chunks else None
        found = self._piece[table]
        for name, values in among.items():
            found = found.filter(pl.col(name).is_in(list(values)))
        return found

    def _all_made_now(self, table: str, among: Mapping[str, Sequence[Any]]) -> bool:
        """Whether nothing of these areas or layers can stand in front of the piece."""
        number = {TREES_TABLE: "layer", OBJECTS_TABLE: "staging", "resets": "staging"}.get(table)
        return number is not None and all(one >= self._start for one in among[number])


class _Pass:
    """One piece.

    Args:
        piece: what is made now.
        earlier: what stands in front of it.
    """

    def __init__(self, piece: Piece, earlier: Earlier) -> None:
        self._piece = piece
        self._earlier = earlier
        self._reads = _Reads(piece, earlier)
        self._trees: dict[tuple[str, str], _Tree] = {}
        self._graphs: dict[tuple[str, str], _Graph] = {}

    def run(self) -> Iterator[Rows]:
        """The rows of every commit of the piece."""
        made = []
        commits = self._piece.rows["commits"].to_pylist()
        self._fetch({(row["tenant"], one) for row in commits for one in _parents(row)})
        for row in commits:
            tree, told = self._commit(row)
            self._trees[row["tenant"], row["commit"]] = tree
            made.append(told)
            for chunk in self._reads.made.get(row["logical_timestamp"], ()):
                yield Rows(TREES_TABLE, chunk)
        yield Rows("commit_trees", pa.Table.from_pylist(made, schema=COMMIT_TREES))

    def _fetch(self, wanted: set[tuple[str, str]]) -> None:
        """Take up what stands of some commits in front of the piece."""
        lacking = sorted(wanted - self._trees.keys())
        if lacking:
            keys = pa.table({"tenant": [one for one, _ in lacking], "commit": [one for _, one in lacking]})
            for row in self._earlier.newest("commit_trees", keys).to_pylist():
                layers = tuple(map(Layer.of, row["layers"], row["layer_rows"]))
                tree = _Tree(layers, row["objects"], row["bytes"], row["lanes"], row["content_id"])
                self._trees[row["tenant"], row["commit"]] = tree

    def _commit(self, row: Mapping[str, Any]) -> tuple[_Tree, dict[str, Any]]:
        tenant, repo, position = row["tenant"], Urn.parse(row["aggregate"]).parts[0], row["logical_timestamp"]
        parents = [self._trees[tenant, parent] for parent in _parents(row)]
        first = parents[0] if parents else _NOTHING
        contents = Contents(self._reads, tenant, repo)
        area = None if row["staging"] is None else _Area(self._reads, row, repo)
        tally = _Tally(first.lanes)
        layers = list(first.layers)
        if len(parents) > 1:
            changes = self._merged(row, contents, area, tally)
            stands = False
        else:
            changes = self._staged(contents, area)
            stands = area is not None and area.is_layer
        chunks, count = [], 0
        for new in changes:
            if new.height:
                old = contents.overlaid(first.layers, ["content", "size"], paths=new["path"])
                tally.count(new, old)
                count += new.height
                if not stands:
                    chunks.append(self._as_trees(new, row, repo))
        if stands and area is not None:
            layers.append(area.layer)
        elif count:
            self._reads.made[position] = chunks
            layers.append(Layer(TREES_TABLE, position, count))
        tree_layers = self._join(contents, layers if count else list(first.layers), row, repo)
        objects = first.objects + tally.added - tally.removed
        root = root_of(tally.lanes)
        metadata = orjson.loads(row["metadata"])
        known = content_id(root, [one.content_id for one in parents], row["message"], metadata)
        tree = _Tree(tree_layers, objects, first.size_bytes + tally.size_bytes, tally.lanes, known)
        return tree, self._told(row, tree, tally, root)

    def _join(self, contents: Contents, layers: list[Layer], row: Mapping[str, Any], repo: str) -> tuple[Layer, ...]:
        """The layers after the tiers have joined what they do; of the steps only the last one's rows are kept."""
        position = row["logical_timestamp"]
        while True:
            front, frames = joined(contents, layers, OF_OBJECT, position)
            if frames is None:
                break
            chunks = [self._as_trees(frame, row, repo) for frame in frames if frame.height]
            self._reads.made[position] = chunks
            count = sum(chunk.num_rows for chunk in chunks)
            layers = [*front, Layer(TREES_TABLE, position, count)] if count else [*front]
        if not any(layer[:2] == (TREES_TABLE, position) for layer in layers):
            self._reads.made.pop(position, None)
        return tuple(layers)

    def _staged(self, contents: Contents, area: _Area | None) -> Iterator[pl.DataFrame]:
        if area is not None:
            for within in contents.ranges([area.layer]):
                yield area.net(within)

    def _merged(
        self, row: Mapping[str, Any], contents: Contents, area: _Area | None, tally: _Tally
    ) -> Iterator[pl.DataFrame]:
        """What a merge changes at its destination, and over it what was staged there."""
        tenant = row["tenant"]
        graph = self._graph(tenant, row["aggregate"])
        destination, source = (graph.numbers[parent] for parent in _parents(row))
        base = base_of(graph.parents, graph.ids, destination, source)
        sides = sorted({destination, source, *commits_of(base)})
        self._fetch({(tenant, graph.urns[one]) for one in sides})
        layers = {one: self._trees[tenant, graph.urns[one]].layers for one in sides}
        shared = _shared([*layers.values()])
        own = {one: found[len(shared) :] for one, found in layers.items()}
        largest = [layer for found in own.values() for layer in found] + ([area.layer] if area else [])
        for within in contents.ranges(largest):
            found = {one: contents.overlaid(own[one], ["content"], within=within) for one in sides}
            paths = pl.concat([frame["path"] for frame in found.values()]).unique().sort()
            below = _by_path(contents.overlaid(shared, ["content"], paths=paths))
            columns = {one: below | _by_path(frame) for one, frame in found.items()}
            named = paths.to_list()
            ranges = {one: [SortedRange(named, [held.get(path) for path in named])] for one, held in columns.items()}
            changes = area.net(within) if area is not None else None
            for part in merged(ranges.__getitem__, base, destination, source, row["strategy"]):
                tally.note(part)
                taken = self._taken(contents, layers[source], part)
                changes = taken if changes is None else pl.concat(
                    [taken.filter(~pl.col("path").is_in(changes["path"].implode())), changes.select(taken.columns)]
                ).sort("path")  # fmt: skip
            if changes is not None:
                yield changes

    def _taken(self, contents: Contents, source: Sequence[Layer], part: MergedRange) -> pl.DataFrame:
        """The rows of what a merge takes from its source: objects, and of those that it deletes the paths."""
        there = pl.Series("path", part.paths, dtype=pl.String)
        rows = contents.overlaid(source, OF_OBJECT, paths=there)
        held = rows.filter(~pl.col("deleted"))
        gone = pl.DataFrame({"path": there}).join(held, on="path", how="anti").with_columns(
            deleted=True, branch=pl.lit("")
        )  # fmt: skip
        return pl.concat([held, gone], how="diagonal").sort("path")

    def _graph(self, tenant: str, aggregate: str) -> _Graph:
        """All commits of a repository, up to the piece's end; read once a piece, where it has a merge."""
        key = tenant, aggregate
        if key not in self._graphs:
            rows = self._reads.rows(
                "commits", {"tenant": [tenant], "aggregate": [aggregate]},
                columns=["commit", "parents", "logical_timestamp"],
            )  # fmt: skip
            self._graphs[key] = _Graph(as_frame(rows).sort("logical_timestamp"), aggregate)
        return self._graphs[key]

    def _as_trees(self, rows: pl.DataFrame, row: Mapping[str, Any], repo: str) -> pa.Table:
        """Net rows as rows of `trees`, made by a commit."""
        table = rows.select("path", "deleted", *OF_OBJECT).to_arrow()
        given = {**{name: row[name] for name in _OF_EVENT if name != "domain"}, "domain": self._piece.domain,
                 "repo": repo, "layer": row["logical_timestamp"], "seq": 0}  # fmt: skip
        columns = [
            table[name].cast(one.type) if (name := one.name) in table.column_names
            else pa.repeat(pa.scalar(given[name], one.type), table.num_rows)
            for one in TREES
        ]  # fmt: skip
        return pa.table(columns, schema=TREES)

    def _told(self, row: Mapping[str, Any], tree: _Tree, tally: _Tally, root: str) -> dict[str, Any]:
        return {
            **{name: row[name] for name in _OF_EVENT if name != "domain"},
            "domain": self._piece.domain,
            "seq": row["seq"],
            "deleted": False,
            "commit": row["commit"],
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
            "lanes": tree.lanes,
            "content_id": tree.content_id,
        }


class _Graph:
    """The commits of a repository, numbered by their positions.

    Args:
        rows: `commit` and `parents` of each, the oldest first.
        aggregate: the repository's URN.
    """

    def __init__(self, rows: pl.DataFrame, aggregate: str) -> None:
        repo = Urn.parse(aggregate).parts[0]
        self.urns: list[str] = rows["commit"].to_list()
        self.ids = [Urn.parse(one).parts[-1] for one in self.urns]
        self.numbers = {urn: number for number, urn in enumerate(self.urns)}
        parents = [[self.numbers[str(commit_urn(repo, one))] for one in some] for some in rows["parents"].to_list()]
        self.parents = ParentColumns(
            [some[0] if some else -1 for some in parents], [some[1] if len(some) > 1 else -1 for some in parents]
        )


def _parents(row: Mapping[str, Any]) -> list[str]:
    """The URNs of a commit's parents."""
    repo = Urn.parse(row["aggregate"]).parts[0]
    return [str(commit_urn(repo, one)) for one in row["parents"]]


def _shared(layers: Sequence[Sequence[Layer]]) -> Sequence[Layer]:
    """The oldest layers that all commits have."""
    count = 0
    while all(len(some) > count for some in layers) and len({some[count][:2] for some in layers}) == 1:
        count += 1
    return layers[0][:count]


def _by_path(rows: pl.DataFrame) -> dict[str, Content]:
    contents = rows.select(pl.when(~pl.col("deleted")).then("content"))
    return dict(zip(rows["path"].to_list(), contents.to_series().to_list(), strict=True))


def _derive(piece: Piece, earlier: Earlier) -> Iterator[Rows | File]:
    if piece.rows["commits"].num_rows:
        yield from _Pass(piece, earlier).run()


DERIVED: Final = (
    Derived(
        "trees",
        (TREES_TABLE, "commit_trees"),
        {"commits": tuple(COMMITS.names), OBJECTS_TABLE: tuple(OBJECTS.names), "resets": tuple(RESETS.names)},
        _derive,
    ),
)
