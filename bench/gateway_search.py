"""What a search costs over HTTP, and with a hundred patterns of what may be read, beside the same search in-process.

The index is that of `bench.search`: 100,000 entities as a catalog has them, and its questions. A process of its own
serves it. Each question is asked three times in turns: in-process, over HTTP by one who may read everything, and over
HTTP by one whose hundred patterns take in the same entities, which the index has to look at one by one.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from statistics import quantiles
from typing import Any, Final
from urllib.parse import urlencode

from bench.gateway_parts import Bench, Client, Figure, client, expect, key_for, ms, p50
from bench.search import fill, question
from bench.serving import servers
from metajournal.client import Journal
from metajournal.indexer.search.searching import Search
from metajournal.schemas.urn import Urn

PATTERNS: Final = 100
_TENANT: Final = "bench"
"""Whose the entities of `bench.entities` are."""
_LIMIT: Final = 20


def searches(bench: Bench) -> list[Figure]:
    """The p95 of searches over HTTP, with its limits."""
    settings = bench.journal.settings
    own = replace(
        settings, elasticsearch=replace(settings.elasticsearch, index="bench-gateway-search"),
        journal=replace(settings.journal, tenant=_TENANT),
    )  # fmt: skip
    sample = fill(own, bench.sizes.entities)
    with Journal.connect(own) as journal, servers(own, 1) as served, Search(own) as catalog:
        everything, _ = key_for(journal, "searches", served)
        some, _ = key_for(journal, "searches-within", served, *_patterns(sample))
        with client(served[0].address, everything) as one, client(served[0].address, some) as other:
            return _asked(catalog, one, other, sample, bench.sizes.probes)


def _patterns(sample: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """A hundred patterns that take in every entity."""
    kinds = ["dataset:*", "stream:*", "program:*", "app:*"]
    spaces = dict.fromkeys(f"*:{urn.path.split('/')[0]}/*" for state in sample if (urn := Urn.parse(state["urn"])))
    more = [f"*:team-{number}/*" for number in range(PATTERNS)]
    return [("analyst", pattern) for pattern in [*kinds, *spaces, *more][:PATTERNS]]


def _asked(catalog: Search, one: Client, other: Client, sample: list[dict[str, Any]], probes: int) -> list[Figure]:
    choose = random.Random(11)
    asked = [found for found in (question(choose, sample) for _ in range(probes * 3)) if not _completes(found[0])]
    inside, over, within = list[float](), list[float](), list[float]()
    for number, (_, text, options) in enumerate(asked):
        began = time.perf_counter()
        results = catalog.search(text, limit=_LIMIT, **options)
        took_ms = (time.perf_counter() - began) * 1000
        answers = [who.ask("GET", f"/api/v1/search?{_query(text, options)}") for who in (one, other)]
        found = [json.loads(answer.body) for answer in answers]
        expect([answer.status for answer in answers], [200, 200])
        expect([len(page["hits"]) for page in found], [len(results.hits)] * 2)
        if number >= len(asked) // 4:  # the first ones warm up
            inside.append(took_ms)
            over.append(answers[0].took_ms)
            within.append(answers[1].took_ms)
    means = {"in_process_p50": p50(inside), "p50": p50(over), "p50_within": p50(within), "probes": len(inside)}
    return [
        ms("search, p95, over in-process + 10 ms", _p95(over), _p95(inside) + 10, in_process_p95=_p95(inside), **means),
        ms(f"search with {PATTERNS} patterns, p95, over 1.25 times without", _p95(within), 1.25 * _p95(over)),
    ]


def _completes(form: str) -> bool:
    return form.startswith("complete")


def _query(text: str, options: dict[str, Any]) -> str:
    named = {"kind" if name == "kinds" else name: value for name, value in options.items()}
    plain = {name: ",".join(value) if isinstance(value, list) else value for name, value in named.items()}
    told = {name: "true" if value is True else value for name, value in plain.items()}
    return urlencode({"query": text, "limit": _LIMIT, **told})


def _p95(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[94]
