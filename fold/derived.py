"""Tables that are derived from those of the fold: what a domain declares of them, and what their function reads.

A derived table is a fold over the rows of one journal partition in position order. Its function may read that
partition's rows and its own earlier ones, and nothing else: no other partition, setting or clock. So the rows depend on
the journal alone, wherever the pieces end that the function is given. Which pieces these are, and how their rows come
into the table, is `streaming.derived`'s matter; the function may only end one sooner (`EndsBefore`). A domain's file
imports this one, which therefore asks for none. Source: docs/architecture.md, "Derived tables".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

Given = TypeVar("Given")
Result = TypeVar("Result")


class Rows(NamedTuple):
    """Rows of one of the function's tables, whole, each with the place of the row that it follows from."""

    table: str
    rows: pa.Table


class File(NamedTuple):
    """A file beside a table, named by a digest of what it says or by a position, never as an event says.

    Attributes:
        tenant: whose it is.
        name: parts with "/" between, of letters, digits, ".", "_", "-" and "=".
        content: the same whenever the name is.
    """

    tenant: str
    name: str
    content: bytes


class EndsBefore(NamedTuple):
    """The last of what a function makes of a piece where it leaves the rest to the next one.

    Attributes:
        position: the first one of the next piece, above the piece's start and at most its end.
    """

    position: int


Made = Rows | File | EndsBefore


class Bounded(Protocol):
    """What rows that are stored together can hold."""

    @property
    def least(self) -> Any:
        """No value of the column is less; None: nothing is known."""

    @property
    def greatest(self) -> Any:
        """No value of the column is greater; None: nothing is known."""

    @property
    def rows(self) -> int:
        """How many they are, also those that nobody asked for."""


@dataclass(frozen=True)
class Piece:
    """Some of one partition's rows.

    Attributes:
        domain: whose journal topic it is; what the column `domain` of its rows holds.
        partition: of that topic.
        start: its first position.
        end: the position after its last one.
        rows: of each table that is read those of the piece, in (position, sequence) order, with the columns asked for.
    """

    domain: str
    partition: int
    start: int
    end: int
    rows: Mapping[str, pa.Table]


Pending = Callable[[], Result]
"""Waits for what is computed, and gives it; asked again it gives it again."""


class Beside(Protocol):
    """Has something computed, perhaps in another process while the function goes on."""

    def __call__(self, compute: Callable[[Given], Result], given: Given) -> Pending[Result]:
        """Compute it.

        Args:
            compute: a function of a module, which depends on nothing but what it is given.
            given: what can be pickled.
        """
        ...


def at_once(compute: Callable[[Given], Result], given: Given) -> Pending[Result]:
    """A `Beside` where nobody helps."""
    made = compute(given)
    return lambda: made


class Earlier(Protocol):
    """The rows of a piece's partition in front of it: of the tables that are read, and of the function's own.

    Of a table that is only looked up, the rows in front of the piece's end.
    """

    @property
    def kept(self) -> MutableMapping[Any, Any]:
        """What the function keeps for later pieces of this partition: it may be lost at any time, and the next piece
        may begin anywhere, so it holds only what follows from the journal up to a position that stands beside it."""
        ...

    @property
    def beside(self) -> Beside:
        """Where the function may have something computed."""
        ...

    def rows(
        self,
        table: str,
        among: Mapping[str, Sequence[Any]],
        *,
        columns: Sequence[str] | None = None,
        between: Mapping[str, tuple[Any, Any]] | None = None,
        keys: pa.Table | None = None,
        in_order: bool = True,
    ) -> pa.Table:
        """Rows by position and sequence.

        Args:
            among: with one of these values (texts or whole numbers) in each of these columns.
            columns: those that are wanted; None: all.
            between: with a value between two, both included, in each of these columns.
            keys: with one of these keys, in the columns of these names.
            in_order: false where the order does not count.
        """
        ...

    def blocks(
        self,
        table: str,
        among: Mapping[str, Sequence[Any]],
        *,
        columns: Sequence[str],
        between: Mapping[str, tuple[Any, Any]] | None = None,
        keys: pa.Table | None = None,
    ) -> Iterator[pa.Table]:
        """As `rows`, in no order and some at a time, so that not all of them are in memory."""
        ...

    def spans(
        self,
        table: str,
        column: str,
        among: Mapping[str, Sequence[Any]],
        *,
        between: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> Sequence[Bounded]:
        """How such rows are stored, by one column: what is stored together, in no order."""
        ...

    def newest(self, table: str, keys: pa.Table) -> pa.Table:
        """The newest whole row of each of some keys, in no order."""
        ...


Derive = Callable[[Piece, Earlier], Iterator[Made]]


@dataclass(frozen=True)
class Derived:
    """One function and the tables that it makes.

    Attributes:
        name: a word of its own.
        tables: in the order in which they are committed; declared in the domain's file `tables`, all of one version.
        reads: tables of the fold, the journal table too, with the columns that a piece has of each.
        derive: the function. Files that a row names come before it.
        looks_up: tables of the fold of which a piece has no rows: the function asks for those that it needs.
    """

    name: str
    tables: tuple[str, ...]
    reads: Mapping[str, tuple[str, ...]]
    derive: Derive
    looks_up: tuple[str, ...] = ()


class DerivedFile(Protocol):
    """The file `derived` of a domain."""

    @property
    def DERIVED(self) -> Sequence[Derived]:  # noqa: N802  (a constant of the module)
        """The functions of its derived tables."""
