"""Search by the plain words of its specification: a naive matcher over state documents, the index's second opinion.

Nothing of the indexer's grammar, words or queries is used here (AND, OR and NOT: `expressions`, BM25: `ranks`). Each
entity is a list of texts; a term looks at each of them. It is slow and short, so that one can hold it against the
specification sentence by sentence.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isclose
from typing import Any, Final, NamedTuple

from tests.indexer.expressions import Tree, read
from tests.indexer.ranks import LEAST, LONG_NAME, SHORT_NAME, WEIGHTS, Lines, Statistics, best, edits, sort_of

State = Mapping[str, Any]
Asked = tuple["Part | None", "Part", bool]
"""A term: key, value, and whether the key was quoted."""
FLOATS_TIE: Final = 4e-4
"""Fits closer than this may be one float of four bytes: of scores up to 5, divided by 75 a word, of a few words."""
MOST_UNKNOWN: Final = 3
"""Words of a query whose typing errors are looked for."""
EXACT, NAMED, EVERY, SOME, TYPING_ERROR = 4, 3, 2, 1, 0


def folded(text: str) -> str:
    """Without case, accents, choices of shape and compatibility forms."""
    plain = [character for character in unicodedata.normalize("NFKD", text) if not is_mark(character)]
    return "".join(plain).casefold()


def is_mark(character: str) -> bool:
    return (
        bool(unicodedata.combining(character))
        or "VARIATION SELECTOR" in unicodedata.name(character, "")
        or character == "\u034f"
    )


def words(text: str, humps: bool = True) -> list[str]:
    """Split at every character that is no letter or digit and where a lower-case letter meets an upper-case one."""
    if humps:
        text = re.sub(r"[^\W_]+", lambda run: re.sub(r"(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])", " ", run[0]), text)
    marks = "".join(character for character in unicodedata.normalize("NFKD", text) if not is_mark(character))
    return [folded(word) for word in re.findall(r"[^\W_]+", marks)]


class Part(NamedTuple):
    """A key or a value as typed: its text, and whether a star ends it."""

    text: str
    star: bool

    @property
    def anything(self) -> bool:
        return self.star and not self.text

    def whole(self, text: str) -> bool:
        """Whether it is this text, or its beginning."""
        if self.star:
            return folded(text.strip()).startswith(folded(self.text.lstrip()))
        return folded(text.strip()) == folded(self.text.strip())

    def is_path(self, text: Text) -> bool:
        """Whether it is the whole path of a schema's field, or its beginning."""
        return text.sort == "schema" and text.key != "" and self.whole(text.key)

    def matches(self, text: str) -> bool:
        """Whether it is this whole text (or its beginning), or words of it one after the other."""
        return (self.whole(text) and len(text) <= 1024) or self.in_words(text, self.star)

    def in_words(self, text: str, open_end: bool) -> bool:
        """Whether words of a text are its words one after the other; either may be cut at changes of case or not."""
        return any(self.in_lines(line, open_end) for line in (words(text), words(text, False)))

    def in_lines(self, text_words: Sequence[str], open_end: bool) -> bool:
        """The same of a text's words in one reading."""
        open_end = open_end and self.text[-1:].isalnum()
        for asked in (words(self.text), words(self.text, False)):
            for start in range(len(text_words) - len(asked) + 1 if asked else 0):
                *before, last = text_words[start : start + len(asked)]
                if before == asked[:-1] and (last.startswith(asked[-1]) if open_end else last == asked[-1]):
                    return True
        return False


class Text(NamedTuple):
    """A text of an entity: `name`, `kind`, `namespace`, `tag`, `property` or `schema`, with its scope, key and type."""

    sort: str
    scope: str | None
    key: str
    text: str
    type: str = ""


def texts(state: State) -> Iterator[Text]:
    """All that a search looks at."""
    yield Text("name", None, "", state["name"])
    yield Text("kind", None, "", state["kind"])
    if state["namespace"]:
        yield Text("namespace", None, "", state["namespace"])
    for scope in ("USER", "SYSTEM"):
        metadata = state[scope.lower()]
        yield from (Text("tag", scope, "", tag) for tag in metadata["tags"])
        for key, value in metadata["properties"].items():
            if (scope, key) == ("SYSTEM", "schema"):
                yield from schema(value)
            else:
                yield Text("property", scope, key, value)
    record = state.get("record") or {}
    file_texts = {"url": record.get("url"), **record.get("metadata", {})}
    for key in ("url", "path", "what", "where", "work_id"):
        if isinstance(file_texts.get(key), str):
            yield Text("property", "SYSTEM", key, file_texts[key])


