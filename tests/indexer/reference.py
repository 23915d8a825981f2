"""Search by the plain words of its specification: a naive matcher over state documents, the index's second opinion.

Nothing of the indexer's grammar, words or queries is used here. Each entity is a list of texts; a term looks at each of
them. It is slow and short, so that one can hold it against the specification sentence by sentence.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

State = Mapping[str, Any]
EXACT, PREFIX, INSIDE, EVERY, SOME, NONE = 5, 4, 3, 2, 1, 0


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

    def matches(self, text: str) -> bool:
        """Whether it is this whole text (or its beginning), or words of it one after the other."""
        return (self.whole(text) and len(text) <= 1024) or self.in_words(text, self.star)

    def in_words(self, text: str, open_end: bool) -> bool:
        """Whether words of a text are its words one after the other; either may be cut at changes of case or not."""
        open_end = open_end and self.text[-1:].isalnum()
        for asked, text_words in product(
            (words(self.text), words(self.text, False)), (words(text), words(text, False))
        ):
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


def terms(query: str) -> list[tuple[Part | None, Part, bool]]:
    """The terms of a query as (key, value, the key was quoted); quotes are hidden first, so that all else is plain."""
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
    return [term(token, hidden) for token in joined]


def end_of_schema(token: str) -> int:
    """Where a field's name begins in `schema:field`; 0 where none does."""
    begun = re.match("schema[:=](?=.)", token, re.IGNORECASE)
    return 0 if begun is None else begun.end()


def term(token: str, hidden: list[str]) -> tuple[Part | None, Part, bool]:
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


def wanted(state: State, term: tuple[Part | None, Part, bool], scopes: Sequence[str]) -> bool:
    """Whether one term matches an entity."""
    key, value, literal = term
    here = [text for text in texts(state) if text.scope is None or text.scope in scopes]
    if key is None:
        return value.anything or (bool(words(value.text)) and any(value.matches(text.text) for text in here))
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
    separator = re.search("[:=]", value.text)
    name, kind = value, Part("", star=True)
    if separator is not None and separator.start() > 0 and separator.end() < len(value.text) + value.star:
        left = value.text[: separator.start()]
        name, kind = Part(left.rstrip("*"), left.endswith("*")), Part(value.text[separator.end() :], value.star)
    fields_here = [text for text in here if text.sort == "schema"]
    return any(
        (kind.anything or (text.type != "" and typed(kind, text.type)))
        and (name.matches(text.text) or name.whole(text.key))
        for text in fields_here
    )


def typed(kind: Part, text: str) -> bool:
    type_words = words(text)
    return any(kind.whole(text) for text in (text, " ".join(type_words), *type_words, *words(text, False)))


def tier(query: str, state: State, scopes: Sequence[str] = ("USER", "SYSTEM")) -> int:
    """The class of an entity in the order of relevance; NONE where it is no hit."""
    asked = terms(query) or [(None, Part("", star=True), False)]
    spoken = [term for term in asked if everything(term) or speaks(term)]
    each = [wanted(state, term, scopes) for term in spoken]
    if not any(each):
        return NONE
    names = [value for key, value, _ in spoken if key is None and not value.anything]
    name = state["name"]
    if any(folded(value.text.strip()) == folded(name.strip()) for value in names):
        return EXACT
    if any(folded(name.strip()).startswith(folded(value.text.lstrip())) for value in names):
        return PREFIX
    if any(value.in_words(name, open_end=True) for value in names):
        return INSIDE
    return EVERY if all(each) else SOME


def everything(term: tuple[Part | None, Part, bool]) -> bool:
    key, value, _ = term
    return value.anything and (key is None or key.anything)


def speaks(term: tuple[Part | None, Part, bool]) -> bool:
    """Whether a term has a letter or digit; separators among other terms count for nothing."""
    key, value, _ = term
    return bool(words(value.text) or (key is not None and (words(key.text))))


def answer(query: str, states: Sequence[State], scopes: Sequence[str] = ("USER", "SYSTEM")) -> list[str]:
    """URNs of the hits, best first, ties by URN."""
    ranked = [(-tier(query, state, scopes), state["urn"]) for state in states if not state["deleted"]]
    if all(everything(term) for term in terms(query)):
        return sorted(urn for _, urn in ranked)
    return [urn for less, urn in sorted(ranked) if less < 0]
