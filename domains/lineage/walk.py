"""Lineage as a walk: breadth first from data to programs to data, over whatever holds the relations.

Pure: the relations come through the port `Relations`, which alone knows the tenant, the window and the cut. The shape
of the answer stands in `values`. Invariant: what is found depends on the relations alone, not on their order.
Source: docs/concepts.md; the source text's section Lineage Computation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, Protocol, get_args

from .events import READ, UNKNOWN, WRITE

Direction = Literal["both", "upstream", "downstream"]
DIRECTIONS: Final = get_args(Direction)
_AT_ONCE: Final = 500
"""Programs whose relations are asked for together: what a limit leaves away is mostly never asked for."""


class Relation(NamedTuple):
    """A program's access to data, over all of its runs.

    Attributes:
        data: URN.
        program: URN.
        access: read, write or unknown (which stands only where the same run and component has neither of the two).
        runs: URNs, in any order.
        components: in any order; none where no access named one.
    """

    data: str
    program: str
    access: str
    runs: Sequence[str]
    components: Sequence[str]


class Relations(Protocol):
    """The relations of one tenant, in one window, at one cut."""

    def programs(self, data: Collection[str]) -> Iterable[str]:
        """Programs that may have touched any of these data: all that have, and maybe more."""
        ...

    def of(self, programs: Collection[str]) -> Iterable[Relation]:
        """All relations of these programs."""
        ...


class Walked(NamedTuple):
    """What a walk found.

    Attributes:
        relations: in any order.
        partial: why they are not all of it; None: they are.
        withheld: something was not entered, or is not named, since it may not be seen; or the limit cut the walk of
            somebody who may not see everything, since what is hidden behind it is not known.
    """

    relations: list[Relation]
    partial: str | None
    withheld: bool = False


Visible = Callable[[str], bool]


def everything(urn: str) -> bool:
    """Of those who may see all."""
    return True


"""Whether an entity may be seen, by its URN."""


TO_PROGRAM: Final = {"both": {READ, WRITE, UNKNOWN}, "upstream": {WRITE, UNKNOWN}, "downstream": {READ, UNKNOWN}}
"""By which accesses the walk goes from data to a program: upstream, to who wrote it."""
TO_DATA: Final = {"both": {READ, WRITE, UNKNOWN}, "upstream": {READ, UNKNOWN}, "downstream": {WRITE, UNKNOWN}}
"""And from a program to data: upstream, to what it read."""


def walk(
    roots: str | Collection[str],
    port: Relations,
    *,
    levels: int,
    limit: int,
    direction: Direction = "both",
    visible: Visible = everything,
) -> Walked:
    """Every relation that the walk goes along.

    Args:
        roots: URN of the data that it begins at, or several.
        levels: how often it goes from data to programs to data.
        limit: most nodes, data and programs together and the roots among them; further ones (by URN, level by level)
            are left away with their relations.
        direction: both; or upstream, from data to who wrote it to what these read; or downstream, the reverse.
        visible: what is not is neither entered nor named, and takes no room below the limit; `everything` for whoever
            may see all.
    """
    walked = _Walk({roots} if isinstance(roots, str) else {*roots}, port, limit, direction, visible)
    for _ in range(levels):
        if not walked.frontier:
            break
        if walked.cut:
            walked.leave()
            break
        walked.level()
    hides = walked.cut and visible is not everything
    why = f"there are more than {limit:,} nodes; only the nearest ones are included" if walked.cut else None
    relations = walked.relations()
    return Walked(relations, why, walked.withheld or hides)


class _Walk:
    """The state of a walk.

    Attributes:
        frontier: data that were reached last, to be left next.
        cut: the limit has left something away.
        withheld: something may not be seen.
    """

    def __init__(
        self, roots: Collection[str], port: Relations, limit: int, direction: Direction, visible: Visible
    ) -> None:
        self.cut = self.withheld = False
        self._visible = visible
        self.frontier = set(self._seen(sorted(roots)))
        self._port = port
        self._room = limit
        self.frontier = set(self._within(iter(sorted(self.frontier))))
        self._to_program, self._to_data = TO_PROGRAM[direction], TO_DATA[direction]
        self._data = set(self.frontier)
        self._left: set[str] = set()
        self._programs: set[str] = set()
        self._known: dict[str, list[Relation]] = {}

    def level(self) -> None:
        """Go on from the frontier to programs, and from these to data."""
        self.leave()
        programs = self._within(self._seen(self._reached_programs()))
        self._programs.update(programs)
        reached = {
            relation.data for name in programs for relation in self._known[name] if relation.access in self._to_data
        }
        data = [] if self.cut else self._within(self._seen(sorted(reached - self._data)))
        self._data.update(data)
        self.frontier = set(data)

    def leave(self) -> None:
        """Go along the relations of the frontier to programs that are reached already."""
        self._left |= self.frontier

    def _reached_programs(self) -> Iterator[str]:
        """New programs that touched the frontier, in order; their relations are known then."""
        programs = sorted(set(self._port.programs(self.frontier)) - self._programs)
        for start in range(0, len(programs), _AT_ONCE):
            some = programs[start : start + _AT_ONCE]
            self._learn([name for name in some if name not in self._known])
            for name in some:
                if any(
                    relation.data in self.frontier and relation.access in self._to_program
                    for relation in self._known[name]
                ):
                    yield name

    def _learn(self, programs: Sequence[str]) -> None:
        if programs:
            self._known |= {name: [] for name in programs}
            for relation in self._port.of(programs):
                self._known[relation.program].append(relation)

    def _seen(self, nodes: Iterable[str]) -> Iterator[str]:
        """Those of some nodes that may be seen."""
        for node in nodes:
            if self._visible(node):
                yield node
            else:
                self.withheld = True

    def _within(self, nodes: Iterator[str]) -> list[str]:
        """As many nodes as there is room for."""
        taken: list[str] = []
        for node in nodes:
            if not self._room:
                self.cut = True
                break
            self._room -= 1
            taken.append(node)
        return taken

    def relations(self) -> list[Relation]:
        """The relations between what was reached that the walk may go along, with the runs that may be seen.

        Where one may not be seen no component is named either: which run named which is not known here.
        """
        return [
            relation._replace(runs=list(self._seen(relation.runs)), components=[])
            if not all(map(self._visible, relation.runs))
            else relation
            for name in self._programs
            for relation in self._known[name]
            if (relation.data in self._left and relation.access in self._to_program)
            or (relation.data in self._data and relation.access in self._to_data)
        ]
