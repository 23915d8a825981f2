"""Tables derived from those of lineage: writes by what was written.

`accesses` stand by run, so to find the latest write to data all accesses of every program that ever touched it are
read. The same rows by data make that one small piece, at every cut and as of every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow.compute as pc

from ...fold.derived import Derived, Earlier, File, Piece, Rows
from .events import WRITE
from .tables import WRITES


def _writes(piece: Piece, _: Earlier) -> Iterator[Rows | File]:
    rows = piece.rows["accesses"]
    yield Rows("writes", rows.filter(pc.equal(rows["access"], WRITE)).select(WRITES.names))


DERIVED: Final = (Derived("writes", ("writes",), {"accesses": (*WRITES.names, "access")}, _writes),)
