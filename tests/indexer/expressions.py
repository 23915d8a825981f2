"""AND, OR, NOT, `+`, `-` and parentheses by the plain words of their specification: a naive reader of tokens.

Nothing of the indexer's grammar is used here. A token is a string without blanks; what it asks for is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Asked = TypeVar("Asked")


@dataclass
class Tree(Generic[Asked]):
    """What a query asks for: one term, or what any or all of some trees ask for, without what others do.

    Args:
        kind: `term`, `not`, `all`, `group` or `nothing`.
        inner: the trees of `not` (one), of `all`, and of a group those of which any is enough.
        must, must_not: of a group.
    """

    kind: str
    term: Asked | None = None
    inner: list[Tree[Asked]] = field(default_factory=list)
    must: list[Tree[Asked]] = field(default_factory=list)
    must_not: list[Tree[Asked]] = field(default_factory=list)

    def every(self) -> Iterator[Asked]:
        """All terms."""
        if self.term is not None:
            yield self.term
        for tree in (*self.inner, *self.must, *self.must_not):
            yield from tree.every()

    def positive(self) -> list[Asked]:
        """The terms below no NOT, each once."""
        if self.kind == "not":
            return []
        own = [] if self.term is None else [self.term]
        return list(dict.fromkeys(own + [one for tree in (*self.inner, *self.must) for one in tree.positive()]))

    def holds(self, matched: Mapping[Asked, bool]) -> bool:
        """Whether an entity is a hit that matches these terms."""
        inner = [tree.holds(matched) for tree in self.inner]
        if self.kind == "term":
            assert self.term is not None
            return matched[self.term]
        if self.kind == "not":
            return not inner[0]
        if self.kind == "all":
            return all(inner)
        if self.kind == "nothing" or any(tree.holds(matched) for tree in self.must_not):
            return False
        return all(tree.holds(matched) for tree in self.must) if self.must else any(inner) or not inner

    def fit(self, matched: Mapping[Asked, bool], fits: Mapping[Asked, float]) -> float:
        """The sum of what each term is worth, as often as it is asked for, wherever what it stands in is a hit."""
        if self.kind == "not" or not self.holds(matched):
            return 0.0
        if self.kind == "term":
            assert self.term is not None
            return fits[self.term]
        return sum(tree.fit(matched, fits) for tree in (*self.inner, *self.must))


def read(tokens: Sequence[str], asks: Callable[[str], Asked | None]) -> Tree[Asked]:
    """Read a query's tokens.

    Args:
        asks: what a token asks for; None where that is nothing at all.
    """
    if not tokens:
        return Tree("group")
    tree = _group(_ordinary(_symbols(tokens)), asks)
    return Tree("nothing") if tree is None else tree


# --- tokens to symbols: "(", ")", "AND", "OR", "NOT", and " token" for what is none of these, each with its sign before


def _symbols(tokens: Sequence[str]) -> list[tuple[str, str]]:
    parted = [_parted(token) for token in tokens]
    signs = "".join("(" * len(opens) + ")" * closes for opens, _, closes in parted)
    paired = _paired(signs)
    symbols: list[tuple[str, str]] = []
    done = 0
    for token, (opens, body, closes) in zip(tokens, parted, strict=True):
        here = paired[done : done + len(opens) + closes]
        done += len(here)
        opened, closed = sum(here[: len(opens)]), sum(here[len(opens) :])
        if not opened:
            body, opens = token[: len(token) - closes], []
        symbols += [(sign, " (") for sign in opens[: len(opens) - opened]]
        symbols += [(sign, "(") for sign in opens[len(opens) - opened :]]
        if not closed:
            body += ")" * closes
        sign = re.match(r"[+-](?=[^+-])", body)
        if sign is not None:
            symbols.append((sign[0], f" {body[1:]}"))
        elif body:
            symbols.append(("", body if body in ("AND", "OR", "NOT") else f" {body}"))
        symbols += [("", ")")] * closed + [("", " )")] * (closes - closed if closed else 0)
    return symbols


def _parted(token: str) -> tuple[list[str], str, int]:
    """Signs of the parentheses that a token may open, what stands between, and how many it may close."""
    begin = re.match(r"([+-]?\()*", token)
    assert begin is not None
    body = token[begin.end() :]
    closes = 0
    while body.endswith(")") and _surplus(body):
        body, closes = body[:-1], closes + 1
    return re.findall(r"([+-]?)\(", begin[0]), body, closes


def _surplus(body: str) -> bool:
    """Whether the last parenthesis has no partner before it."""
    return not _paired(re.sub("[^()]", "", body))[-1]


def _paired(parentheses: str) -> list[bool]:
    """Whether each parenthesis has a partner."""
    paired = [False] * len(parentheses)
    for place, sign in enumerate(parentheses):
        if sign == ")":
            before = [at for at in range(place) if not paired[at] and parentheses[at] == "("]
            if before:
                paired[before[-1]] = paired[place] = True
    return paired


def _ordinary(symbols: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Operators that lack an operand as tokens."""
    marks = ["", *(mark for _, mark in symbols), ""]
    ends = [mark == ")" or mark.startswith(" ") for mark in marks]
    begins = [mark == "(" or mark.startswith(" ") for mark in marks]
    for place in reversed(range(len(marks) - 1)):
        begins[place] = begins[place] or (marks[place] == "NOT" and begins[place + 1])
    ordinary = []
    for place, (sign, mark) in enumerate(symbols, 1):
        between = ends[place - 1] and begins[place + 1]
        lacks = (mark == "NOT" and not begins[place]) or (mark in ("AND", "OR") and not between)
        ordinary.append((sign, f" {mark}" if lacks else mark))
    return ordinary


