"""Documents into the index, none lost and none skipped.

Whole documents under their external version (logical_timestamp): an older or repeated one loses by a conflict, which is
success. What the server cannot take now is sent again, item by item, until it can. A document that it refuses goes in
once more in its reduced form; if that is refused too, IndexerError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from elasticsearch import ApiError, Elasticsearch

from ..documents import document_id, index_document, reduced_document
from ..errors import IndexerError
from ..spelling import written
from .patience import Patience, StartOver

_RETRY: Final = frozenset({429, 503})
_HEADERS: Final = {"accept": "application/json", "content-type": "application/x-ndjson"}


class Item(NamedTuple):
    """One document on its way: the state it comes from, its `_id`, and the two lines of the bulk request."""

    state: Mapping[str, Any]
    id: str
    lines: bytes
    reduced: bool = False


@dataclass(slots=True)
class Counts:
    """What became of the documents since the indexer started."""

    indexed: int = 0
    superseded: int = 0
    reduced: int = 0


@dataclass(slots=True)
class BulkWriter:
    """Sends items to one alias."""

    client: Elasticsearch
    alias: str
    patience: Patience
    max_documents: int
    max_bytes: int
    counts: Counts = field(default_factory=Counts)

    def write(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Index the documents of some states.

        Raises:
            IndexerError: a document was refused in its whole and in its reduced form.
            StartOver: the index is gone.
        """
        for chunk in self.chunks(states):
            self.settle(chunk)

    def chunks(self, states: Iterable[Mapping[str, Any]]) -> Iterator[list[Item]]:
        """The documents of some states, as many together as one request may hold."""
        chunk: list[Item] = []
        size = 0
        for item in map(item_of, states):
            if chunk and (len(chunk) >= self.max_documents or size + len(item.lines) > self.max_bytes):
                yield chunk
                chunk, size = [], 0
            chunk.append(item)
            size += len(item.lines)
        if chunk:
            yield chunk

    def settle(self, chunk: list[Item], under_way: Future[Any] | None = None) -> None:
        """Send documents until each is indexed or superseded.

        Args:
            chunk: what one request holds.
            under_way: that request, where it was begun elsewhere; its answer is the first one.

        Raises:
            IndexerError, StartOver: as `write`.
        """
        while chunk:
            chunk = self._send(chunk, under_way)
            under_way = None

    def _send(self, chunk: list[Item], under_way: Future[Any] | None = None) -> list[Item]:
        """Send once; what has to be sent again."""

        def ask() -> Any:
            nonlocal under_way
            begun, under_way = under_way, None
            return self.request(chunk) if begun is None else begun.result()

        try:
            answer = self.patience.call("index documents", ask)
        except ApiError as error:
            return self._refused_request(chunk, error)
        again: list[Item] = []
        busy = ""
        for item, result in zip(chunk, answer["items"], strict=True):
            status, problem = result["index"]["status"], result["index"].get("error", {})
            if status in _RETRY or problem.get("type") == "cluster_block_exception":
                again.append(item)
                busy = f"{status} {problem.get('type')}"
            else:
                again.extend(self._settled(item, status, problem))
        if busy:
            self.patience.wait(f"Elasticsearch cannot take documents now ({busy})")
        return again

    def request(self, chunk: list[Item]) -> Any:
        """One bulk request and its answer, whatever that is; from any thread."""
        target = f"/{self.alias}/_bulk?require_alias=true&filter_path=items.*.status,items.*.error"
        body = b"".join(item.lines for item in chunk)
        return self.client.perform_request("POST", target, headers=_HEADERS, body=body).body

    def _settled(self, item: Item, status: int, problem: Mapping[str, Any]) -> list[Item]:
        if status < 300:
            self.counts.indexed += 1
            self.counts.reduced += item.reduced
        elif status == 409:
            self.counts.superseded += 1
        elif status == 404:
            raise StartOver("the index is gone")
        else:
            return [self._reduced(item, f"{status} {refusal_of(problem)}")]
        return []

    def _reduced(self, item: Item, reason: str) -> Item:
        if item.reduced:
            urn = item.state["urn"]
            raise IndexerError(f"Elasticsearch refuses the document of {urn}, reduced too: {reason}", urn=urn)
        return item_of(item.state, reason)

    def _refused_request(self, chunk: list[Item], error: ApiError) -> list[Item]:
        """The server refused the request as a whole: find the document that it does not like."""
        if error.status_code == 404:
            raise StartOver("the index is gone") from error
        if len(chunk) > 1:
            for item in chunk:
                self.settle([item])
            return []
        return [self._reduced(chunk[0], f"{error.status_code} {error.error}")]


def refusal_of(problem: Mapping[str, Any]) -> str:
    """What the server says of a refused document, from the outermost to the innermost cause, each shortened."""
    said = []
    while problem:
        said.append(f"{problem.get('type')}: {str(problem.get('reason'))[:300]}")
        problem = problem.get("caused_by") or {}
    return "; ".join(said)


def item_of(state: Mapping[str, Any], refusal: str | None = None) -> Item:
    """The item of a state; in its reduced form where a refusal is given."""
    document = index_document(state) if refusal is None else reduced_document(state, refusal)
    name = document_id(state["tenant"], state["urn"])
    action = {"index": {"_id": name, "version": state["logical_timestamp"], "version_type": "external"}}
    return Item(state, name, b"%b\n%b\n" % (written(action), written(document)), refusal is not None)
