"""Searches and completions over 100,000 entities, as a program with one handle asks them, each once.

The queries are drawn from the entities themselves, in every form of the grammar, with filters, facets and orders as
people mix them; each takes the first page of 20 with its cursor and the reasons for each hit, which is what
`journal.search(query)` does. Beside the figure stand the forms that are slowest and what the floor is: one document
asked for by its id. The same over real texts: what the demo publishes, many times over, and texts of 300,000 characters
among them. A page's processor time is that of the thread that asks.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.entities import state, states
from bench.hostile import HOSTILE
from bench.loading import index_states
from bench.ranking import distributions
from metajournal.indexer.connection import make_client
from metajournal.indexer.errors import InvalidQueryError
from metajournal.indexer.search.searching import Search
from metajournal.indexer.shown import read_shown
from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, Settings
from metajournal.stack.services import Stack

ENTITIES: Final = 100_000
PROBES: Final = 1_500
SEARCH_MS: Final = 50
SUGGEST_MS: Final = 30
TEXTS_MS: Final = 80
HOSTILE_MS: Final = 80
CLIENT_MS: Final = 20
COPIES: Final = 20
LONG_TEXTS: Final = 60
LONG_CHARACTERS: Final = 300_000
_INDEX: Final = "bench-search"
_SAMPLE: Final = 997

Question = tuple[str, str, dict[str, Any]]
"""Its form, its text, its options."""


def measure(
    *, entities: int = ENTITIES, probes: int = PROBES, say: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Fill an index and ask; gives the p95 of searches and of completions in milliseconds, with their limits."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder, Stack(Path(folder)) as stack:
        search = ElasticsearchSettings(url=stack.elasticsearch_url, index=_INDEX)
        settings = Settings(elasticsearch=search, journal=JournalSettings(tenant="bench"))
        say(f"filling an index with {entities:,} entities")
        sample = fill(settings, entities)
        with Search(settings) as catalog:
            figures = [*ask(catalog, settings, sample, probes, say), ask_hostile(catalog, say)]
        say("filling an index with the demo's distributions and long texts")
        texts = replace(settings, elasticsearch=replace(search, index=f"{_INDEX}-texts"))
        sample = fill_texts(texts)
        with Search(texts) as catalog:
            return figures + ask_texts(catalog, sample, probes, say)


def fill(settings: Settings, entities: int) -> list[dict[str, Any]]:
    """Index the entities; some of them, to ask for."""
    index_states(settings, states(entities))
    return [state(number) for number in range(0, entities, _SAMPLE)]


def ask(
    catalog: Search, settings: Settings, sample: list[dict[str, Any]], probes: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Ask every question once, after as many others that only warm up."""
    choose = random.Random(11)
    for form, text, options in (question(choose, sample) for _ in range(probes // 3)):
        _time_ms(catalog, form, text, options)
    took: dict[str, list[float]] = defaultdict(list)
    client = []
    for form, text, options in [question(choose, sample) for _ in range(probes)]:
        began = time.thread_time()
        took[form].append(_time_ms(catalog, form, text, options))
        if not form.startswith("complete"):
            client.append((time.thread_time() - began) * 1000)
    searches = [time_ms for form, times in took.items() if not form.startswith("complete") for time_ms in times]
    completions = [time_ms for form, times in took.items() if form.startswith("complete") for time_ms in times]
    forms = {form: [round(statistics.median(times), 1), round(max(times), 1)] for form, times in sorted(took.items())}
    for form, (median, most) in forms.items():
        say(f"{form}: {len(took[form])} asked, median {median} ms, slowest {most} ms")
    floor = _floor(settings)
    say(f"one document by its id: median {floor:.1f} ms")
    among = f"among {ENTITIES:,} entities"
    return [
        _figure(f"search {among}", searches, SEARCH_MS, {"forms": forms, "floor_p50": floor}),
        _figure(f"processor time of the client a page {among}", client, CLIENT_MS, {}),
        _figure(f"completion {among}", completions, SUGGEST_MS, {"floor_p50": floor}),
    ]


def ask_hostile(catalog: Search, say: Callable[[str], None]) -> dict[str, Any]:
    """Ask what nobody types by intention, each text three times."""
    times = list[float]()
    for text in HOSTILE * 3:
        try:
            times.append(_time_ms(catalog, "hostile", text, {}))
        except InvalidQueryError:  # too long, as the limits say
            continue
        if times[-1] > HOSTILE_MS:
            say(f"{ascii(text)[:40]}: {times[-1]:.0f} ms")
    return _figure(f"search of hostile texts among {ENTITIES:,} entities", times, HOSTILE_MS, {})


def fill_texts(settings: Settings) -> list[dict[str, Any]]:
    """Index real texts; those of the distributions, to ask for."""
    own = list(distributions())
    words = " ".join(state["system"]["properties"]["description"] for state in own).split()
    long = [_long(number, own[number % len(own)], words) for number in range(LONG_TEXTS)]
    index_states(settings, [_named(state, number) for number in range(COPIES) for state in own] + long)
    return own


def _long(number: int, state: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """An entity with a text of the words of all others, every second one with a letter that is not ASCII."""
    choose = random.Random(number)
    text = " ".join(choose.choices(words, k=LONG_CHARACTERS // 5))[:LONG_CHARACTERS]
    accent = " café" if number % 2 else ""
    properties = {**state["system"]["properties"], "description": f"{text}{accent} longest"}
    return _named({**state, "system": {**state["system"], "properties": properties}}, COPIES + number)


def _named(state: dict[str, Any], number: int) -> dict[str, Any]:
    if not number:
        return state
    return {**state, "urn": f"{state['urn']}-{number}", "name": f"{state['name']}-{number}"}


def ask_texts(
    catalog: Search, sample: list[dict[str, Any]], probes: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Ask for one to four words of a text, or of a summary, as people do."""
    choose = random.Random(13)
    times, client = list[float](), list[float]()
    for number in range(probes // 3):
        state = choose.choice(sample)
        texts = [state["system"]["properties"]["description"], state["user"]["properties"].get("summary", "")]
        words = choose.choice([text for text in texts if text.split()] or [state["name"]]).split()
        begin = choose.randrange(len(words))
        text = " ".join(words[begin : begin + choose.randint(1, 4)]) if number % 20 else "longest"
        if len(text) > 200:
            continue
        began = time.thread_time()
        took = _time_ms(catalog, "words", text, {})
        if number >= probes // 15:  # the first ones warm up
            client.append((time.thread_time() - began) * 1000)
            times.append(took)
    among = f"in {len(sample) * COPIES + LONG_TEXTS:,} real texts"
    say(f"slowest {max(times):.0f} ms, of the client {max(client):.0f} ms")
    return [
        _figure(f"search {among}", times, TEXTS_MS, {}),
        _figure(f"processor time of the client a page {among}", client, CLIENT_MS, {}),
    ]


def _figure(what: str, times: list[float], limit: int, more: dict[str, Any]) -> dict[str, Any]:
    cuts = statistics.quantiles(times, n=100)
    name = f"{what}, p95"
    figure = {"name": name, "value": cuts[94], "limit": limit, "ratio": cuts[94] / limit, "unit": "ms"}
    return {**figure, "p50": cuts[49], "p99": cuts[98], "probes": len(times), **more}


def _time_ms(catalog: Search, form: str, text: str, options: dict[str, Any]) -> float:
    began = time.perf_counter()
    if form == "complete a name":
        catalog.suggest_names(text)
    elif form == "complete a key":
        catalog.suggest_keys(text)
    else:
        results = catalog.search(text, **options)
        if form == "exact name" and not results.hits:
            raise RuntimeError(f"{text!r} was not found")
    return (time.perf_counter() - began) * 1000


def question(choose: random.Random, sample: list[dict[str, Any]]) -> Question:
    """One question about an entity that is there."""
    state = choose.choice(sample)
    key, value = choose.choice([*state["user"]["properties"].items()] or [("owner", "nobody")])
    words = [word for word in value.replace("/", " ").split() if word.isalnum()] or ["python"]
    word, other = choose.choice(words), choose.choice(state["name"].replace("_", " ").replace("/", " ").split())
    tag = choose.choice([*state["user"]["tags"]] or ["python"])
    options = choose.choice(_OPTIONS)
    return choose.choice(
        [
            ("exact name", f'"{state["name"]}"', {}),
            ("a word", word, options),
            ("two words", f"{word} {other}", options),
            ("both words", f"{word} AND {other}", options),
            ("a word with a typing error", _with_an_error(choose, word), options),
            ("beginning of a word", f"{word[: choose.randint(1, 4)]}*", options),
            ("beginning of a name", f"{other[: choose.randint(2, 5)]}*", options),
            ("key:value", f'{key}:"{value}"', options),
            ("key:value*", f"{key}:{word[:2]}*", options),
            ("key*:value*", f"{key[:3]}*:{word[:3]}*", options),
            ("key:*", f"{key}:*", options),
            ("a tag", f"tags:{tag}", options),
            ("schema:field*:type", f"schema:{word[:3]}*:string", options),
            ("everything", "*", options),
            ("complete a name", other[: choose.randint(0, 4)], {}),
            ("complete a key", key[: choose.randint(0, 3)], {}),
        ]
    )


def _with_an_error(choose: random.Random, word: str) -> str:
    at = choose.randrange(len(word))
    return word[:at] + choose.choice("aeiou") + word[at + 1 :]


_OPTIONS: Final[list[dict[str, Any]]] = [
    {},
    {},
    {"kinds": ["dataset"]},
    {"scope": "USER"},
    {"facets": True},
    {"sort": "name"},
    {"sort": "creation_time"},
]


def _floor(settings: Settings) -> float:
    client = make_client(settings)
    times = []
    for _ in range(100):
        began = time.perf_counter()
        read_shown(client, _INDEX)
        times.append((time.perf_counter() - began) * 1000)
    client.close()
    return statistics.median(times)