def schema(text: str) -> Iterator[Text]:
    """The fields of a schema, nested ones too; the text itself where it cannot be parsed."""
    try:
        read = json.loads(text)
    except ValueError:
        yield Text("schema", "SYSTEM", "", text)
        return
    if isinstance(read, list):
        yield from (Text("schema", "SYSTEM", name, name, kind) for name, kind in read)
    else:
        yield from fields(read, "")


def fields(node: Any, path: str) -> Iterator[Text]:
    for branch in node if isinstance(node, list) else [node]:
        if not isinstance(branch, dict):
            continue
        for field in branch.get("fields", ()):
            yield Text("schema", "SYSTEM", path + field["name"], field["name"], type_of(field["type"]))
            yield from fields(field["type"], f"{path}{field['name']}.")
        yield from fields([branch.get("items"), branch.get("values"), branch.get("type")], path)


def type_of(node: Any) -> str:
    if isinstance(node, list):
        branches = "|".join(map(type_of, node))
        return f"union {branches}" if len([branch for branch in node if branch != "null"]) > 1 else branches
    if not isinstance(node, dict):
        return str(node)
    inner = node.get("items") or node.get("values")
    return (
        f"{node['type']}<{type_of(inner)}>" if inner else f"{node['type']} {node.get('logicalType', node.get('name'))}"
    )


def tokens(query: str) -> tuple[list[str], list[str]]:
    """A query's tokens; quotes are hidden in them first, so that all else is plain, and come apart."""
    hidden: list[str] = []

    def hide(quoted: re.Match[str]) -> str:
        hidden.append(quoted[1])
        return chr(0xE000 + len(hidden) - 1)

    plain = re.sub(r'"([^"]*)"', hide, query)
    joined: list[str] = []
    for token in plain.split():
        last = joined[-1] if joined else None
        first = None if last is None else re.search("[:=]", last[end_of_schema(last) :])
        if last is not None and (token[0] in ":=" if first is None else first.end() == len(last) - end_of_schema(last)):
            joined[-1] = last + token
        else:
            joined.append(token)
    return joined, hidden


def end_of_schema(token: str) -> int:
    """Where a field's name begins in `schema:field`; 0 where none does."""
    begun = re.match("schema[:=](?=.)", token, re.IGNORECASE)
    return 0 if begun is None else begun.end()


def term(token: str, hidden: list[str]) -> Asked:
    separator = re.search("[:=]", token)
    if separator is None or separator.start() == 0 or separator.end() == len(token):
        return None, part(token, hidden), False
    key = token[: separator.start()]
    return (
        part(key, hidden),
        part(token[separator.end() :], hidden),
        any(0xE000 <= ord(character) < 0xF000 for character in key),
    )


def part(token: str, hidden: list[str]) -> Part:
    bare = token.rstrip("*")
    shown = "".join(
        hidden[ord(character) - 0xE000] if 0xE000 <= ord(character) < 0xF000 else character for character in bare
    )
    return Part(shown, bare != token)


def wanted(state: State, term: Asked, scopes: Sequence[str]) -> bool:
    """Whether one term matches an entity."""
    key, value, literal = term
    here = [text for text in texts(state) if text.scope is None or text.scope in scopes]
    if key is None:
        return value.anything or (
            bool(words(value.text)) and any(value.matches(text.text) or value.is_path(text) for text in here)
        )
    if key.anything and value.anything:
        return True
    name = "" if literal or key.star else folded(key.text)
    if name == "tags":
        return any(value.anything or value.matches(text.text) for text in here if text.sort == "tag")
    if name == "properties":
        return has_key(state, value, scopes)
    if name == "schema":
        return in_schema(state, value, here, scopes)
    if not words(key.text) and not words(value.text) and not (value.anything and words(key.text)):
        return False
    if value.anything:
        return has_key(state, key, scopes)
    return any(key.whole(text.key) and value.matches(text.text) for text in here if text.sort == "property")


def has_key(state: State, key: Part, scopes: Sequence[str]) -> bool:
    keys = [text.key for text in texts(state) if text.sort == "property" and text.scope in scopes]
    keys += [name for scope in scopes for name in state[scope.lower()]["properties"]]
    return any(key.whole(name) for name in keys)


