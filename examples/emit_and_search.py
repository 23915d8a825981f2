"""Emit an entity and a tag, see what the rules say, and find both at once.

python examples/emit_and_search.py [NAME]
"""

from __future__ import annotations

import sys

from metajournal import EntityRegistered, Journal, TagsAdded, dataset

name = sys.argv[1] if len(sys.argv) > 1 else "shipments"

with Journal.connect(journal={"actor": "examples"}) as journal:
    shipments = dataset("examples", name)
    journal.emit(EntityRegistered(shipments, description="What was sent out", properties={"owner": "bob"}))
    receipt = journal.emit(TagsAdded(shipments, tags=["daily"]))
    print(f"{receipt.position}: {receipt.outcome(timeout_s=60)}")

    # The index follows the journal; at_least waits until it shows this very event.
    found = journal.search(f"{name} owner:bob", kinds=["dataset"], at_least=receipt.position, timeout_s=60)
    for hit in found.hits:
        print(hit.urn, *hit.highlights)

    print(journal.show(shipments).user_tags)
