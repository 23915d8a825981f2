"""What a `Journal` takes stands in its signatures: for readers, editors and type checkers alike.

The type checker holds the last test: where a signature took anything, its `type: ignore` would be one too many.
"""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import pytest

from metajournal import Journal
from metajournal.client import Metadata
from metajournal.consumers.filters import Filter
from metajournal.consumers.subscription import Subscription
from metajournal.indexer.search.searching import Search
from metajournal.producers.topics import Epochs
from metajournal.schemas.errors import InputError
from metajournal.schemas.settings import Settings

READING = {"as_at", "as_of", "tenant", "at_least", "timeout_s"}
HOW = {"since", "group", "timeout_s", "limit", "commit_interval_s"}
ASKING = [
    "search", "suggest_names", "suggest_keys", "subscribe", "changes", "states", "show", "history", "metadata",
    "properties", "tags",
]  # fmt: skip


def options(name: str) -> dict[str, Parameter]:
    """The arguments of a method that are given by name."""
    return {
        key: each
        for key, each in signature(getattr(Journal, name)).parameters.items()
        if each.kind == each.KEYWORD_ONLY
    }


@pytest.mark.parametrize("name", ASKING)
def test_every_argument_is_named_and_typed(name: str) -> None:
    own = list(signature(getattr(Journal, name)).parameters.values())[1:]
    assert own
    assert not [each.name for each in own if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    assert not [each.name for each in own if each.annotation in (each.empty, "object")]
    assert signature(getattr(Journal, name)).return_annotation is not Parameter.empty


@pytest.mark.parametrize("name", ["search", "suggest_names", "suggest_keys"])
def test_a_search_takes_what_the_index_answers_with_the_same_defaults(name: str) -> None:
    own, searched = signature(getattr(Journal, name)), signature(getattr(Search, name))
    assert own.parameters == searched.parameters


@pytest.mark.parametrize("name", ["subscribe", "changes", "states"])
def test_a_subscription_takes_each_condition_and_how_it_goes(name: str) -> None:
    own = options(name)
    assert set(own) == {*signature(Filter.of).parameters, *HOW}
    subscription = signature(Subscription).parameters
    assert {key: own[key].default for key in HOW} == {key: subscription[key].default for key in HOW}
    assert {own[key].default for key in set(own) - HOW} == {None}


@pytest.mark.parametrize("name", ["show", "metadata", "properties", "tags"])
def test_a_question_about_an_entity_takes_when_and_whose(name: str) -> None:
    assert options(name) == options("answer")
    assert set(options(name)) == READING


def test_an_argument_that_there_is_not_is_refused_before_and_while_it_runs() -> None:
    journal = Journal(Settings(), Epochs({}))
    calls: list[Any] = [
        lambda: journal.search("x", kind="dataset"),  # type: ignore[call-arg]
        lambda: journal.search("x", limit="10"),  # type: ignore[arg-type]
        lambda: journal.search("x", sort="age"),  # type: ignore[arg-type]
        lambda: journal.subscribe(sinse="latest"),  # type: ignore[call-arg]
        lambda: journal.subscribe(kinds=3),  # type: ignore[arg-type]
        lambda: journal.states(wibble=1),  # type: ignore[call-arg]
        lambda: journal.show("dataset:default/a", as_ad=1),  # type: ignore[call-arg]
        lambda: journal.tags("dataset:default/a", tennant="x"),  # type: ignore[call-arg]
    ]
    for call in calls:
        with pytest.raises(InputError):
            call()


def _only_for_the_type_checker(journal: Journal) -> tuple[Metadata, Metadata]:
    both: Metadata = journal.metadata("dataset:default/a")  # type: ignore[assignment]
    return both, journal.metadata("dataset:default/a", "USER", as_at="2026-01-31")
