"""A rebuild's own document in the index that it fills: how far it is, and that somebody is at it.

It is written about once a second, each time only over what was written last. So two rebuilds never work on one index:
a second one sees the document change and is refused, and one that was held up finds that it was overtaken and ends.
Killed, a rebuild leaves the document as it was; whoever finds it unchanged goes on from there.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from elasticsearch import ApiError, Elasticsearch

from ...schemas.errors import OperatorError
from ...schemas.positions import cut_from_json, cut_to_json
from ..connection import is_away
from ..mapping import REBUILD_ID, own_alias

_log = logging.getLogger("metajournal.indexer")
BEAT_S: Final = 1.0
WATCH_S: Final = 6.0
"""How long a document must stand still until its owner counts as gone; one on this machine is asked for at once."""
_POLL_S: Final = 0.25
Token = tuple[int, int]


class RebuildRunningError(OperatorError):
    """Another rebuild of this index is running."""

    CODE = "rebuild-running"
    HINT = "Wait until it has ended. If it was killed, the next rebuild resumes it."


@dataclass(slots=True)
class Begun:
    """How far a rebuild is.

    Args:
        phase: `load` from the lake, `catch-up` with the state topics, `swapped`, or `failed`.
        vector: what the lake held when it began.
        offsets: where the state and outcomes topics ended then.
        after: tenant and URN up to which the lake's entities are indexed.
        done: entities indexed from the lake.
        old: the index that searches used before.
    """

    phase: str = "load"
    vector: dict[tuple[str, int], int] = field(default_factory=dict)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    after: list[str] = field(default_factory=list)
    done: int = 0
    old: str = ""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "vector": cut_to_json(self.vector), "offsets": cut_to_json(self.offsets)}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Begun:
        known = {name: data[name] for name in ("phase", "after", "done", "old")}
        return cls(vector=cut_from_json(data["vector"]), offsets=cut_from_json(data["offsets"]), **known)


def read_begun(client: Elasticsearch, name: str) -> tuple[Begun, dict[str, Any], Token] | None:
    """The rebuild's document of an index, its owner and its token; None where there is none."""
    try:
        document = client.get(index=name, id=REBUILD_ID, realtime=True).body
    except ApiError as error:
        if error.status_code != 404:
            raise
        return None
    record = document["_source"]["positions"]
    return Begun.of(record["begun"]), record["owner"], (document["_seq_no"], document["_primary_term"])


class Lease:
    """The right to rebuild one index, kept by a thread that tells how far the rebuild is.

    Args:
        client: reaches the index.
        name: the concrete index.
        begun: what is told; the owner replaces or changes it, and nobody else.
        token: of the document that is taken over; None makes it.
    Raises:
        RebuildRunningError: somebody else has it.
    """

    def __init__(self, client: Elasticsearch, name: str, begun: Begun, token: Token | None) -> None:
        self._client = client
        self._name = name
        self._owner: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid(), "id": uuid.uuid4().hex}
        self._token = token
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._lost = False
        self.begun = begun
        self.tell()
        self._thread = threading.Thread(target=self._keep, name="metajournal-rebuild", daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """Write down how far the rebuild is, now.

        Raises:
            RebuildRunningError: another rebuild has taken this index over.
        """
        with self._lock:
            self._write()

    def check(self) -> None:
        """Whether the index is still this rebuild's.

        Raises:
            RebuildRunningError: it is not.
        """
        if self._lost:
            raise RebuildRunningError(f"Another rebuild has taken over the index {self._name}.", index=self._name)

    def end(self) -> None:
        """Write no more, but that nobody is at it; the document stays."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._thread.join()
        self._owner["ended"] = True
        try:
            self.tell()
        except Exception as error:  # then the next one has to watch for a while
            _log.debug("The end of the rebuild of %s could not be recorded: %r", self._name, error)

    def remove(self) -> None:
        """End, and take the document away."""
        self.end()
        self._client.options(ignore_status=404).delete(index=self._name, id=REBUILD_ID, refresh=True)

    def _keep(self) -> None:
        while not self._ending.wait(BEAT_S):
            try:
                self.tell()
            except RebuildRunningError:
                return
            except Exception as error:
                if not is_away(error):
                    self._lost = True
                    raise

    def _write(self) -> None:
        body = {"positions": {"begun": self.begun.as_json(), "owner": self._owner}, "deleted": True}
        only: dict[str, Any] = {"op_type": "create"}
        if self._token is not None:
            only = {"if_seq_no": self._token[0], "if_primary_term": self._token[1]}
        try:
            target = own_alias(self._name)
            done = self._client.index(index=target, id=REBUILD_ID, document=body, require_alias=True, **only).body
        except ApiError as error:
            if error.status_code != 409 or not self._is_mine():
                self._lost = self._lost or error.status_code in (404, 409)
                self.check()
                raise
        else:
            self._token = (done["_seq_no"], done["_primary_term"])

    def _is_mine(self) -> bool:
        """After a conflict: whether it is with an own write whose answer was lost."""
        current = read_begun(self._client, self._name)
        if current is None or current[1].get("id") != self._owner["id"]:
            return False
        self._token = current[2]
        return True


def require_idle(client: Elasticsearch, name: str, pause: Callable[[float], None] = time.sleep) -> Token | None:
    """Wait until it is sure that nobody is at an index's rebuild; the token to go on with.

    Raises:
        RebuildRunningError: somebody is.
    """
    begun = read_begun(client, name)
    if begun is None or _is_dead(begun[1]):
        return None if begun is None else begun[2]
    until_s = time.monotonic() + WATCH_S
    while time.monotonic() < until_s:
        pause(_POLL_S)
        again = read_begun(client, name)
        if again is None or again[2] != begun[2]:
            owner = f"process {begun[1].get('pid')} on {begun[1].get('host')}"
            raise RebuildRunningError(f"Another rebuild is filling {name} ({owner}).", index=name)
    return begun[2]


def _is_dead(owner: dict[str, Any]) -> bool:
    """Whether an owner has ended, or ran on this machine and runs no more."""
    if owner.get("ended"):
        return True
    if owner.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(owner["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, KeyError, ValueError):
        return False
    return False
