"""What HTTP costs: writes, verdicts that another process shows, many that wait, reads, feeds, and a revocation.

`metajournal up`, two processes that serve, clients over kept connections in this one. Each figure stands beside its
limit in the same run, in turns with it where that is measured too. Where the stream is to be stopped, its processes get
SIGSTOP; what they missed they make up for.
"""

from __future__ import annotations

import json
import os
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.gateway_feeds import of_feeds, revocations
from bench.gateway_pages import of_pages
from bench.gateway_parts import (
    SMALL,
    Bench,
    Client,
    Figure,
    Sizes,
    at_once,
    expect,
    ms,
    p50,
    p99,
)
from bench.gateway_search import searches
from bench.serving import servers
from metajournal.client import Journal
from metajournal.config import load
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.receipts import Receipt
from metajournal.schemas.settings import Settings
from metajournal.stack.home import SETTINGS_FILE
from metajournal.stack.supervisor import down, up

Say = Callable[[str], None]
Measure = Callable[[Bench], list[Figure]]
_TAGS: Final = "/v3/namespaces/bench/datasets/{}/metadata/tags"
_LINES: Final = 1_000
"""Events of one request."""


def run(*, say: Say = lambda _: None) -> list[Figure]:
    """Measure; figures with their limits. `METAJOURNAL_BENCH=small` only shows that each runs."""
    return _measured(_sizes(Sizes()), _ALL, say)


def among_a_million(*, say: Say = lambda _: None) -> list[Figure]:
    """One entity of 1,000,000, which takes ten minutes to make."""
    return _measured(_sizes(Sizes(entities=1_000_000)), (("one entity", _reads),), say)


def _sizes(full: Sizes) -> Sizes:
    return SMALL if os.environ.get("METAJOURNAL_BENCH") == "small" else full


def _measured(sizes: Sizes, parts: Sequence[tuple[str, Measure]], say: Say) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        home = Path(folder)
        up(home, Settings())
        try:
            settings = load(str(home / SETTINGS_FILE)).settings
            with Journal.connect(settings) as journal, servers(settings, 2) as served:
                bench = Bench(home, journal, served, sizes)
                say(f"registering {sizes.entities:,} entities")
                _register(bench)
                figures: list[Figure] = []
                for title, measure in parts:
                    say(title)
                    figures += measure(bench)
                return figures
        finally:
            down(home)


def _register(bench: Bench) -> None:
    receipts: list[Receipt] = []
    for number in range(bench.sizes.entities):
        receipts.append(bench.journal.emit(EntityRegistered(dataset("bench", f"d{number}")), block_s=60))
    bench.journal.flush()
    _folded(bench, receipts)


def _folded(bench: Bench, receipts: Sequence[Receipt]) -> None:
    """Wait until lake and index hold some events: what is measured next has the machine to itself."""
    ends = {receipt.position.partition: receipt.position for receipt in receipts}
    bench.journal.wait(list(ends.values()), timeout_s=1_800)
    bench.journal.search(limit=1, at_least=list(ends.values()), timeout_s=1_800)


def _acknowledged(bench: Bench) -> list[Figure]:
    """POST with 202 and `emit` until acknowledged, in turns."""
    over, inside = [], []
    with bench.client() as one:
        for number in range(bench.sizes.probes):
            answer = one.ask("POST", _TAGS.format("d0"), [f"a{number}"], Prefer="respond-async")
            expect(answer.status, 202)
            over.append(answer.took_ms)
            began = time.perf_counter()
            bench.journal.emit(TagsAdded(dataset("bench", "d1"), [f"a{number}"])).position  # noqa: B018
            inside.append((time.perf_counter() - began) * 1000)
    return [ms("POST tags, 202, p50, over emit's + 2 ms", p50(over), p50(inside) + 2, emit_p50=p50(inside))]


def _load(bench: Bench) -> list[Figure]:
    """The same at a steady rate over several connections."""
    sizes, took, lock = bench.sizes, list[float](), threading.Lock()
    began = time.monotonic() + 0.5

    def send(number: int) -> None:
        with bench.client() as one:
            for turn in range(number, sizes.rate * sizes.seconds, sizes.connections):
                time.sleep(max(0.0, began + turn / sizes.rate - time.monotonic()))
                answer = one.ask("POST", _TAGS.format(f"d{turn % 97}"), [f"l{turn}"], Prefer="respond-async")
                expect(answer.status, 202)
                with lock:
                    took.append(answer.took_ms)

    at_once(sizes.connections, send)
    what = f"POST tags, 202, {sizes.rate}/s over {sizes.connections} connections"
    expect(len(took), sizes.rate * sizes.seconds)
    return [ms(f"{what}, p50", p50(took), 8), ms(f"{what}, p99", p99(took), 40)]


def _verdicts(bench: Bench) -> list[Figure]:
    """POST until the verdict, then GET through the other process, which must show it; the stream running and not."""
    figures = []
    for what, halted in (("", False), (", the stream stopped", True)):
        with ExitStack() as stack:
            if halted:
                stack.enter_context(bench.halted())
            first, second = (stack.enter_context(bench.client(number)) for number in range(2))
            took = [_written_and_read(first, second, f"v{number}{halted}") for number in range(bench.sizes.probes)]
        name = f"POST tags, 200, then GET through another process{what}"
        figures += [ms(f"{name}, p50", p50(took), 40), ms(f"{name}, p99", p99(took), 150)]
    return figures


