"""The questions that search's rank quality is measured by, and how it is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.ranking import CORPORA, Question, ask, questions, reciprocal_rank


@pytest.mark.thorough
def test_every_right_answer_is_in_the_corpus_that_is_asked() -> None:
    names = {corpus: {state["name"] for state in states()} for corpus, states in CORPORA.items()}
    asked = questions()
    assert {question.corpus for question in asked} == set(CORPORA)
    for question in asked:
        assert question.right <= names[question.corpus], question


def test_the_rank_is_that_of_the_first_right_answer() -> None:
    question = Question("errors", "what", frozenset({"a", "b"}))
    assert reciprocal_rank(question, ["a", "b"]) == 1
    assert reciprocal_rank(question, ["x", "b", "a"]) == 0.5
    assert reciprocal_rank(question, ["x"]) == 0


@pytest.mark.parametrize(
    "entry",
    [
        {"corpus": "nosuch", "question": "x", "right": ["y"]},
        {"corpus": "errors", "question": " ", "right": ["y"]},
        {"corpus": "errors", "question": "x", "right": []},
    ],
)
def test_a_question_that_is_not_complete_is_refused(tmp_path: Path, entry: dict[str, object]) -> None:
    (tmp_path / "questions.json").write_text(json.dumps([entry]))
    with pytest.raises(ValueError, match="needs one of"):
        questions(tmp_path / "questions.json")


@pytest.mark.services
def test_a_search_ranks_no_worse_than_plain_bm25(elasticsearch: str) -> None:
    """A few questions of those who wrote the order: a guard against mistakes; the measure is `bench ranking`."""
    [figure] = ask(elasticsearch, [question for question in questions() if question.corpus == "errors"], lambda _: None)
    assert figure["ratio"] >= 1
