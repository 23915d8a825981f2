"""Commands that read: `show`, `history`; `search` and `suggest` stand in `searching.py`, `tail` in `tailing.py`.

Thin: options become values, the client or the index answers, `views.py` words it.
Invariant: each has `--json`, which prints one JSON value (`tail`, that goes on: one on each line).
"""

from __future__ import annotations