def _written_and_read(first: Client, second: Client, tag: str) -> float:
    written = first.ask("POST", _TAGS.format("d2"), [tag])
    expect(written.status, 200)
    read = second.ask("GET", _TAGS.format("d2"))
    if tag not in json.loads(read.body):
        raise AssertionError(f"{tag} was answered with 200 and is not there")
    return written.took_ms + read.took_ms


def _waiting(bench: Bench) -> list[Figure]:
    """Requests for the verdict that all wait at once, the stream stopped: what the process needs for them."""
    server, sizes = bench.servers[0], bench.sizes
    before_mib, before_threads = server.pss_mib(), server.threads()
    most_threads, most_mib = 0, 0.0
    body = b'["w"]'
    requests = [
        f"POST {_TAGS.format(f'd{number % sizes.entities}')} HTTP/1.1\r\nHost: {server.address}\r\n"
        f"Authorization: Bearer {bench.key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
        for number in range(sizes.waiting)
    ]
    host, _, port = server.address.partition(":")
    with ExitStack() as stack:
        stack.enter_context(bench.halted())
        sockets = [stack.enter_context(socket.create_connection((host, int(port)), 120)) for _ in requests]
        for one, request in zip(sockets, requests, strict=True):
            one.sendall(request)
        for one in sockets:
            most_threads, most_mib = max(most_threads, server.threads()), max(most_mib, server.pss_mib())
            expect(int(one.recv(65_536).split()[1]), 200)
    name = f"{sizes.waiting:,} verdicts waited for at once"
    return [
        {"name": f"{name}: threads", "value": most_threads, "limit": 40, "ratio": most_threads / 40, "unit": "threads",
         "before": before_threads, "most": 1.0},
        {"name": f"{name}: memory more", "value": most_mib - before_mib, "limit": 60,
         "ratio": (most_mib - before_mib) / 60, "unit": "MiB", "most": 1.0},
    ]  # fmt: skip


def _memory(bench: Bench) -> list[Figure]:
    """What a process has in memory after all that."""
    most = max(server.pss_mib() for server in bench.servers)
    return [{"name": "memory of a process after all of this", "value": most, "limit": 300, "ratio": most / 300,
             "unit": "MiB", "most": 1.0}]  # fmt: skip


def _reads(bench: Bench) -> list[Figure]:
    """GET properties of one entity and in-process `metadata` with a fresh handle, in turns."""
    choose, over, inside = random.Random(7), [], []
    with bench.client() as one:
        for _ in range(bench.sizes.probes):
            number = choose.randrange(3, bench.sizes.entities)
            answer = one.ask("GET", f"/v3/namespaces/bench/datasets/d{number}/metadata/properties")
            expect(answer.status, 200)
            over.append(answer.took_ms)
            with Journal.connect(bench.journal.settings) as fresh:
                began = time.perf_counter()
                fresh.metadata(dataset("bench", f"d{number}"), "USER")
                inside.append((time.perf_counter() - began) * 1000)
    name = f"GET properties among {bench.sizes.entities:,}, p50, over 1.1 times in-process"
    return [ms(name, p50(over), 1.1 * p50(inside), in_process_p50=p50(inside))]


def _lines(bench: Bench) -> list[Figure]:
    """Events as lines, and the same ones through `Journal.emit`, in turns; the best of three each."""
    over, inside = [], []
    names = [f"d{number % bench.sizes.entities}" for number in range(bench.sizes.events)]
    for turn in range(3):
        with bench.client() as one:
            began = time.perf_counter()
            for start in range(0, len(names), _LINES):
                events = [
                    {"type": "TagsAdded", "entity": f"dataset:bench/{name}", "tags": [f"h{turn}"]}
                    for name in names[start : start + _LINES]
                ]
                body = "\n".join(map(json.dumps, events)).encode()
                answer = one.ask("POST", "/api/v1/events", body, Content_Type="application/x-ndjson")
                expect(json.loads(answer.body)["ok"], True)
            over.append(len(names) / (time.perf_counter() - began))
        began = time.perf_counter()
        receipts = [bench.journal.emit(TagsAdded(dataset("bench", name), [f"i{turn}"]), block_s=60) for name in names]
        bench.journal.flush()
        inside.append(len(names) / (time.perf_counter() - began))
        _folded(bench, receipts)
    value, limit = max(over), max(inside)
    return [{"name": "events as NDJSON over Journal.emit", "value": value, "limit": limit, "ratio": value / limit,
             "unit": "events/s", "least": 0.25}]  # fmt: skip


_ALL: Final[tuple[tuple[str, Measure], ...]] = (
    ("writes, acknowledged", _acknowledged), ("writes under load", _load), ("verdicts and reads", _verdicts),
    ("many that wait", _waiting), ("one entity", _reads), ("search", searches), ("pages", of_pages),
    ("lines", _lines), ("feeds", of_feeds), ("revocations", revocations), ("memory", _memory),
)  # fmt: skip
