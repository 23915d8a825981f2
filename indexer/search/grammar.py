"""The search grammar: a query's text to a tree of its terms.

    query    everything (blank, `*`, `*:*`) or clauses side by side
    clause   chain | + chain | - chain | NOT chain, `OR` between clauses or nothing, which means the same
    chain    operand AND operand …, which binds tighter
    operand  a term (atoms) | ( query ), each with `+`, `-` or NOT before it where that is wanted

Clauses are alternatives. One with `+` must match, and the others then only rank; `-` and `NOT` beside other clauses
exclude, beside an `OR` they are an alternative: `a OR NOT b`. A query that only excludes means everything without it.
An operator without an operand on each side that it needs, two operators in a row, a parenthesis without partner and a
lone sign are ordinary text, and so are `and`, `or`, `not` in small letters and all that stands in quotes. A
parenthesis counts at the beginning and at the end of a token only, and there only where the token does not hold its
partner: `f(x)` is text. Pure; any text parses, or is refused for its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from .. import terms
from ..errors import InvalidQueryError
from .atoms import (
    Everything,
    Field,
    HasKey,
    HasTags,
    Nothing,
    Property,
    Tag,
    Term,
    Text,
    Value,
    most_words,
    term_of,
    text_of,
    tokens,
    value_of,
)
from .operators import Item, items

__all__ = [
    "AllOf", "Clauses", "Everything", "Field", "HasKey", "HasTags", "Node", "Not", "Nothing", "Property", "Query",
    "Tag", "Term", "Text", "Value", "parse",
]  # fmt: skip

MAX_QUERY_CHARACTERS: Final = 8192
MAX_TERMS: Final = 64
"""Equal ones side by side count once."""
MAX_WORDS: Final = 1_000
"""In all terms together; Elasticsearch looks each of them up in each field that is looked at."""


@dataclass(frozen=True, slots=True)
class Not:
    """What does not match."""

    node: Node


@dataclass(frozen=True, slots=True)
class AllOf:
    """What matches each of these."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Clauses:
    """Alternatives side by side: what matches all that it must and nothing that it must not.

    Where nothing must match, one of the alternatives has to; where there are none either, all else matches.
    """

    should: tuple[Node, ...]
    must: tuple[Node, ...] = ()
    must_not: tuple[Node, ...] = ()


Node: TypeAlias = Term | Not | AllOf | Clauses


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query.

    Args:
        root: what matches.
        terms: the terms that a hit may match, each once, in order; not those below a NOT.
        atoms: all terms.
        left_out: separators among other terms, which ask for nothing.
    """

    root: Node
    terms: tuple[Term, ...]
    atoms: tuple[Term, ...]
    left_out: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether it has separators only, so that it finds nothing."""
        return isinstance(self.root, Nothing)

    @property
    def ranked(self) -> bool:
        """Whether its hits differ in how well they match: not where it asks for everything, or only excludes."""
        return any(not isinstance(term, Everything | Nothing) for term in self.terms)

    def holds(self, matched: Callable[[Term], bool]) -> bool:
        """Whether something is a hit of which one knows the terms that it matches."""
        return _holds(self.root, matched)


def _holds(node: Node, matched: Callable[[Term], bool]) -> bool:
    match node:
        case Not(inner):
            return not _holds(inner, matched)
        case AllOf(nodes):
            return all(_holds(inner, matched) for inner in nodes)
        case Clauses(should, must, must_not):
            optional = bool(must) or not should or any(_holds(inner, matched) for inner in should)
            required = all(_holds(inner, matched) for inner in must)
            return optional and required and not any(_holds(inner, matched) for inner in must_not)
        case Everything():
            return True
        case Nothing():
            return False
    return matched(node)


def parse(text: str) -> Query:
    """Parse a query.

    Raises:
        InvalidQueryError: it has more than 8,192 characters, as it stands or folded, 64 terms, 5 groups within each
            other, or 1,000 words.
    """
    _check_length(text)
    parser = _Parser(items(tokens(text)))
    root = parser.clauses()
    if root is None:
        root = Nothing(parser.left_out[0]) if parser.left_out else Everything()
    positive = set(_positive(root))
    atoms: tuple[Term, ...] = tuple(dict.fromkeys(parser.terms)) or tuple(positive)
    _check_size(root, atoms)
    left_out = () if isinstance(root, Nothing) else tuple(dict.fromkeys(parser.left_out))
    return Query(root, tuple(term for term in atoms if term in positive), atoms, left_out)


def _check_length(text: str) -> None:
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InvalidQueryError(
            f"The query has {len(text):,} characters; at most {MAX_QUERY_CHARACTERS:,} are allowed."
        )
    if (folded := len(terms.fold(text))) > MAX_QUERY_CHARACTERS:  # one character may stand for 18
        raise InvalidQueryError(
            f"The query has {folded:,} characters once its compatibility forms are expanded; "
            f"at most {MAX_QUERY_CHARACTERS:,} are allowed."
        )


