"""A new index takes the old one's place: it catches up, the old one's indexer stands back, the alias moves in one step.

Invariants: searches never show less than before, and what the old index's indexer wrote while it did not know of the
new one stands in the state topics above the offsets that the new one holds. Where the indexer writes at the same
moment nothing is moved, and the caller tries again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from elasticsearch import ApiError, Elasticsearch

from ...schemas.errors import UnavailableError
from ...schemas.positions import behind
from ..connection import is_away
from ..errors import IndexMissingError, MappingMismatchError
from ..mapping import MAPPING_VERSION, concrete_of, own_alias
from ..shown import hand_over, read_shown
from .lease import Lease
from .patience import Patience
from .runner import HANDOVER_S
from .stages import Stage

_POLL_S: Final = 0.1
_BEHIND_S: Final = 120.0
"""How long the new index may stand still behind the old one until the rebuild gives up; the next one goes on."""
_SWAP_WITHIN_S: Final = HANDOVER_S / 3


class Swap:
    """The new index on its way into the old one's place.

    Args:
        client: to Elasticsearch; outages are waited out with `patience`.
        alias: what searches use.
        name: the new index.
        lease: of the rebuild, which tells how far it is.
        failed: what the new index's indexer failed of, as it comes.
        tell: told how far the swap is.
    """

    def __init__(
        self,
        client: Elasticsearch,
        alias: str,
        name: str,
        lease: Lease,
        patience: Patience,
        failed: list[BaseException],
        tell: Callable[[Stage], None],
    ) -> None:
        self._client = client
        self._alias = alias
        self._name = name
        self._lease = lease
        self._patience = patience
        self._failed = failed
        self._tell = tell

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        return self._patience.call(what, call)

    def catch_up(self, most_s: float = _BEHIND_S) -> bool:
        """Wait until the new index shows what searches see now; whether it came to that.

        Raises:
            UnavailableError: it stands still behind.
        """
        still_s, before = time.monotonic(), -1
        while (lacking := self._lacking()) > 0:
            if self._failed:
                raise self._failed[0]
            self._lease.check()
            self._patience.go_on()
            if lacking != before:
                still_s, before = time.monotonic(), lacking
            self._tell(Stage("catch-up", done=0, total=lacking))
            if time.monotonic() - still_s > most_s:
                if most_s < _BEHIND_S:
                    return False
                raise too_slow(self._name)
            time.sleep(_POLL_S)
        return True

    def _lacking(self) -> int:
        """Positions that searches see and the new index does not show."""

        def ask() -> int:
            shown = read_shown(self._client, self._name)
            return sum(behind(shown.vector, known(self._client, self._alias)).values())

        return int(self._call("read its positions", ask))

    def swap(self) -> bool:
        """Have the old index's indexer stand back, and swap; False where it went on meanwhile."""
        self._tell(Stage("swap"))
        old = self._live()
        if old == self._name:  # an indexer that found no other index took it
            self._lease.begun = replace(self._lease.begun, old="", phase="swapped")
            return True
        self._lease.begun = replace(self._lease.begun, old=old or "")
        self._call("begin the swap", self._lease.tell)
        if old is None:
            return self._pointed(None)
        began_s = time.monotonic()
        if not self._call("begin the swap", lambda: self._marked(old, self._name)):
            return False
        swapped = False
        try:
            if self.catch_up(_SWAP_WITHIN_S / 2) and self._stands(old):
                swapped = time.monotonic() - began_s < _SWAP_WITHIN_S and self._pointed(old)
        finally:
            if not swapped:
                self._call("continue with its index", lambda: self._marked(old, ""))
        return swapped

    def _pointed(self, old: str | None) -> bool:
        """Point the alias to the new index; whether it does (the answer may have been lost)."""
        self._lease.check()
        actions: list[dict[str, Any]] = [{"add": {"index": self._name, "alias": self._alias, "is_write_index": True}}]
        if old is not None:
            actions.insert(0, {"remove": {"index": old, "alias": self._alias, "must_exist": True}})
        try:
            self._client.options(request_timeout=_SWAP_WITHIN_S).indices.update_aliases(actions=actions)
        except Exception as error:
            live = self._live()
            if old is None and live not in (None, self._name):
                return False  # an indexer that found no index has made one meanwhile
            if not is_away(error) or live != self._name:
                raise
        self._lease.begun = replace(self._lease.begun, phase="swapped")
        return True

    def _marked(self, old: str, successor: str) -> bool:
        """Name the index that takes the old one's place in its positions, which its indexer then leaves alone.

        False where the indexer wrote at the same moment.
        """
        try:
            self._client.indices.put_alias(index=old, name=own_alias(old))
            hand_over(self._client, own_alias(old), read_shown(self._client, old), successor)
        except ApiError as error:
            if error.status_code not in (404, 409):
                raise
            return False
        return True

    def _stands(self, old: str) -> bool:
        return bool(self._call("look at its index", lambda: read_shown(self._client, old)).handover == self._name)

    def _live(self) -> str | None:
        live: str | None = self._call("look at its index", lambda: live_index(self._client, self._alias))
        return live


def live_index(client: Elasticsearch, alias: str) -> str | None:
    """The index that searches use; None where there is none.

    Raises:
        MappingMismatchError: it is somebody else's.
        AliasReplacedError: an index has that name.
    """
    try:
        name = concrete_of(client, alias)
    except IndexMissingError:
        return None
    meta = client.indices.get_mapping(index=name).body[name]["mappings"].get("_meta", {})
    if "metajournal" not in meta:
        raise MappingMismatchError(alias, name, None, MAPPING_VERSION)
    return name


def known(client: Elasticsearch, alias: str) -> dict[tuple[str, int], int]:
    """What searches see: the next position per journal partition; nothing where there is no index."""
    try:
        return dict(read_shown(client, alias).vector)
    except IndexMissingError:
        return {}


def too_slow(name: str) -> UnavailableError:
    return UnavailableError(
        f"The new index {name} does not catch up with the index in use.",
        code="rebuild-behind",
        hint="Check that Kafka answers and the stream is running (`metajournal status`), and run the rebuild again: "
        "it resumes.",
        index=name,
    )