def in_schema(state: State, value: Part, here: Sequence[Text], scopes: Sequence[str]) -> bool:
    if value.anything:
        return has_key(state, Part("schema", star=False), scopes)
    name, kind = field_and_type(value)
    fields_here = [text for text in here if text.sort == "schema"]
    return any(
        (kind.anything or (text.type != "" and typed(kind, text.type)))
        and (name.matches(text.text) or name.is_path(text))
        for text in fields_here
    )


def field_and_type(value: Part) -> tuple[Part, Part]:
    """What stands behind `schema:`, apart."""
    separator = re.search("[:=]", value.text)
    if separator is None or separator.start() == 0 or separator.end() >= len(value.text) + value.star:
        return value, Part("", star=True)
    left = value.text[: separator.start()]
    return Part(left.rstrip("*"), left.endswith("*")), Part(value.text[separator.end() :], value.star)


def typed(kind: Part, text: str) -> bool:
    type_words = words(text)
    return any(kind.whole(text) for text in (text, " ".join(type_words), *type_words, *words(text, False)))


def everything(asked: Asked) -> bool:
    key, value, _ = asked
    return value.anything and (key is None or key.anything)


def speaks(asked: Asked) -> bool:
    """Whether a term has a letter or digit, or a star alone; separators among other terms count for nothing."""
    key, value, literal = asked
    if everything(asked):
        return True
    reserved = key is not None and not literal and not key.star and folded(key.text) in ("tags", "properties", "schema")
    return reserved or bool(words(value.text) or (key is not None and (words(key.text))))


def tree_of(query: str) -> Tree[Asked]:
    """What a query asks for."""
    joined, hidden = tokens(query)
    return read(joined, lambda token: asked if speaks(asked := term(token, hidden)) else None)


# --- the order


def tier(tree: Tree[Asked], state: State, scopes: Sequence[str] = ("USER", "SYSTEM")) -> int:
    """The class of a hit in the order of relevance."""
    positive = tree.positive()
    names = [value for key, value, _ in positive if key is None and not value.anything]
    name = state["name"]
    if any(folded(value.text.strip()) == folded(name.strip()) for value in names):
        return EXACT
    if len(names) == len(positive) and all(value.whole(name) or value.in_words(name, value.star) for value in names):
        return NAMED
    return EVERY if all(wanted(state, asked, scopes) for asked in positive) else SOME


def one_word(asked: Asked) -> str:
    """The word of five letters or more that a term without a star is; empty of any other."""
    key, value, _ = asked
    read_both = {tuple(words(value.text)), tuple(words(value.text, False))}
    if key is not None or value.star or len(read_both) > 1:
        return ""
    (only,) = read_both
    return only[0] if len(only) == 1 and only[0].isalpha() and len(only[0]) >= 5 else ""


def whole_word(text: str, query: str) -> int:
    """Where a word first stands in a query by itself, with blanks beside a separator, and quotes anywhere."""
    written = "".join(rf'"*\s*{one}\s*"*' if one in ":=" else f'"*{re.escape(one)}"*' for one in text)
    place = re.search(rf"(?<!\w){written}(?!\w)", query)
    assert place is not None
    return place.start()


def near(state: State, word: str, scopes: Sequence[str]) -> float:
    """What the nearest word of an entity weighs, 0 where none is near."""
    weights = [
        WEIGHTS[sort_of(field)] / far
        for field, lines in fields_of(state, scopes).items()
        for other in {other for line in lines for other in line}
        if abs(len(other) - len(word)) <= 2 and 0 < (far := edits(word, other)) <= (1 if len(word) < 8 else 2)
    ]
    return max(weights, default=0.0)


def fields_of(state: State, scopes: Sequence[str] = ("USER", "SYSTEM")) -> dict[str, Lines]:
    """The lines of words that weigh alike: each text in both its readings, each line once."""
    fields: dict[str, Lines] = {}
    for text in texts(state):
        if text.scope is not None and text.scope not in scopes:
            continue
        sort = "identity" if text.sort in ("kind", "namespace") else text.sort
        if (text.sort, text.scope, folded(text.key)) == ("property", "SYSTEM", "description"):
            sort = "description"
        lines = fields.setdefault(f"{sort}:{text.scope}", [])
        lines += [line for line in (words(text.text), words(text.text, False)) if line and line not in lines]
    for lines in fields.values():
        lines[:] = [list(line) for line in dict.fromkeys(map(tuple, lines))]
    return fields


