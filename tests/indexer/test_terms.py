"""How texts become words and wholes."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.indexer import terms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tag12-tag33", ["tag12", "tag33"]),
        ("[CC BY 4.0]", ["cc", "by", "4", "0"]),
        ("customerOrders", ["customer", "orders"]),
        ("XMLFile v2Orders", ["xmlfile", "v2orders"]),
        ("noaa_goes.17/raw", ["noaa", "goes", "17", "raw"]),
        ("Café ÉCOLE éÉ", ["cafe", "ecole", "e", "e"]),
        ("e\u0301E\u0301", ["e", "e"]),
        ("ﬁne ½ Straße", ["fine", "1", "2", "strasse"]),
        ("東京 データ", ["東京", "テータ"]),
        ("ﷺ", ["صلى", "الله", "عليه", "وسلم"]),
        ("a\x00b\ud800c", ["a", "b", "c"]),
        ("--- _ \t", []),
        ("x" * 130, ["x" * 64 + "~~~", "~~~" + "x" * 64 + "~~~", "~~~xx"]),
        ("葛\U000e0100城 a\ufe0fb", ["葛城", "ab"]),
    ],
)
def test_words_are_runs_of_letters_and_digits_folded(text: str, words: list[str]) -> None:
    assert terms.words(text) == words


@given(st.text())
def test_a_word_is_short_folded_and_one_token_of_a_whitespace_analyzer(text: str) -> None:
    for word in terms.words(text):
        assert 0 < len(word.strip(terms.CUT)) <= terms.MAX_WORD_CHARACTERS
        assert len(word.encode("utf-16-le")) // 2 <= 255
        assert len(word.split()) == 1
        assert word == terms.fold(word)


@given(st.text())
def test_composed_and_decomposed_texts_have_the_same_words(text: str) -> None:
    assert terms.words(unicodedata.normalize("NFC", text)) == terms.words(unicodedata.normalize("NFD", text))


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_case_changes_nothing_but_where_camel_case_splits(text: str) -> None:
    assert "".join(terms.words(text.swapcase())) == "".join(terms.words(text))
    assert "".join(terms.words(text)) == "".join(character for character in text.lower() if character.isalnum())


@given(st.text(), st.text())
def test_words_of_texts_apart_are_the_words_of_each(left: str, right: str) -> None:
    assert terms.words(f"{left} {right}") == terms.words(left) + terms.words(right)


@given(st.text())
def test_tokens_stand_where_they_say(text: str) -> None:
    for word, start, end in terms.tokens(text):
        assert word in terms.words(text[start:end])


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert terms.fold(terms.fold(text)) == terms.fold(text)


@given(st.text(), st.integers(0, 50))
def test_the_whole_of_a_beginning_is_the_beginning_of_the_whole(text: str, cut: int) -> None:
    whole, start = terms.whole(text), terms.whole_prefix(text[:cut].rstrip())
    assert whole is not None
    assert start is not None
    assert whole.startswith(start)


def test_wholes_end_at_1024_characters_and_never_exceed_a_lucene_term() -> None:
    assert terms.whole("x" * 1024) == "x" * 1024
    assert terms.whole("x" * 1025) is None
    widest = "ﷺ" * 1024
    folded = terms.whole(widest)
    assert folded is not None
    assert len(folded) < terms.MAX_FOLDED_CHARACTERS + 20
    assert folded != terms.whole("ﷺ" * 1023)
    key = terms.fold("ﷺ" * 341)  # a key of 1,024 bytes
    assert len(terms.pair(key, terms.whole("\U0001d7ce\x01" * 512) or "").encode()) < 32_766


@given(st.text(), st.text(), st.text(), st.text())
def test_no_two_pairs_share_a_term(key: str, value: str, other_key: str, other_value: str) -> None:
    same = terms.pair(key, value) == terms.pair(other_key, other_value)
    assert same == ((key, value) == (other_key, other_value))


_SIGNED = st.text(st.sampled_from("aB%*?\\=~ ;2\t\n\0\x1f\x7f\x85\xa0é\u2028"), max_size=8)


@given(st.lists(_SIGNED, max_size=6))
def test_terms_are_encoded_character_by_character_singly_and_together(texts: list[str]) -> None:
    each = [
        "".join(character if character in "aB;2é" else f"%{ord(character):x};" for character in text) for text in texts
    ]
    assert [terms.encode(text) for text in texts] == each
    assert terms.encode_all(texts) == each


@given(st.text(), st.text())
def test_an_encoded_term_has_no_sign_with_a_meaning(start: str, rest: str) -> None:
    encoded = terms.encode(start + rest)
    assert not set("*?\\=~ ").intersection(encoded)
    assert encoded.startswith(terms.encode(start))


def test_a_beginning_whose_last_word_has_ended_stays_open_to_nothing() -> None:
    assert terms.readings("noaa-go") == [(["noaa", "go"], True)]
    assert terms.readings("noaa-") == [(["noaa"], False)]
    assert terms.readings("-") == [([], False)]


def test_a_text_with_humps_has_a_second_reading_in_which_they_cut_nothing() -> None:
    assert terms.readings("my iPhoneCase") == [(["my", "i", "phone", "case"], True), (["my", "iphonecase"], True)]
    assert terms.readings("größeÄndern!") == [(["grosse", "andern"], False), (["grosseandern"], False)]
    assert terms.readings("KAFKA 3D") == [(["kafka", "3d"], True)]


@given(st.text(st.characters(max_codepoint=127)))
def test_without_humps_words_do_not_depend_on_case(text: str) -> None:
    assert terms.words(text, humps=False) == terms.words(text.swapcase(), humps=False) == terms.words(text.lower())


@given(st.text())
def test_both_readings_have_the_same_letters(text: str) -> None:
    assert "".join(terms.words(text, humps=False)).replace("~", "") == "".join(terms.words(text)).replace("~", "")


_long = st.builds("{}{}".format, st.text(max_size=3), st.sampled_from(["x" * 64, "y" * 65, "aB" * 40, "z " * 600]))
_signs = st.text(alphabet="aBé\x00 -_.1ß", max_size=12)


@given(st.lists(st.text(max_size=8) | st.text(st.characters(max_codepoint=127)) | _signs | _long, max_size=6))
def test_many_texts_at_once_are_split_as_each_by_itself(texts: list[str]) -> None:
    lines, uncut, wholes = terms.lines_and_wholes(texts)
    assert lines == [" ".join(terms.words(text)) for text in texts]
    assert lines == [" ".join(token.word for token in terms.tokens(text)) for text in texts]
    without = [" ".join(terms.words(text, humps=False)) for text in texts]
    assert without == [" ".join(token.word for token in terms.tokens(text, humps=False)) for text in texts]
    assert [uncut_line or line for uncut_line, line in zip(uncut, lines, strict=True)] == without
    assert not any(uncut_line == line for uncut_line, line in zip(uncut, lines, strict=True) if uncut_line)
    assert wholes == [terms.whole(text) for text in texts]
    assert terms.encode_all([text for text in wholes if text is not None]) == [
        terms.encode(text) for text in wholes if text is not None
    ]
