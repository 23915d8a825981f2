"""The search grammar, form by form."""

from __future__ import annotations

import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.indexer.errors import InvalidQueryError
from metajournal.indexer.search.grammar import (
    AllOf,
    Clauses,
    Everything,
    Field,
    HasKey,
    HasTags,
    Node,
    Not,
    Nothing,
    Property,
    Tag,
    Term,
    Text,
    Value,
    parse,
)
from tests.indexer.expressions import read


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
        ("schema: schema : type x", [Field(Text("schema"), Text("type")), value("x")]),
        ("schema:schema:a :b", [Field(Text("schema"), Text("a")), value(":b")]),
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
    assert parsed.atoms
    assert set(parsed.terms) <= set(parsed.atoms)
    assert parsed.nothing == any(isinstance(term, Nothing) for term in parsed.atoms)


@given(st.text(alphabet=st.characters(exclude_characters='"'), max_size=100).filter(lambda text: text.strip()))
def test_a_quoted_text_is_one_value_or_separators(text: str) -> None:
    (term,) = parse(f'"{text}"').atoms
    assert term in (value(text), Nothing(text))


@given(st.lists(st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True), min_size=1, max_size=20, unique=True))
def test_plain_words_are_terms_in_order(words: list[str]) -> None:
    assert list(parse("  ".join(words)).terms) == [value(word) for word in words]


def test_what_is_too_long_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidQueryError, match="8,192"):
        parse("x" * 8193)
    with pytest.raises(InvalidQueryError, match="64"):
        parse(" ".join(f"w{number}" for number in range(65)))
    with pytest.raises(InvalidQueryError, match="has 72 terms; at most 64"):
        parse(" ".join(f"(t{number} a b c d e f g)" for number in range(9)))
    assert len(parse("a b c d e f g h " * 100).atoms) == 8
    with pytest.raises(InvalidQueryError, match="16 words"):
        parse('key*:"' + "w " * 17 + '"')
    with pytest.raises(InvalidQueryError, match="5 groups"):
        parse("(a " * 6 + ")" * 6)
    assert parse("(a " * 5 + ")" * 5 + " (" * 4000).terms == (value("a"),)


@pytest.mark.parametrize("text", ["schema:" * 1_100 + "x y", "schema: " * 1_000 + "x", "schema:a" + " :" * 3_000])
def test_schemas_one_after_the_other_cost_what_their_text_costs(text: str) -> None:
    began = time.process_time()
    assert parse(text).terms
    assert time.process_time() - began < 0.5


# --- AND, OR, NOT, signs and parentheses

A, B, C = (value(letter) for letter in "abc")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("a b", Clauses((A, B))),
        ("a OR b", Clauses((A, B))),
        ("a AND b", AllOf((A, B))),
        ("a AND b OR c", Clauses((AllOf((A, B)), C))),
        ("a b AND c", Clauses((A, AllOf((B, C))))),
        ("+a b", Clauses((B,), (A,))),
        ("+a +b", Clauses((), (A, B))),
        ("+a", A),
        ("a -b", Clauses((A,), (), (B,))),
        ("a NOT b", Clauses((A,), (), (B,))),
        ("NOT b a", Clauses((A,), (), (B,))),
        ("a AND NOT b", AllOf((A, Not(B)))),
        ("a OR NOT b", Clauses((A, Not(B)))),
        ("NOT a OR b", Clauses((Not(A), B))),
        ("a NOT b AND NOT c", Clauses((A,), (), (B, C))),
        ("-a", Clauses((), (), (A,))),
        ("NOT NOT a", A),
        ("NOT -a", A),
        ("+a AND b c", Clauses((C,), (AllOf((A, B)),))),
        ("(a b) AND c", AllOf((Clauses((A, B)), C))),
        ("-(a b) c", Clauses((C,), (), (Clauses((A, B)),))),
        ("+(a b) c", Clauses((C,), (Clauses((A, B)),))),
        ("NOT (a AND b) c", Clauses((C,), (), (AllOf((A, B)),))),
        ("((a)) ( b )", Clauses((A, B))),
        ("a a AND a", A),
        ("-key:x a", Clauses((A,), (), (Property(Text("key"), Text("x")),))),
        ('-"a b" c', Clauses((C,), (), (value("a b"),))),
        ("a AND --- b", Clauses((A, B))),
    ],
)
def test_operators_signs_and_parentheses_make_a_tree(query: str, expected: Node) -> None:
    assert parse(query).root == expected


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("a AND", ["a", "AND"]),
        ("OR a", ["OR", "a"]),
        ("a NOT", ["a", "NOT"]),
        ("AND OR NOT", ["AND", "OR", "NOT"]),
        ("a AND OR b", ["a", "AND", "OR", "b"]),
        ("a and not b or c", ["a", "and", "not", "b", "or", "c"]),
        ('a "AND" b', ["a", "AND", "b"]),
        ("(a", ["(a"]),
        ("a) b", ["a)", "b"]),
        ("f(x)", ["f(x)"]),
        ("(f(x) g(y))", ["f(x)", "g(y)"]),
        ("(x b)", ["x", "b"]),
        ('"(a" "b)"', ["(a", "b)"]),
        ("--a ++b +-c", ["--a", "++b", "+-c"]),
        ("a-b a+", ["a-b", "a+"]),
        ("(a b)*", ["(a", "b)*"]),
    ],
)
def test_what_lacks_an_operand_or_a_partner_is_text(query: str, texts: list[str]) -> None:
    assert [str(term.value) for term in parse(query).terms if isinstance(term, Value)] == texts


def test_parentheses_inside_a_value_are_text() -> None:
    assert parse("key:(a b)").terms == (Property(Text("key"), Text("(a")), value("b)"))


def test_lone_signs_and_empty_parentheses_are_left_out() -> None:
    assert parse("a + b - () c").left_out == ("+", "-", "()")
    assert parse("a + b - () c").terms == (A, B, C)


def test_terms_below_a_not_are_no_terms_of_a_hit_but_count() -> None:
    parsed = parse("a -b NOT (c AND d)")
    assert parsed.terms == (A,)
    assert parsed.atoms == (A, B, C, value("d"))
    with pytest.raises(InvalidQueryError, match="64"):
        parse(" ".join(f"-w{number}" for number in range(65)))


_tokens = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            "c",
            "AND",
            "OR",
            "NOT",
            "(",
            ")",
            "(a",
            "b)",
            "-a",
            "+b",
            "-(c",
            "+(a",
            "c)",
            "((b",
            "f(a)",
            "--",
            "-",
        ]
    ),
    max_size=12,
)


@given(_tokens)
def test_any_query_means_what_a_naive_reader_of_the_page_says(tokens: list[str]) -> None:
    try:
        parsed = parse(" ".join(tokens))
    except InvalidQueryError:
        return
    tree = read(tokens, lambda token: token if token.strip("+-()") else None)
    for present in product((True, False), repeat=3):
        letters = {letter for letter, is_present in zip("abc", present, strict=True) if is_present}
        texts = {text: text.strip("()f") in letters for text in tree.every()}
        assert parsed.holds(lambda term: texts[term.value.text]) == tree.holds(texts)  # type: ignore[union-attr]  # noqa: B023
    assert {str(term.value) for term in parsed.terms if isinstance(term, Value)} == set(tree.positive())
