"""How well searches rank: questions of people with their right answers, over plain BM25 of the same index.

`questions.json` is a list of `{"corpus": …, "question": …, "right": [names]}`: what somebody types who does not know
what the entities are called, and the names of those that answer it, best of all or equally good. Whoever writes one
looks at the corpus (`python -m bench.ranking CORPUS` prints it) and not at the code that ranks. The figure is the mean
reciprocal rank: of each question 1 over the place of the first right answer, 0 behind the 100th. Plain BM25 is
Elasticsearch's own `multi_match` over all fields of words, unweighted, with the same words and filters.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.loading import index_states
from metajournal.domains.catalog.urns import dataset
from metajournal.indexer import terms
from metajournal.indexer.connection import make_client
from metajournal.indexer.search.query import word_fields
from metajournal.indexer.search.searching import Search
from metajournal.rules.documents import state_document
from metajournal.rules.entity import EntityRow
from metajournal.schemas.positions import position
from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, Settings
from metajournal.schemas.urn import Urn
from metajournal.sources.python_environment import python_environment
from metajournal.stack.services import Stack

QUESTIONS: Final = Path(__file__).with_name("questions.json")
LEAST_RATIO: Final = 1.05
LOOKED_AT: Final = 100
State = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """What somebody asks, of which corpus, and the names of the entities that answer it."""

    corpus: str
    text: str
    right: frozenset[str]


def questions(path: Path = QUESTIONS) -> list[Question]:
    """The questions of a file.

    Raises:
        ValueError: one of them is not complete, asks a corpus that there is not, or stands there twice.
    """
    read = [
        Question(entry["corpus"], entry["question"].strip(), frozenset(entry["right"]))
        for entry in json.loads(path.read_text("utf-8"))
    ]
    for question in read:
        if question.corpus not in CORPORA or not question.text or not question.right:
            raise ValueError(f"{question} needs one of {', '.join(CORPORA)}, a text and a right answer")
    if len({(question.corpus, question.text) for question in read}) < len(read):
        raise ValueError(f"{path.name} asks something twice")
    return read


def distributions() -> Iterator[State]:
    """The distributions of this Python environment, as the demo publishes them."""
    for number, event in enumerate(python_environment()):
        yield _state(
            number, Urn.parse(event.entity), event.description or "", dict(event.properties), event.tags, event.schema
        )


def errors() -> Iterator[State]:
    """The errors that Spark names, with their messages, from a jar of the installed package."""
    import pyspark

    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        conditions = json.loads(archive.read("error/error-conditions.json"))
    for number, (name, condition) in enumerate(sorted(conditions.items())):
        if not name.startswith("_"):  # those have no name of their own
            kinds = condition.get("subClass", {}).values()
            lines = [line for part in (condition, *kinds) for line in part["message"]]
            tags = [f"sqlstate-{condition['sqlState']}"] if "sqlState" in condition else []
            yield _state(number, dataset("spark-errors", name), "\n".join(lines), {}, tags, None)


CORPORA: Final[dict[str, Callable[[], Iterator[State]]]] = {"distributions": distributions, "errors": errors}


def _state(
    number: int, urn: Urn, description: str, user: dict[str, str], tags: Sequence[str], schema: object | None
) -> State:
    time_ms = 1_760_000_000_000 + number
    system = {"creation_time": str(time_ms), "description": description}
    if schema is not None:
        system["schema"] = schema if isinstance(schema, str) else json.dumps(schema)
    head = ("bench", str(urn), urn.kind, urn.namespace, urn.name, str(urn.aggregate))
    identity = f"01900000-0000-7000-8000-{number:012x}"
    row = EntityRow(
        *head, position(1, number), 0, time_ms, time_ms, identity, "bench", False, None,
        dict(sorted(user.items())), tuple(sorted(set(tags))), dict(sorted(system.items())), (),
    )  # fmt: skip
    return state_document(row, 0)


def measure(*, say: Callable[[str], None] = lambda _: None) -> list[dict[str, Any]]:
    """Fill an index for each corpus and ask; the mean reciprocal rank as `value`, plain BM25's as `limit`."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder, Stack(Path(folder)) as stack:
        return ask(stack.elasticsearch_url, questions(), say)


def ask(url: str, asked: Sequence[Question], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """The figure over some questions."""
    own, plain = list[float](), list[float]()
    for corpus in dict.fromkeys(question.corpus for question in asked):
        settings = Settings(
            elasticsearch=ElasticsearchSettings(url=url, index=f"bench-{corpus}"),
            journal=JournalSettings(tenant="bench"),
        )
        index_states(settings, CORPORA[corpus]())
        for question in (question for question in asked if question.corpus == corpus):
            own.append(reciprocal_rank(question, own_order(settings, question.text)))
            plain.append(reciprocal_rank(question, plain_order(settings, question.text)))
            say(f"{corpus}: {question.text!r}: {own[-1]:.2f}, plain BM25 {plain[-1]:.2f}")
    value, limit = statistics.mean(own), statistics.mean(plain)
    name = f"mean reciprocal rank of {len(asked)} questions, over plain BM25"
    first = {"first": sum(rank == 1 for rank in own), "plain_first": sum(rank == 1 for rank in plain)}
    return [{"name": name, "value": value, "limit": limit, "ratio": value / limit, "unit": "", **first}]


def reciprocal_rank(question: Question, names: Sequence[str]) -> float:
    """1 over the place of the first right answer among names, best first; 0 where none is there."""
    return next((1 / place for place, name in enumerate(names, 1) if name in question.right), 0.0)


def own_order(settings: Settings, text: str) -> list[str]:
    """The names that a search gives."""
    with Search(settings) as search:
        return [hit.name for hit in search.search(text, limit=LOOKED_AT, paging=False).hits]


def plain_order(settings: Settings, text: str) -> list[str]:
    """The names that `multi_match` gives: any of the words, in the field that they fit best."""
    client = make_client(settings)
    match = {
        "query": " ".join(terms.words(text)),
        "fields": word_fields(("USER", "SYSTEM")),
        "analyzer": "whitespace",
    }
    living = [{"term": {"tenant": "bench"}}, {"term": {"deleted": False}}]
    answer = client.search(
        index=settings.elasticsearch.index,
        query={"bool": {"must": [{"multi_match": match}], "filter": living}},
        sort=["_score", "urn"],
        size=LOOKED_AT,
    ).body
    client.close()
    return [hit["_source"]["entity"]["name"] for hit in answer["hits"]["hits"]]


def main() -> None:
    """Print what a corpus holds, for those who write questions."""
    for state in CORPORA[sys.argv[1]]():
        summary = " ".join(state["system"]["properties"]["description"].split())
        print(f"{state['name']}: {summary[:300]}")


if __name__ == "__main__":
    main()
