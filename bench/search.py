"""Searches and completions over 100,000 entities, as a program with one handle asks them, each once.

The queries are drawn from the entities themselves, in every form of the grammar, with filters, facets and orders as
people mix them; each takes the first page of 20 with its cursor, which is what `journal.search(query)` does. Beside the
figure stand the forms that are slowest and what the floor is: one document asked for by its id.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, Final

from bench.entities import states
from metajournal.indexer.connection import make_client
from metajournal.indexer.fill.bulk import BulkWriter
from metajournal.indexer.fill.flights import Flights
from metajournal.indexer.fill.patience import Patience
from metajournal.indexer.mapping import ensure_index
from metajournal.indexer.search.searching import Search
from metajournal.indexer.shown import read_shown, write_shown
from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, Settings
from metajournal.stack.services import Stack

ENTITIES: Final = 100_000
PROBES: Final = 1_500
SEARCH_MS: Final = 50
SUGGEST_MS: Final = 30
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
            return ask(catalog, settings, sample, probes, say)


def fill(settings: Settings, entities: int) -> list[dict[str, Any]]:
    """Index the entities; some of them, to ask for."""
    client = make_client(settings, timeout_s=120)
    ensure_index(client, _INDEX)
    flights = Flights(BulkWriter(client, _INDEX, Patience(Event(), lambda _: None), 1000, 8 * 1024 * 1024))
    sample, batch = [], []
    for number, state in enumerate(states(entities)):
        batch.append(state)
        if number % _SAMPLE == 0:
            sample.append(state)
        if len(batch) == 1000:
            flights.send(batch)
            batch = []
    flights.send(batch)
    flights.land()
    flights.close()
    client.indices.refresh(index=_INDEX)
    write_shown(client, _INDEX, {("bench", 0): 1}, {}, read_shown(client, _INDEX))
    client.close()
    return sample


def ask(
    catalog: Search, settings: Settings, sample: list[dict[str, Any]], probes: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Ask every question once, after as many others that only warm up."""
    choose = random.Random(11)
    for form, text, options in (question(choose, sample) for _ in range(probes // 3)):
        _time_ms(catalog, form, text, options)
    took: dict[str, list[float]] = defaultdict(list)
    for form, text, options in [question(choose, sample) for _ in range(probes)]:
        took[form].append(_time_ms(catalog, form, text, options))
    searches = [time_ms for form, times in took.items() if not form.startswith("complete") for time_ms in times]
    completions = [time_ms for form, times in took.items() if form.startswith("complete") for time_ms in times]
    forms = {form: [round(statistics.median(times), 1), round(max(times), 1)] for form, times in sorted(took.items())}
    for form, (median, most) in forms.items():
        say(f"{form}: {len(took[form])} asked, median {median} ms, slowest {most} ms")
    floor = _floor(settings)
    say(f"one document by its id: median {floor:.1f} ms")
    return [
        _figure("search", searches, SEARCH_MS, {"forms": forms, "floor_p50": floor}),
        _figure("completion", completions, SUGGEST_MS, {"floor_p50": floor}),
    ]


def _figure(what: str, times: list[float], limit: int, more: dict[str, Any]) -> dict[str, Any]:
    cuts = statistics.quantiles(times, n=100)
    name = f"{what} among {ENTITIES:,} entities, p95"
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
