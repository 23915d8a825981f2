"""Where words stand in a text: found without splitting it, and the same as if it had been split."""

from __future__ import annotations

import json
import re
import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.indexer import terms
from metajournal.indexer.documents import SCOPES, entries, whole_terms
from metajournal.indexer.search.described import Described
from metajournal.indexer.search.edits import close_words, distance
from metajournal.indexer.search.explain import MAX_REASONS, MAX_SHOWN_CHARACTERS, explain, near, reasons
from metajournal.indexer.search.grammar import Text, parse
from metajournal.indexer.search.pieces import Pieces
from metajournal.indexer.search.places import Places, Span
from tests.indexer import ranks
from tests.indexer.corpus import state


def spans(text: str, words: list[str], *, prefix: bool) -> set[Span]:
    return {span for found in Places(text).of(words, prefix=prefix) for span in found}


def spans_of_all_words(text: str, words: list[str], *, prefix: bool) -> set[Span]:
    """The same by splitting all of the text, in both readings."""
    found = set()
    for humps in (True, False):
        tokens = terms.tokens(text, humps=humps)
        for start in range(len(tokens) - len(words) + 1 if words else 0):
            here = tokens[start : start + len(words)]
            *before, last = (token.word for token in here)
            if before == words[:-1] and (last.startswith(words[-1]) if prefix else last == words[-1]):
                found.add((here[0].start, here[-1].end))
    return found


_alphabet = "aAbBé É\u0301ßﬁ½İ٣ж-. x東™\ud800ा\u200d"
_texts = st.text(alphabet=_alphabet, max_size=60) | st.text(max_size=40)
_long = st.builds(lambda part, count, end: part * count + end, _texts, st.integers(1, 40), _texts)


@given(_texts | _long, st.text(alphabet=_alphabet, max_size=6), st.booleans())
def test_what_is_found_is_what_comparing_all_words_finds(text: str, asked: str, prefix: bool) -> None:
    for words, _ in terms.readings(asked):
        assert spans(text, words, prefix=prefix) == spans_of_all_words(text, words, prefix=prefix)


@given(st.lists(st.sampled_from("ab"), min_size=9, max_size=24), st.integers(1, 6), st.text(max_size=3), st.booleans())
def test_many_words_are_found_wherever_they_stand_one_after_the_other(
    words: list[str], count: int, between: str, prefix: bool
) -> None:
    texts = f" {between} ".join([*words * count, "abc", *words]), "aB" * 40 + "-".join(words) * count
    for text in (*texts, *(f"{text} \u00df " * 3 for text in texts), *(text.replace("b", "b\u0301") for text in texts)):
        assert spans(text, words, prefix=prefix) == spans_of_all_words(text, words, prefix=prefix)


@pytest.mark.parametrize("letter", ["ß", "ﬁ", "½", "e\u0301", "x\u0301", "™", "é", "…", "\u0301", "1\ufe0f"])
@pytest.mark.parametrize("text", ["a {0} b", "a{0}b", "{0}a b{0}", "a b{0} a b", "aB{0} a{0}B a b"])
def test_a_character_that_becomes_several_or_none_hides_and_joins_no_words(letter: str, text: str) -> None:
    text = text.format(letter)
    for words in (["a"], ["b"], ["a", "b"], ["a", "ss"], ["ab"]):
        for prefix in (False, True):
            assert spans(text, words, prefix=prefix) == spans_of_all_words(text, words, prefix=prefix)


@given(_texts | _long, st.data())
def test_words_of_the_text_are_found_where_they_stand(text: str, data: st.DataObject) -> None:
    tokens = terms.tokens(text, humps=data.draw(st.booleans()))
    if not tokens:
        return
    start = data.draw(st.integers(0, len(tokens) - 1))
    here = tokens[start : start + data.draw(st.integers(1, 3))]
    words = [token.word for token in here]
    assert (here[0].start, here[-1].end) in spans(text, words, prefix=False)
    assert spans(text, words, prefix=False) == spans_of_all_words(text, words, prefix=False)


_names = st.text(alphabet='aAbB\\".é™ -', max_size=8)


