"""The index held against the lake: every document, one by one, by the digest of what it keeps.

Both go on while they are compared. A document may be newer than the lake's row (the lake's next batch is not committed
yet), and a row newer than what the index says that it shows may not be indexed yet: both are counted apart and are no
difference. Everything else is. Where the index is behind the lake, the comparison says by how much: of what the index
does not show yet nothing is known, so an equal comparison alone does not mean that both hold the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from elasticsearch import Elasticsearch

from ...schemas.hashing import canonical_json, digest
from ...schemas.positions import Cut, behind
from ...schemas.settings import Settings
from ..connection import make_client
from ..documents import document_id, reduced_document
from ..mapping import KEPT_IDS
from ..shown import read_shown
from ..waiting import Deadline
from .lake_states import Key, LakeStates
from .serving import domains_of

MOST_LISTED: Final = 1_000
_AT_ONCE: Final = 250
_POLL_S: Final = 0.1

Fault = Literal["missing", "older", "differs", "unknown"]


class Difference(NamedTuple):
    """One document that is not what the lake says.

    Args:
        fault: `missing` from the index, `older` than the lake's row, `differs` at the same version, or `unknown` to the
            lake.
        lake: the row's logical_timestamp, None where there is none.
        held: the document's version, None where there is none.
    """

    tenant: str
    urn: str
    fault: Fault
    lake: int | None
    held: int | None


@dataclass(slots=True)
class Comparison:
    """What came of it.

    Args:
        compared: entities of the lake that were looked up.
        ahead: documents and rows that the other side does not hold yet.
        reduced: documents that Elasticsearch took only in their reduced form; compared as such.
        count: number of differences.
        differences: the first `MOST_LISTED` of them.
        behind: positions of the lake that the index did not show when the comparison began, by (topic, partition).
    """

    compared: int = 0
    ahead: int = 0
    reduced: int = 0
    count: int = 0
    differences: list[Difference] = field(default_factory=list)
    behind: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def add(self, key: Key, fault: Fault, lake: int | None, version: int | None) -> None:
        """Take a difference down."""
        self.count += 1
        if len(self.differences) < MOST_LISTED:
            self.differences.append(Difference(key.tenant, key.urn, fault, lake, version))


def compare_index(
    settings: Settings,
    *,
    index: str | None = None,
    timeout_s: float = 60.0,
    wait_s: float = 0.0,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Compare an index with the lake.

    Args:
        index: name of an index or alias; the one that searches use where None.
        timeout_s: seconds that Elasticsearch may take for one answer, outages included.
        wait_s: seconds that an indexer may take to show what the lake holds now, before it is called behind.
        tell: told how many entities are compared, of about how many.

    Raises:
        IndexMissingError, SearchUnavailableError: as a search.
        UnavailableError: there is no lake.
    """
    name = index or settings.elasticsearch.index
    client = make_client(settings, timeout_s=timeout_s)

    def ask(question: Callable[[Elasticsearch], Any]) -> Any:
        return Deadline(client, settings.elasticsearch.url, timeout_s).ask(question)

    try:
        return _Compared(settings, name, ask, wait_s).run(tell)
    finally:
        client.close()


