"""Operators and parentheses among a query's tokens: which of them count, and which are ordinary text.

Left to others: what they mean (grammar), what the other tokens ask for (atoms). Pure.
Invariant: each operator that is given out has the operands it needs, and each parenthesis its partner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ..errors import InvalidQueryError
from .atoms import Token, text_of

MAX_NESTED: Final = 5
"""Groups within each other; Elasticsearch takes 30 queries within each other, and a group is up to three of them."""
_OPERATORS: Final = frozenset({"AND", "OR", "NOT"})
_LONGEST: Final = max(map(len, _OPERATORS))
_UNQUOTED_SIGNS: Final = [("+", False), ("-", False)]


class Item(NamedTuple):
    """An operand, `(` or `)` or an operator (`mark`), with the sign before it."""

    mark: str
    sign: str = ""
    token: Token = []  # noqa: RUF012  # read only


class _Parts:
    """A token between its parentheses: those that it may open, each with a sign, its body, those that it may close."""

    def __init__(self, token: Token) -> None:
        self.opens: list[str] = []
        self.sign, rest = _signed(token)
        while rest and rest[0] == ("(", False):
            run = next((index for index, sign in enumerate(rest) if sign != ("(", False)), len(rest))
            self.opens += [self.sign] + [""] * (run - 1)
            self.sign, rest = _signed(rest[run:])
        depth, end = 0, len(rest)
        while end and rest[end - 1] == (")", False):
            end -= 1
        for character in rest[:end]:
            depth = depth + 1 if character == ("(", False) else max(0, depth - (character == (")", False)))
        end = min(len(rest), end + depth)
        self.body, self.closes = rest[:end], len(rest) - end


def _signed(token: Token) -> tuple[str, Token]:
    if len(token) > 1 and token[0] in _UNQUOTED_SIGNS and token[1] not in _UNQUOTED_SIGNS:
        return token[0][0], token[1:]
    return "", token


def items(all_tokens: list[Token]) -> list[Item]:
    """Operands, operators and parentheses in order.

    Raises:
        InvalidQueryError: parentheses stand within each other more often than `MAX_NESTED` times.
    """
    parts = [_Parts(token) for token in all_tokens]
    opening, closing = _partners(parts)
    found: list[Item] = []
    for number, part in enumerate(parts):
        found += _with_partners(part, opening[number], closing[number])
    return _without_lone_operators(found)


def _partners(parts: list[_Parts]) -> tuple[list[int], list[int]]:
    """How many of the parentheses that each token opens and closes have a partner: its innermost ones.

    Raises:
        InvalidQueryError: more than `MAX_NESTED` stand within each other.
    """
    opening, closing = [0] * len(parts), [0] * len(parts)
    unmatched: list[int] = []
    heights: list[int] = []
    for number, part in enumerate(parts):
        unmatched += [number] * len(part.opens)
        heights += [0] * len(part.opens)
        for _ in range(min(part.closes, len(unmatched))):
            opening[unmatched.pop()] += 1
            closing[number] += 1
            height = heights.pop() + 1
            if height > MAX_NESTED:
                raise InvalidQueryError(
                    f"More than {MAX_NESTED} groups in parentheses stand within each other.",
                    hint="Put double quotes around parentheses that are text.",
                )
            if heights:
                heights[-1] = max(heights[-1], height)
    return opening, closing


def _with_partners(part: _Parts, opening: int, closing: int) -> Iterator[Item]:
    """The items of a token; its parentheses without partner are text, of its body where nothing stands between."""
    if not part.opens and not part.closes:
        yield _item(part.sign, part.body)
        return
    lone, opens = part.opens[: len(part.opens) - opening], part.opens[len(part.opens) - opening :]
    body, sign = part.body, part.sign
    if lone and not opens:
        inner = "".join(f"({sign}" for sign in (*lone[1:], part.sign))
        sign, body = lone[0], [*_plain(inner), *body]
    else:
        yield from (Item("", sign, _plain("(")) for sign in lone)
    if closing == 0:
        body = [*body, *_plain(")" * part.closes)]
    yield from (Item("(", sign) for sign in opens)
    if body:
        yield _item(sign, body)
    yield from (Item(")") for _ in range(closing))
    if closing:
        yield from (Item("", "", _plain(")")) for _ in range(part.closes - closing))


def _item(sign: str, body: Token) -> Item:
    """An operator that stands bare, else an operand."""
    bare = not sign and len(body) <= _LONGEST and text_of(body) in _OPERATORS and not any(quoted for _, quoted in body)
    return Item(text_of(body)) if bare else Item("", sign, body)


def _plain(text: str) -> Token:
    return [(character, False) for character in text]


def _without_lone_operators(found: list[Item]) -> list[Item]:
    """The items, operators that lack an operand being text."""
    begins = [False] * (len(found) + 1)  # whether an operand begins here
    for index in range(len(found) - 1, -1, -1):
        mark = found[index].mark
        begins[index] = mark in ("", "(") or (mark == "NOT" and begins[index + 1])
    kept: list[Item] = []
    for index, item in enumerate(found):
        after = index > 0 and found[index - 1].mark in ("", ")")
        lacks = not begins[index] if item.mark == "NOT" else not (after and begins[index + 1])
        if item.mark in _OPERATORS and lacks:
            item = Item("", "", _plain(item.mark))
        kept.append(item)
    return kept