@given(
    _names,
    st.booleans(),
    st.lists(_names, max_size=4),
    st.dictionaries(_names, _names | _names.map(lambda part: f"{part} {'word ' * 1_000}{part}"), max_size=4),
    st.lists(_names, max_size=4),
    st.booleans(),
)
def test_no_text_that_a_term_matches_is_passed_over(
    asked: str, prefix: bool, tags: list[str], user: dict[str, str], columns: list[str], nested: bool
) -> None:
    fields: list[Any] = [{"name": name, "type": "int"} for name in columns]
    if nested:
        fields = [{"name": "A.b", "type": {"type": "record", "name": "r", "fields": fields}}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields}, ensure_ascii=len(columns) % 2 == 0)
    entity = state("dataset:d/aB", tags=tags, user=user, system={"schema": schema})
    given_entries = list(Described(entity).having(Text(asked, prefix)))
    for entry in entries(entity):
        words = [
            spans_of_all_words(entry.text, reading, prefix=prefix and open_end)
            for reading, open_end in terms.readings(asked)
        ]
        start = terms.whole_prefix(asked) if prefix else terms.whole(asked)
        wholes = [known == start or (prefix and known.startswith(start or known)) for known in whole_terms(entry)]
        assert entry in given_entries or not (any(words) or any(wholes))
    assert [entry for entry in entries(entity) if entry in given_entries] == given_entries


def test_a_schema_without_the_words_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = json.dumps([[f"customerOrders{number}", "long"] for number in range(100)])
    entity = state("dataset:d/x", system={"schema": schema})

    def refused(_: str) -> None:
        raise AssertionError

    monkeypatch.setattr("metajournal.indexer.search.described.schema_fields", refused)
    assert not explain(parse("needle rders omer* schema:needle d:x tags:customer").terms, entity).why
    with pytest.raises(AssertionError):
        explain(parse("customer").terms, entity)


@pytest.mark.parametrize("place", [0, 4_000, 8_180, 8_190, 20_000])
def test_a_long_text_shows_what_the_whole_of_it_would_show(place: int) -> None:
    text = f"{'b ' * (place // 2)}A needle,  needle{' . ' * 30}Hay {'c ' * 20_000}needle hay"
    described = Described(state("dataset:d/x", user={"k": text}))
    for asked in ("needle", "needle-hay", "needle-needle-hay", "hay*", "a-needle"):
        (term,) = parse(asked).terms
        (why,) = reasons(term, described)
        (first, *_) = sorted(
            min(spans(text, words, prefix="*" in asked))
            for words, _ in terms.readings(asked[:-1] if "*" in asked else asked)
        )
        assert why.text == text[max(0, first[0] - 60) :][:MAX_SHOWN_CHARACTERS]
        begin = max(0, first[0] - 60)
        shown = {
            (start - begin, min(end - begin, MAX_SHOWN_CHARACTERS))
            for words, _ in terms.readings(asked.rstrip("*"))
            for start, end in spans(text, words, prefix="*" in asked)
            if start - begin < MAX_SHOWN_CHARACTERS
        }
        assert set(why.matched) == shown


@given(st.text(max_size=50) | st.text(alphabet=_alphabet, max_size=50))
def test_characters_fold_one_by_one(text: str) -> None:
    kept = re.sub("[\ud800-\udfff]", "\ufffd", text)  # a lone surrogate is a sign
    decomposed = unicodedata.normalize("NFKD", kept)
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    plain = "".join(
        character
        for character in unicodedata.normalize("NFKD", plain.casefold())
        if not unicodedata.combining(character)
    )
    shapeless = "".join(character for character in plain if "VARIATION SELECTOR" not in unicodedata.name(character, ""))
    assert terms.fold(text) == shapeless.replace("\u034f", "").replace("\u180b", "")


@given(st.text(alphabet="abcd", max_size=9), st.text(alphabet="abcd", max_size=9))
def test_edits_are_counted_as_a_naive_count_does(word: str, other: str) -> None:
    apart = ranks.edits(word, other)
    assert distance(word, other, 2) == (apart if apart <= 2 else None)


@given(st.text(alphabet="abcd", max_size=9), st.lists(st.text(alphabet="abcde", max_size=9)), st.integers(1, 2))
def test_close_words_are_those_that_a_naive_count_says(word: str, others: list[str], most: int) -> None:
    assert close_words(word, others, most) == [other for other in others if ranks.edits(word, other) <= most]


@pytest.mark.thorough
@given(_texts, st.integers(1, 2_000), _texts)
def test_the_words_of_all_pieces_are_those_of_the_text(part: str, count: int, end: str) -> None:
    text = part * count + end
    pieces = list(Pieces(text))
    assert "".join(piece.places.text for piece in pieces) == text
    assert all(text.startswith(piece.places.text, piece.start) for piece in pieces)
    words = frozenset[str]().union(*(piece.words for piece in pieces))
    assert words == {*terms.words(text), *terms.words(text, humps=False)}


