"""Follow the changes of datasets in a group: each comes once, also after this program was ended and started again.

    python examples/subscriber.py [GROUP] [LIMIT]

Start it twice with one group and the two share the changes. A change counts as done when the next one is asked for.
Ctrl-C and SIGTERM end it alike: the block is left, so the others of its group go on with its changes at once.
"""

from __future__ import annotations

import sys

from metajournal import Journal

group = sys.argv[1] if len(sys.argv) > 1 else "examples"
limit = int(sys.argv[2]) if len(sys.argv) > 2 else None

with Journal.connect() as journal:
    asked = journal.subscribe("catalog", group=group, since="earliest", kinds=["dataset"], limit=limit, timeout_s=30)
    with asked as changes:  # the end of the block keeps what is done
        for change in changes:
            added, gone = change.record["changes"]["additions"], change.record["changes"]["deletions"]
            tags = [f"+{tag}" for tag in added["tags"]] + [f"-{tag}" for tag in gone["tags"]]
            print(change.id, change.urn, change.scope, *tags, flush=True)
