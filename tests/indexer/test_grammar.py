"""The search grammar, form by form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.indexer.errors import InvalidQueryError
from metajournal.indexer.search.grammar import (
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
    parse,
)


def value(text: str, prefix: bool = False) -> Value:
    return Value(Text(text, prefix))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [Everything()]),
        (" \t\n", [Everything()]),
        ("*", [Everything()]),
        ("*:*", [Everything()]),
        ("word", [value("word")]),
        ("wo*", [value("wo", True)]),
        ("a b  a", [value("a"), value("b")]),
        ("AND OR NOT", [value("AND"), value("OR"), value("NOT")]),
        ('"two words"', [value("two words")]),
        ('"two wo"*', [value("two wo", True)]),
        ('"star*"', [value("star*")]),
        ("*mid*dle", [value("*mid*dle")]),
        ('half" quote', [value('half"'), value("quote")]),
        ("key:value", [Property(Text("key"), Text("value"))]),
        ("key=value", [Property(Text("key"), Text("value"))]),
        ("key : value", [Property(Text("key"), Text("value"))]),
        ("key: value", [Property(Text("key"), Text("value"))]),
        ("key :value", [Property(Text("key"), Text("value"))]),
        ("a k = v b", [value("a"), Property(Text("k"), Text("v")), value("b")]),
        ("key:value*", [Property(Text("key"), Text("value", True))]),
        ("key*:value", [Property(Text("key", True), Text("value"))]),
        ("key*:value*", [Property(Text("key", True), Text("value", True))]),
        ("*:value", [Property(Text("", True), Text("value"))]),
        ('"a key":"a value"', [Property(Text("a key"), Text("a value"))]),
        ("key:a:b=c", [Property(Text("key"), Text("a:b=c"))]),
        ('key:""', [Property(Text("key"), Text(""))]),
        ('"not:key"', [value("not:key")]),
        ("key:*", [HasKey(Text("key"))]),
        ("ke*:*", [HasKey(Text("ke", True))]),
        ("key:", [value("key:")]),
        (":value", [value(":value")]),
        ("tags:x", [Tag(Text("x"))]),
        ("TAGS = x*", [Tag(Text("x", True))]),
        ("tags:*", [HasTags()]),
        ("tags*:x", [Property(Text("tags", True), Text("x"))]),
        ('"tags":x', [Property(Text("tags"), Text("x"))]),
        ("properties:key", [HasKey(Text("key"))]),
        ("properties:key*", [HasKey(Text("key", True))]),
        ("properties:*", [HasKey(Text("", True))]),
        ("schema:field", [Field(Text("field"))]),
        ("schema:field : type", [Field(Text("field"), Text("type"))]),
        ("Schema = field: type x", [Field(Text("field"), Text("type")), value("x")]),
        ("schema: field other", [Field(Text("field")), value("other")]),
        ("schemas:a :b", [Property(Text("schemas"), Text("a")), value(":b")]),
        ("schema:fi*", [Field(Text("fi", True))]),
        ("schema:field:type", [Field(Text("field"), Text("type"))]),
        ("schema:fi*:ty*", [Field(Text("fi", True), Text("ty", True))]),
        ("schema:field:*", [Field(Text("field"))]),
        ("schema:*", [HasKey(Text("schema"))]),
        ("---", [Nothing("---")]),
        ("--- ...", [Nothing("---")]),
        ("-:-", [Nothing("-:-")]),
        ('""', [Nothing("")]),
        ("--- word", [value("word")]),
    ],
)
def test_each_form_parses_to_its_term(query: str, expected: list[Term]) -> None:
    assert list(parse(query).terms) == expected


def test_what_has_no_letter_or_digit_is_told_apart_from_what_is_looked_for() -> None:
    assert parse("--- word 🚀 -:-").left_out == ("---", "🚀", "-:-")
    assert parse("---").left_out == parse("word").left_out == ()


@given(st.text(max_size=300))
def test_any_text_parses_to_at_least_one_term_or_is_refused_for_its_size(query: str) -> None:
    try:
        parsed = parse(query)
    except InvalidQueryError:
        return
    assert parsed.terms
    assert parsed.nothing == any(isinstance(term, Nothing) for term in parsed.terms)


@given(st.text(alphabet=st.characters(exclude_characters='"'), max_size=100).filter(lambda text: text.strip()))
def test_a_quoted_text_is_one_value_or_separators(text: str) -> None:
    (term,) = parse(f'"{text}"').terms
    assert term in (value(text), Nothing(text))


@given(st.lists(st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True), min_size=1, max_size=20, unique=True))
def test_plain_words_are_terms_in_order(words: list[str]) -> None:
    assert list(parse("  ".join(words)).terms) == [value(word) for word in words]


def test_what_is_too_long_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidQueryError, match="8,192"):
        parse("x" * 8193)
    with pytest.raises(InvalidQueryError, match="64"):
        parse(" ".join(f"w{number}" for number in range(65)))
    with pytest.raises(InvalidQueryError, match="16 words"):
        parse('key*:"' + "w " * 17 + '"')