class _Compared:
    def __init__(
        self, settings: Settings, name: str, ask: Callable[[Callable[[Elasticsearch], Any]], Any], wait_s: float
    ) -> None:
        self._name = name
        self._ask = ask
        self._topics = settings.journal.topics
        self._lake = LakeStates(settings, domains=domains_of(settings))
        self._marks = self._lake.marks(self._shown())
        self._vector = self._caught_up(wait_s)
        self._result = Comparison(behind=behind(self._vector, self._marks))
        self._met = 0

    def _shown(self) -> Cut:
        vector: Cut = self._ask(lambda client: read_shown(client, self._name)).vector
        return vector

    def _caught_up(self, wait_s: float) -> Cut:
        """What the index shows, once that is what the lake held at the beginning, or the time is over."""
        end = time.monotonic() + wait_s
        while behind(vector := self._shown(), self._marks) and time.monotonic() < end:
            time.sleep(_POLL_S)
        return vector

    def run(self, tell: Callable[[int, int], None]) -> Comparison:
        total = self._lake.about()
        for _, page in self._lake.pages():
            for start in range(0, len(page), _AT_ONCE):
                self._documents(page[start : start + _AT_ONCE])
            tell(self._result.compared, max(total, self._result.compared))
        self._ask(lambda client: client.indices.refresh(index=self._name))
        if self._document_count() > self._met:
            for hits in self._everything():
                self._strangers(hits)
        return self._result

    def _documents(self, states: list[dict[str, Any]]) -> None:
        ids = [document_id(state["tenant"], state["urn"]) for state in states]
        answer = self._ask(lambda client: client.mget(index=self._name, ids=ids, source=["entity"])).body
        for state, document in zip(states, answer["docs"], strict=True):
            self._result.compared += 1
            self._document(state, document)

    def _document(self, state: Mapping[str, Any], document: Mapping[str, Any]) -> None:
        key, lake = Key(state["tenant"], state["urn"]), state["logical_timestamp"]
        if not document.get("found"):
            self._behind(state, key, "missing", None)
            return
        self._met += 1
        entity, version = document["_source"].get("entity") or {}, document["_version"]
        if version < lake:
            self._behind(state, key, "older", version)
        elif version > lake:
            if self._is_new(entity):
                self._result.ahead += 1
            else:
                self._result.add(key, "differs", lake, version)
        else:
            self._same_version(state, key, entity)

    def _same_version(self, state: Mapping[str, Any], key: Key, entity: Mapping[str, Any]) -> None:
        wanted: Mapping[str, Any] = state
        if "unindexed" in entity:
            self._result.reduced += 1
            wanted = reduced_document(state, str(entity["unindexed"]))["entity"]
        if _digest(entity) != _digest(wanted):
            self._result.add(key, "differs", state["logical_timestamp"], state["logical_timestamp"])

    def _behind(self, state: Mapping[str, Any], key: Key, fault: Fault, version: int | None) -> None:
        """The index lacks a row: a difference where it says that it shows it."""
        if state["logical_timestamp"] >= self._vector.get(self._journal(state), 0):
            self._result.ahead += 1
        else:
            self._result.add(key, fault, state["logical_timestamp"], version)

    def _is_new(self, entity: Mapping[str, Any]) -> bool:
        """Whether a document comes from a batch that the lake had not finished when the comparison began."""
        try:
            return bool(entity["logical_timestamp"] >= self._marks.get(self._journal(entity), 0))
        except (KeyError, TypeError):
            return False

    def _journal(self, state: Mapping[str, Any]) -> tuple[str, int]:
        return self._topics.journal(state["domain"]), state["partition"]

    # --- documents that the lake knows nothing of

    def _document_count(self) -> int:
        query = {"bool": {"must_not": [{"ids": {"values": sorted(KEPT_IDS)}}]}}
        return int(self._ask(lambda client: client.count(index=self._name, query=query)).body["count"])

    def _everything(self) -> Iterator[list[tuple[Key, Mapping[str, Any]]]]:
        after: list[Any] = []
        query = {"bool": {"must_not": [{"ids": {"values": sorted(KEPT_IDS)}}]}}
        while True:
            more: dict[str, Any] = {"search_after": after} if after else {}
            request = {"index": self._name, "query": query, "size": _AT_ONCE, "source": ["entity"], **more}
            hits = self._ask(partial(_searched, request)).body["hits"]["hits"]
            if not hits:
                return
            after = hits[-1]["sort"]
            yield [(Key(str(hit["sort"][0]), str(hit["sort"][1])), hit) for hit in hits]

    def _strangers(self, hits: Sequence[tuple[Key, Mapping[str, Any]]]) -> None:
        """What is no entity of the lake, or a second document of one, which a search would find twice."""
        known = self._lake.having([key for key, _ in hits])
        for key, hit in hits:
            if key in known and hit["_id"] != document_id(*key):
                self._result.add(key, "unknown", None, hit["_version"])
            elif key not in known:
                if self._is_new(hit["_source"].get("entity") or {}):
                    self._result.ahead += 1
                else:
                    self._result.add(key, "unknown", None, hit["_version"])


def _searched(request: Mapping[str, Any], client: Elasticsearch) -> Any:
    return client.search(**request, sort=[{"tenant": "asc"}, {"urn": "asc"}], version=True)


def _digest(document: Mapping[str, Any]) -> bytes:
    return digest(canonical_json(document))
