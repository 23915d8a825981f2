"""Mutants of a Python module: each is one small change that a test should notice.

A mutant replaces the text of one node, so the rest of the file, its lines included, stays as it is. Not generated,
because no result could tell them from the original: annotations and type aliases, docstrings, imports, the bodies of
protocols, the arguments of `cast`, and caches of pure functions.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
WRAPPERS: Final = {"dict", "sorted", "frozenset", "set", "tuple", "list", "str", "len", "sum"}
UNSEEN_CALLS: Final = {"cast", "cache", "lru_cache"}
NONE: Final = ast.Constant(None)


class Mutant(NamedTuple):
    """One change of one file.

    Attributes:
        path: of the file, from the root of the repository.
        line: where the replaced text begins, from 1.
        start: first replaced byte of the file.
        end: the byte after the last replaced one.
        before: the replaced text.
        after: the text in its place.
    """

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {shortened(self.before)}  =>  {shortened(self.after)}"


def shortened(text: str, most: int = 90) -> str:
    """Code on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def mutants(path: str, source: bytes) -> list[Mutant]:
    """All mutants of a file, in the order of their places; no two of them are the same text."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[tuple[int, int, str], Mutant] = {}
    for node, replacement in _changes(ast.parse(source)):
        if isinstance(replacement, ast.AST) and ast.dump(replacement) == ast.dump(node):
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        after = replacement if isinstance(replacement, str) else f"({ast.unparse(replacement)})"
        if isinstance(replacement, ast.stmt):
            after = after[1:-1]
        mutant = Mutant(path, node.lineno, start, end, source[start:end].decode(), after)
        found.setdefault((start, end, after), mutant)
    return sorted(found.values(), key=lambda mutant: (mutant.start, mutant.end))


Change = tuple[Any, ast.AST | str]


def _changes(node: ast.AST) -> Iterator[Change]:
    """(node, what stands in its place) for a node and all below it that can be told from the original."""
    if _is_unseen(node):
        return
    yield from _CHANGERS.get(type(node), _none)(node)
    yield from _conditions(node)
    if isinstance(node, ast.JoinedStr):
        return
    for child in _seen_children(node):
        yield from _changes(child)


def _is_unseen(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.ClassDef(bases=[ast.Name(id="Protocol"), *_]):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name == "__all__" or (name.lstrip("_")[:1].isupper() and not name.isupper())
        case ast.Call(func=ast.Name(id=name)) | ast.Name(id=name):
            return name in UNSEEN_CALLS
    return False


def _seen_children(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns", "ctx", "op", "ops", "func"} or (name == "func" and _is_method(value)):
            yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, ast.AST))


def _is_method(function: ast.AST) -> bool:
    return isinstance(function, ast.Attribute)


def _none(_: Any) -> Iterator[Change]:
    return iter(())


def _changed(node: Any, **fields: Any) -> Change:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return node, changed


def _compare(node: ast.Compare) -> Iterator[Change]:
    for index, operator in enumerate(node.ops):
        for other in COMPARISONS[type(operator)]:
            yield _changed(node, ops=[*node.ops[:index], other(), *node.ops[index + 1 :]])


def _boolean(node: ast.BoolOp) -> Iterator[Change]:
    yield _changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    for index in range(len(node.values)):
        left = node.values[:index] + node.values[index + 1 :]
        yield node, left[0] if len(left) == 1 else _changed(node, values=left)[1]


def _unary(node: ast.UnaryOp) -> Iterator[Change]:
    yield node, node.operand


def _binary(node: ast.BinOp) -> Iterator[Change]:
    if type(node.op) in ARITHMETIC:
        yield _changed(node, op=ARITHMETIC[type(node.op)]())
    yield node, node.left
    yield node, node.right


def _constant(node: ast.Constant) -> Iterator[Change]:
    match node.value:
        case bool(value):
            yield node, ast.Constant(not value)
        case int(value):
            yield from ((node, ast.Constant(value + step)) for step in (1, -1))
        case str(value) | bytes(value):
            mark = "XX" if isinstance(value, str) else b"XX"
            yield node, repr(mark + value + mark)  # type: ignore[operator]


def _joined(node: ast.JoinedStr) -> Iterator[Change]:
    yield _changed(node, values=[ast.Constant("XX"), *node.values])
    for index, part in enumerate(node.values):
        if isinstance(part, ast.FormattedValue):
            yield _changed(node, values=node.values[:index] + node.values[index + 1 :])


def _call(node: ast.Call) -> Iterator[Change]:
    """Each argument None or missing (where that is no plain TypeError), and the argument in place of the whole call."""
    for index, argument in enumerate(node.args):
        before, after = node.args[:index], node.args[index + 1 :]
        if _is_method(node.func) or isinstance(argument, ast.Starred):
            yield _changed(node, args=before + after)
        if not isinstance(argument, ast.Starred):
            yield _changed(node, args=[*before, NONE, *after])
    for index in range(len(node.keywords)):
        yield _changed(node, keywords=node.keywords[:index] + node.keywords[index + 1 :])
    if isinstance(node.func, ast.Name) and node.func.id in WRAPPERS and node.args:
        yield node, node.args[0]


def _dictionary(node: ast.Dict) -> Iterator[Change]:
    for index in range(len(node.keys)):
        keys = node.keys[:index] + node.keys[index + 1 :]
        yield _changed(node, keys=keys, values=node.values[:index] + node.values[index + 1 :])


def _elements(node: Any) -> Iterator[Change]:
    """A list, tuple or set without each of its elements; a bare tuple to assign to stays."""
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return
    for index in range(len(node.elts)):
        yield _changed(node, elts=node.elts[:index] + node.elts[index + 1 :])


def _removed(node: ast.stmt) -> Iterator[Change]:
    yield node, "pass"


def _assigned(node: Any) -> Iterator[Change]:
    if node.value is not None:
        yield _changed(node, value=NONE)


def _augmented(node: ast.AugAssign) -> Iterator[Change]:
    yield node, "pass"
    if type(node.op) in ARITHMETIC:
        yield _changed(node, op=ARITHMETIC[type(node.op)]())


def _returned(node: ast.Return) -> Iterator[Change]:
    yield node, "pass"
    if node.value is not None:
        yield _changed(node, value=NONE)


def _left(node: ast.Break | ast.Continue) -> Iterator[Change]:
    yield node, "pass"
    yield node, "continue" if isinstance(node, ast.Break) else "break"


def _alternatives(node: ast.MatchOr) -> Iterator[Change]:
    for index in range(len(node.patterns)):
        yield _changed(node, patterns=node.patterns[:index] + node.patterns[index + 1 :])


def _conditions(node: ast.AST) -> Iterator[Change]:
    """Every condition negated, always true and always false."""
    tests = [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert) else []
    if isinstance(node, ast.comprehension):
        tests = node.ifs
    for test in tests:
        if not isinstance(test, ast.Compare | ast.UnaryOp):  # their own changes negate them
            yield test, ast.UnaryOp(ast.Not(), test)
        yield from ((test, ast.Constant(value)) for value in (True, False))


_CHANGERS: Final[dict[type[ast.AST], Any]] = {
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Constant: _constant,
    ast.JoinedStr: _joined,
    ast.Call: _call,
    ast.Dict: _dictionary,
    ast.List: _elements,
    ast.Tuple: _elements,
    ast.Set: _elements,
    ast.Expr: _removed,
    ast.Delete: _removed,
    ast.Raise: _removed,
    ast.Assign: _assigned,
    ast.AnnAssign: _assigned,
    ast.AugAssign: _augmented,
    ast.Return: _returned,
    ast.Break: _left,
    ast.Continue: _left,
    ast.MatchOr: _alternatives,
}