# --- symbols to a tree


def _group(symbols: list[tuple[str, str]], asks: Callable[[str], Asked | None]) -> Tree[Asked] | None:
    """Clauses side by side; None where they ask for nothing."""
    group: Tree[Asked] = Tree("group")
    clauses = _clauses(symbols)
    for place, (before, clause) in enumerate(clauses):
        after = clauses[place + 1][0] if place + 1 < len(clauses) else ""
        read_operands = [(_operand(operand, asks), _is_required(operand)) for operand in clause]
        operands = [(tree, required) for tree, required in read_operands if tree is not None]
        trees = _once([tree for tree, _ in operands])
        if not trees:
            continue
        negative = all(tree.kind == "not" for tree in trees)
        required = any(required for _, required in operands)
        chain = trees[0] if len(trees) == 1 else Tree("all", inner=trees)
        if negative and (required or "OR" not in (before, after)):
            group.must_not += [tree.inner[0] for tree in trees]
        else:
            (group.must if required else group.inner).append(chain)
    group.inner, group.must, group.must_not = _once(group.inner), _once(group.must), _once(group.must_not)
    alone = group.inner + group.must
    if len(alone) == 1 and not group.must_not:
        return alone[0]
    return group if alone or group.must_not else None


def _clauses(symbols: list[tuple[str, str]]) -> list[tuple[str, list[list[tuple[str, str]]]]]:
    """Each clause as operands that AND stands between, and the OR before it, if there is one."""
    clauses: list[tuple[str, list[list[tuple[str, str]]]]] = []
    operand: list[tuple[str, str]] = []
    between, depth = "", 0
    for symbol in symbols:
        mark = symbol[1]
        if depth == 0 and mark in ("AND", "OR"):
            between = mark
            continue
        operand.append(symbol)
        depth += (mark == "(") - (mark == ")")
        if depth == 0 and mark != "NOT":
            if between == "AND":
                clauses[-1][1].append(operand)
            else:
                clauses.append((between, [operand]))
            operand, between = [], ""
    return clauses


def _operand(symbols: list[tuple[str, str]], asks: Callable[[str], Asked | None]) -> Tree[Asked] | None:
    nots = sum(mark == "NOT" for _, mark in symbols[: _first(symbols)])
    sign, mark = symbols[_first(symbols)]
    tree: Tree[Asked] | None
    if mark == "(":
        tree = _group(symbols[_first(symbols) + 1 : -1], asks)
    else:
        asked = asks(mark[1:])
        tree = None if asked is None else Tree("term", asked)
    if tree is None:
        return None
    return Tree("not", inner=[tree]) if (nots + (sign == "-")) % 2 else tree


def _first(symbols: list[tuple[str, str]]) -> int:
    """Behind the NOTs before an operand."""
    return next(place for place, (_, mark) in enumerate(symbols) if mark != "NOT")


def _is_required(symbols: list[tuple[str, str]]) -> bool:
    return symbols[_first(symbols)][0] == "+"


def _once(trees: list[Tree[Asked]]) -> list[Tree[Asked]]:
    return [tree for place, tree in enumerate(trees) if tree not in trees[:place]]