def weight(state: State, asked: Asked, statistics: Statistics, scopes: Sequence[str]) -> float:
    """How well an entity fits a term that it matches."""
    key, value, literal = asked
    reserved = "" if key is None or literal or key.star else folded(key.text)
    fields = fields_of(state, scopes)
    if everything(asked) or value.anything or reserved == "properties":
        return LEAST
    if key is None or reserved == "tags":
        sorts = ["tag"] if key is not None else list(WEIGHTS)
        here = [text for text in texts(state) if text.scope is None or text.scope in scopes]
        wholes = [text for text in here if key is None or text.sort == "tag"]
        least = LEAST if any(value.whole(text.text) or value.is_path(text) for text in wholes) else 0.0
        if not value.star:
            return max(least, best(statistics, fields, readings(value.text), sorts))
        begun = [
            WEIGHTS[sort_of(field)] if sort_of(field) != "name" else LONG_NAME + SHORT_NAME / sum(map(len, lines))
            for field, lines in fields.items()
            if sort_of(field) in sorts and any(value.in_lines(line, open_end=True) for line in lines)
        ]
        return max([least, *begun])
    if reserved == "schema":
        name, kind = field_and_type(value)
        if name.star or (kind.anything and value.star and kind.text):
            return LEAST
        return best(statistics, fields, readings(name.text), ["schema"])
    return LEAST if value.star else best(statistics, fields, readings(value.text), ["property", "description"])


def readings(text: str) -> list[list[str]]:
    return [words(text), words(text, False)]


def ranked(
    query: str, states: Sequence[State], scopes: Sequence[str], statistics: Statistics
) -> dict[str, tuple[int, float]]:
    """Tier and fit of each hit by its URN."""
    tree = tree_of(query)
    living = [state for state in states if not state["deleted"]]
    unknown = {
        asked: word
        for asked in tree.positive()
        if (word := one_word(asked)) and not any(wanted(state, asked, scopes) for state in living)
    }
    in_order = sorted(unknown, key=lambda asked: whole_word(asked[1].text, query))
    unknown = {asked: unknown[asked] for asked in in_order[:MOST_UNKNOWN]}
    hits = {}
    for state in living:
        exact = {asked: wanted(state, asked, scopes) for asked in tree.every()}
        close = {asked: near(state, word, scopes) for asked, word in unknown.items()}
        fits = {
            asked: close.get(asked) or (weight(state, asked, statistics, scopes) if exact[asked] else 0.0)
            for asked in tree.positive()
        }
        if tree.holds({**exact, **{asked: value > 0 for asked, value in close.items() if value}}):
            place = tier(tree, state, scopes) if tree.holds(exact) else TYPING_ERROR
            hits[state["urn"]] = place, tree.fit(exact | {a: True for a, value in close.items() if value}, fits)
    if all(map(everything, tree.positive())):
        return dict.fromkeys(hits, (0, 0.0))
    return hits


def answer(
    query: str, states: Sequence[State], scopes: Sequence[str] = ("USER", "SYSTEM"), *, among: Sequence[State]
) -> list[str]:
    """URNs of the hits, best first, ties by URN.

    Args:
        among: all entities of the index.
    """
    places = ranked(query, states, scopes, statistics_of(among))
    return sorted(places, key=lambda urn: (-places[urn][0], -round(places[urn][1], 4), urn))


def statistics_of(among: Sequence[State]) -> Statistics:
    """Of all entities of an index."""
    return Statistics([fields_of(state) for state in among if not state["deleted"]])


def is_order(found: Sequence[str], places: Mapping[str, tuple[int, float]]) -> bool:
    """Whether hits stand in the order of their places; where floats of four bytes may tie, either way is right."""
    if sorted(found) != sorted(places):
        return False
    for one, other in pairwise(found):
        (tier_of_one, fit_of_one), (tier_of_other, fit_of_other) = places[one], places[other]
        if tier_of_one != tier_of_other:
            if tier_of_one < tier_of_other:
                return False
        elif isclose(fit_of_one, fit_of_other, rel_tol=1e-9):
            if one > other:
                return False
        elif fit_of_one < fit_of_other - FLOATS_TIE:
            return False
    return True