@given(st.text(alphabet=_alphabet, max_size=40))
def test_no_part_of_a_run_that_is_cut_resembles_a_word(text: str) -> None:
    run = "x" * terms.MAX_WORD_CHARACTERS + "orders"
    assert not list(near(Described(state("dataset:d/y", user={"k": f"{text} {run}"}), SCOPES), "orderz", 2))


def test_reasons_are_taken_term_by_term_in_turn() -> None:
    entity = state("dataset:d/x", user={f"k{number:02d}": "many words" for number in range(30)}, tags=["rare"])
    why = explain(parse("many words rare nothing").terms, entity).why
    assert len(why) == MAX_REASONS
    assert [str(reason) for reason in why[:4]] == [
        "k00: [many] words",
        "k00: many [words]",
        "tag: [rare]",
        "k01: [many] words",
    ]
    assert explain(parse("many nothing").terms, entity).terms == frozenset(parse("many").terms)


@pytest.mark.thorough
@pytest.mark.parametrize("letter", ["e", "é", "ж"])
def test_a_long_text_costs_what_finding_a_word_in_it_costs(letter: str) -> None:
    """Splitting all of it takes a hundred times as long; ten times is the limit here, whatever the machine does."""
    text = f"words, th{letter} customerOrders of " * 10_000 + "needle"
    entity = state("dataset:d/x", system={"description": text})
    asked = parse("needle nothing*").terms
    explain(asked, entity)  # characters are remembered
    began = time.process_time()
    explained = explain(asked, entity)
    took = time.process_time() - began
    began = time.process_time()
    terms.tokens(text)
    assert [reason.marked()[-8:] for reason in explained.why] == ["[needle]"]
    assert took < (time.process_time() - began) / 3


def test_a_letter_with_thousands_of_marks_costs_what_splitting_it_costs() -> None:
    text = "a" + "\u0301" * 50_000 + " needle"
    began = time.process_time()
    terms.tokens(text)
    splitting = time.process_time() - began
    began = time.process_time()
    assert spans(text, ["needle"], prefix=False) == {(50_002, 50_008)}
    assert time.process_time() - began < 20 * splitting


@pytest.mark.parametrize("letter", ["b", "\u00df"])
def test_a_phrase_in_a_text_that_repeats_itself_costs_what_splitting_the_text_costs(letter: str) -> None:
    """To read it again wherever the first word stands takes many times as long."""
    text = f"a{letter} " * 50_000 + "c"
    words = [*terms.words(f"a{letter} " * 600), "c"]
    began = time.process_time()
    terms.tokens(text)
    splitting = time.process_time() - began
    began = time.process_time()
    assert len(spans(text, words, prefix=False)) == 1
    assert time.process_time() - began < 6 * splitting


def test_near_words_are_shown_where_they_stand() -> None:
    described = Described(state("dataset:d/customerOrders", tags=["ordres", "orders-2"]), SCOPES)
    assert [str(why) for why in near(described, "orderz", 1)] == [
        "name: customer[Orders] for orderz",
        "tag: [orders]-2 for orderz",
    ]


def test_a_word_like_one_of_a_long_text_is_shown_where_it_stands_and_looked_for_no_further() -> None:
    text = "the sea and the rivers, " * 2_000 + "an ordres of fish. " + "words and more, " * 20_000
    described = Described(state("dataset:d/x", system={"description": text}), SCOPES)
    (why,) = (reason for reason in near(described, "orders", 1) if reason.key == "description")
    assert "an [ordres] of fish" in why.marked()
    assert len(why.text) <= MAX_SHOWN_CHARACTERS
    assert sum(len(piece.places.text) for piece in described.pieces(text)._read) < 60_000


def test_a_similar_word_that_another_hit_has_is_looked_for_before_a_long_text_is_split() -> None:
    text = "the sea and the rivers, " * 2_000 + "an ordres of fish. " + "words and more, " * 20_000
    seen = set[str]()
    described = [Described(state("dataset:d/x", system={"description": text + end})) for end in ("", " end")]
    first, second = (next(near(each, "orders", 1, seen)) for each in described)
    assert seen == {"ordres"}
    assert first == second
    assert not described[1].pieces(text + " end")._read