def _check_size(root: Node, atoms: Sequence[Term]) -> None:
    number = max(len(atoms), sum(1 for _ in _leaves(root)))
    if number > MAX_TERMS:
        raise InvalidQueryError(f"The query has {number} terms; at most {MAX_TERMS} are allowed.")
    words = sum(most_words(value) for value in map(value_of, atoms) if value is not None)
    if words > MAX_WORDS:
        raise InvalidQueryError(
            f"The query has {words:,} words in its terms; at most {MAX_WORDS:,} are allowed.",
            hint="Omit some of the words, or search for the beginning of the text with a star.",
        )


def _leaves(node: Node) -> Iterator[Term]:
    """The terms of a tree as often as they stand in it."""
    match node:
        case Not(inner):
            yield from _leaves(inner)
        case AllOf(nodes):
            for inner in nodes:
                yield from _leaves(inner)
        case Clauses(should, must, must_not):
            for inner in (*should, *must, *must_not):
                yield from _leaves(inner)
        case _:
            yield node


def _positive(node: Node) -> Iterator[Term]:
    """The terms of a tree that stand below no NOT."""
    match node:
        case Not():
            return
        case AllOf(nodes):
            for inner in nodes:
                yield from _positive(inner)
        case Clauses(should, must):
            for inner in (*should, *must):
                yield from _positive(inner)
        case _:
            yield node


# --- items to a tree


class _Clause(NamedTuple):
    node: Node
    required: bool
    alternative: bool
    """Whether an OR stands beside it."""


class _Parser:
    """Reads items from left to right; what has no letter or digit is left out with its operator."""

    def __init__(self, items: list[Item]) -> None:
        self._items = items
        self._at = 0
        self.terms: list[Term] = []
        self._read: dict[tuple[tuple[str, bool], ...], Term] = {}
        self.left_out: list[str] = []

    def _mark(self) -> str | None:
        return self._items[self._at].mark if self._at < len(self._items) else None

    def clauses(self) -> Node | None:
        """Up to the end, or the parenthesis that closes; None where nothing of it asks for anything."""
        clauses: list[_Clause] = []
        after_or = False
        while self._mark() not in (None, ")"):
            node, required = self._chain()
            before_or = self._mark() == "OR"
            if node is not None:
                clauses.append(_Clause(node, required, after_or or before_or))
            after_or = before_or
            self._at += before_or
        return _side_by_side(clauses)

    def _chain(self) -> tuple[Node | None, bool]:
        """Operands with AND between them, and whether one of them has a plus."""
        nodes, required = [], False
        while True:
            node, plus = self._operand()
            if node is not None:
                nodes.append(node)
                required = required or plus
            if self._mark() != "AND":
                break
            self._at += 1
        unique = tuple(dict.fromkeys(nodes))
        return (AllOf(unique) if len(unique) > 1 else unique[0] if unique else None), required

    def _operand(self) -> tuple[Node | None, bool]:
        negations = 0
        while self._mark() == "NOT":
            negations += 1
            self._at += 1
        item = self._items[self._at]
        self._at += 1
        node: Node | None
        if item.mark == "(":
            before = len(self.left_out)
            node = self.clauses()
            if node is None and len(self.left_out) == before:
                self.left_out.append("()")
            self._at += 1  # its partner
        else:
            node = self._term(item)
        for _ in range((negations + (item.sign == "-")) % 2 if node is not None else 0):
            node = Not(node)  # type: ignore[arg-type]  # not None
        return node, item.sign == "+" and node is not None

    def _term(self, item: Item) -> Term | None:
        token = tuple(item.token)
        term = self._read.get(token)
        if term is None:
            term = self._read[token] = term_of(item.token)
        if isinstance(term, Nothing):
            self.left_out.append(item.sign + text_of(item.token))
            return None
        self.terms.append(term)
        return term


def _side_by_side(clauses: list[_Clause]) -> Node | None:
    should, must, must_not = list[Node](), list[Node](), list[Node]()
    for node, required, alternative in clauses:
        negated = _negated(node)
        if negated and (required or not alternative):
            must_not += negated
        elif required:
            must.append(node)
        else:
            should.append(node)
    if not clauses:
        return None
    group = Clauses(*(tuple(dict.fromkeys(nodes)) for nodes in (should, must, must_not)))
    alone = group.should + group.must
    return alone[0] if len(alone) == 1 and not must_not else group


def _negated(node: Node) -> list[Node]:
    """What a clause that is only negative excludes; nothing of any other."""
    nodes = node.nodes if isinstance(node, AllOf) else (node,)
    inner = [negative.node for negative in nodes if isinstance(negative, Not)]
    return inner if len(inner) == len(nodes) else []
