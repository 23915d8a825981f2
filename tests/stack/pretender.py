"""Pretends to be the stream or the indexer: says how it goes, ends on SIGTERM (run by test_supervisor.py)."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

name = sys.argv[1]
home = Path(os.environ["METAJOURNAL_HOME"])
asked = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked.set())
if (home / f"{name}.fail").exists():
    sys.exit("it hurts here")
while (home / f"{name}.silent").exists():
    if asked.wait(0.5):
        sys.exit(0)
while True:
    report: dict[str, object] = {"written_ms": int(time.time() * 1000), "state": "running", "freshness_s": 0.25}
    report |= {"marks": {"t": {"0": 7}}} if name == "stream" else {"shows": {"t/0": 7}}
    (home / f"{name}.json.new").write_text(json.dumps(report))
    (home / f"{name}.json.new").replace(home / f"{name}.json")
    if asked.wait(0.5):
        (home / "order").open("a").write(f"{name}\n")
        sys.exit(0)
