"""What feeds and revocations take: how soon one process hears of what another one did."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack

from bench.gateway_parts import Bench, Client, Figure, client, expect, key_for, ms, p50, p99, wait_until
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset


def of_feeds(bench: Bench) -> list[Figure]:
    """From a change in its topic, as a subscription in this process has it, to each of many feeds."""
    sizes, server = bench.sizes, bench.servers[0]
    host, _, port = server.address.partition(":")
    request = (
        f"GET /api/v1/changes?namespace=fed HTTP/1.1\r\nHost: {server.address}\r\n"
        f"Authorization: Bearer {bench.key}\r\n\r\n"
    ).encode()
    seen: list[dict[str, float]] = [{} for _ in range(sizes.feeds)]
    published: dict[str, float] = {}
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection((host, int(port)), 120)) for _ in range(sizes.feeds)]
        for one in sockets:
            one.sendall(request)
        readers = [
            threading.Thread(target=_listen, args=(one, found, sizes.changes), daemon=True)
            for one, found in zip(sockets, seen, strict=True)
        ]
        changes = stack.enter_context(bench.journal.subscribe(namespace="fed", limit=sizes.changes, timeout_s=120))
        watch = threading.Thread(
            target=lambda: published.update((change.record["changes"]["additions"]["tags"][0], time.perf_counter())
                                            for change in changes)
        )  # fmt: skip
        for thread in (*readers, watch):
            thread.start()
        wait_until(lambda: all("" in found for found in seen))
        bench.journal.emit(EntityRegistered(dataset("fed", "x")))
        for number in range(sizes.changes):
            bench.journal.emit(TagsAdded(dataset("fed", "x"), [f"f{number}."]))
            time.sleep(0.2)
        for thread in (*readers, watch):
            thread.join(120)
    delays = [
        max(0.0, (found[tag] - at) * 1000) for found in seen for tag, at in published.items()
    ]  # a subscription of this process may be the later one
    name = f"a change published to seen by one of {sizes.feeds} feeds"
    return [ms(f"{name}, p50", p50(delays), 60), ms(f"{name}, p99", p99(delays), 300)]


def _listen(one: socket.socket, seen: dict[str, float], count: int) -> None:
    """Note when each tag came; the empty one when the feed began."""
    buffered = b""
    while len(seen) <= count:
        buffered += one.recv(65_536)
        now = time.perf_counter()
        if b"beat" in buffered:
            seen.setdefault("", now)
        *frames, buffered = buffered.split(b"\n\n")
        for frame in frames:
            _, found, data = frame.partition(b"data: ")
            if found:
                seen.setdefault(json.loads(data)["record"]["changes"]["additions"]["tags"][0], now)


def revocations(bench: Bench) -> list[Figure]:
    """From the answer to a revocation by one process to the first refusal by the other; the stream running and not."""
    figures = []
    for what, halted in (("", False), (", the stream stopped", True)):
        keys = [
            key_for(bench.journal, f"r{number}{halted}".lower(), bench.servers) for number in range(bench.sizes.keys)
        ]
        with ExitStack() as stack:
            if halted:
                stack.enter_context(bench.halted())
            first = stack.enter_context(bench.client(0))
            took = [_refused_after(bench, first, f"r{number}{halted}".lower(), *key) for number, key in enumerate(keys)]
        figures.append(ms(f"revoked to refused by another process{what}, p99", p99(took), 500, p50=p50(took)))
    return figures


def _refused_after(bench: Bench, first: Client, name: str, text: str, key_id: str) -> float:
    with client(bench.servers[1].address, text) as other:
        expect(other.ask("GET", "/api/v1/access/me").status, 200)
        answer = first.ask("DELETE", f"/api/v1/access/principals/{name}/keys/{key_id}")
        expect(answer.status, 200)
        began = time.perf_counter()
        wait_until(lambda: other.ask("GET", "/api/v1/access/me").status == 401)
        return (time.perf_counter() - began) * 1000
