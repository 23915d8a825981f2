"""Every page that opens by its address, in each of its states, with the status that it has then, and a
text that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from metajournal import dataset
from tests.browser.story import GONE, NIGHTLY, ORDERS, hostile_run
from tests.gateway.test_pages_hostile import HOSTILE

IMAGE: Final = HOSTILE[1]
"""A hostile text, of which nothing but text may come in any place."""
_FOREIGN: Final = quote(str(dataset(IMAGE, IMAGE)), safe="")
PLACES: Final[Mapping[str, tuple[str, int, str]]] = {
    "home": ("/", 200, "Newest"),
    "search": ("/search", 200, "By kind"),
    "hits": ("/search?query=orders", 200, "dataset:shop/orders"),
    "hits of hostile texts": (f"/search?{urlencode({'query': 'alert'})}", 200, "alert(1)"),
    "no hits": ("/search?query=absent-word", 200, "Nothing that you may read matches"),
    "keys": ("/keys", 200, "wiki"),
    "keys that begin so": ("/keys?prefix=te", 200, "team"),
    "no keys": ("/keys?prefix=absent", 200, "No entity that you may read has a property"),
    "entity": (f"/entity/{ORDERS}", 200, "All orders of the shop."),
    "entity saved": (f"/entity/{ORDERS}?done=1", 200, "Saved."),
    "hostile entity": (f"/entity?urn={_FOREIGN}", 200, "onerror=alert(1)"),
    "deleted entity": (f"/entity/{GONE}", 410, "was deleted"),
    "unknown entity": ("/entity/dataset:shop/unknown", 404, "There is nothing here"),
    "history": (f"/history/{ORDERS}", 200, "bob"),
    "hostile history": (f"/history?urn={_FOREIGN}", 200, "onerror=alert(1)"),
    "difference": (f"/diff/{ORDERS}", 200, "rows"),
    "lineage": (f"/lineage/{ORDERS}", 200, "program:shop/sums/workflow/nightly"),
    "no lineage": (f"/lineage/{ORDERS}?end=2001-01-01", 200, "No program is known"),
    "runs": ("/lineage/program:shop/sums/workflow/nightly", 200, "r1"),
    "run": (f"/lineage/{NIGHTLY}", 200, "engine"),
    "hostile run": (f"/lineage?urn={quote(str(hostile_run(1)), safe='')}", 200, "onerror=alert(1)"),
    "find an event": ("/event", 200, "Receipts, histories"),
    "event": ("/event?event={accepted}", 200, "accepted"),
    "rejected event": ("/event?event={rejected}", 200, "unknown-entity"),
    "unknown event": ("/event?event=0192d3a0-0000-7000-8000-000000000000", 404, "Not found"),
    "pipeline": ("/pipeline", 200, "Rejected of late"),
    "register": ("/register", 200, "Schema, in Avro's JSON"),
    "files": ("/files", 200, "Ask for a time"),
    "found files": ("/files?where=web01&start=1970-01-01&end=2030-01-01", 200, "file:web01/syslog/f1"),
    "no files": ("/files?where=web01&what=none&latest=1", 200, "No file answers this"),
    "repositories": ("/repositories", 200, "prices"),
    "repository": ("/repositories/prices", 200, "trial"),
    "log": ("/repositories/prices?ref=main", 200, "Log of main"),
    "objects": ("/repositories/prices/objects?ref=main", 200, "raw/"),
    "branches compared": ("/repositories/prices/diff?left=trial&right=main", 200, "raw/1.csv"),
    "access": ("/access", 200, "root"),
    "principal": ("/access/principals/root", 200, "Keys and sessions"),
    "audit": ("/access/audit", 200, "POST /login"),
    "sessions": ("/access/sessions", 200, "root"),
    "bad question": ("/search?sort=nonsense", 400, "sort"),
    "no such page": ("/nowhere", 404, "There is nothing here"),
}
"""Addresses by what they show; a name in braces is one of the story's."""
