"""Documents into the index, none lost and none skipped.

Whole documents under their external version (logical_timestamp): an older or repeated one loses by a conflict, which is
success. What the server cannot take now, or fails at, is sent again, item by item, until it can. A document that it
refuses for what the document holds goes in once more in its reduced form. If that is refused too, the server is asked
whether it takes a plain document. If so, the refused one is at fault (no entity within the journal's limits is refused
twice): it is counted, said and passed over. If not, the index is, and IndexerError stops the indexer, as it does after
every other refusal.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from elasticsearch import ApiError, Elasticsearch

from ...producers.passed_over import worth_saying
from ...schemas.untrusted import UNREADABLE
from ..documents import document_id, index_document, reduced_document
from ..errors import IndexerError
from ..spelling import written
from .patience import Patience, StartOver

_log = logging.getLogger("metajournal.indexer")
_AT_FAULT: Final = frozenset({400, 413})
"""Answers that may be a document's own fault."""
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
    refused: int = 0


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
            IndexerError: the index takes no documents.
            StartOver: the index is gone.
        """
        for chunk in self.chunks(states):
            self.settle(chunk)

    def chunks(self, states: Iterable[Mapping[str, Any]]) -> Iterator[list[Item]]:
        """The documents of some states, as many together as one request may hold."""
        chunk: list[Item] = []
        size = 0
        for item in filter(None, map(self._item, states)):
            if chunk and (len(chunk) >= self.max_documents or size + len(item.lines) > self.max_bytes):
                yield chunk
                chunk, size = [], 0
            chunk.append(item)
            size += len(item.lines)
        if chunk:
            yield chunk

    def _item(self, state: Mapping[str, Any]) -> Item | None:
        """The item of a state; None where no document can be made of it, which is counted."""
        try:
            return item_of(state)
        except UNREADABLE as error:
            reason = f"{type(error).__name__}: {error}"
        try:
            return item_of(state, reason)
        except UNREADABLE:
            self._pass_over(state, reason)
            return None

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
            answer = self.patience.answered("index documents", ask)
        except ApiError as error:
            return self._refused_request(chunk, error)
        again: list[Item] = []
        refused: list[tuple[Item, str]] = []
        busy = ""
        for item, result in zip(chunk, answer["items"], strict=True):
            status, problem = result["index"]["status"], result["index"].get("error", {})
            if _is_busy(status, problem):
                again.append(item)
                busy = f"{status} {problem.get('type')}, for {item.state['urn']}"
            elif item.reduced and status in _AT_FAULT:
                refused.append((item, f"{status} {refusal_of(problem)}"))
            else:
                again.extend(self._settled(item, status, problem))
        if refused:
            self._give_up(refused)
        if busy:
            self._wait(busy)
        else:
            self.patience.over()
        return again

    def _wait(self, why: str) -> None:
        self.patience.wait(f"Elasticsearch cannot take documents now ({why})")

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
        elif status in _AT_FAULT:
            return [item_of(item.state, f"{status} {refusal_of(problem)}")]
        else:
            raise _refusal(item, f"{status} {refusal_of(problem)}")
        return []

    def _refused_request(self, chunk: list[Item], error: ApiError) -> list[Item]:
        """The server failed at the request as a whole, or refused it: find the document that it does not like."""
        status, reason = error.status_code, f"{error.status_code} {error.error}"
        if status == 404:
            raise StartOver("the index is gone") from error
        if _is_busy(status, {}):
            self._wait(reason)
            return chunk
        if status not in _AT_FAULT:
            raise _refusal(chunk[0], reason) from error
        if len(chunk) > 1:
            for item in chunk:
                self.settle([item])
            return []
        if chunk[0].reduced:
            self._give_up([(chunk[0], reason)])
            return []
        return [item_of(chunk[0].state, reason)]

    def _give_up(self, refused: list[tuple[Item, str]]) -> None:
        """Pass documents over that are refused in both forms.

        Raises:
            IndexerError: a plain document is refused too.
        """
        item, reason = refused[0]
        if not self._takes_documents():
            raise _refusal(item, reason)
        for item, reason in refused:
            self._pass_over(item.state, reason)

    def _takes_documents(self) -> bool:
        """Whether the index takes a plain document; under a condition that never holds, so none is ever stored."""
        action = {"index": {"_id": "plain", "if_seq_no": 0, "if_primary_term": 1}}
        plain = Item(_PLAIN, "plain", b"%b\n%b\n" % (written(action), written(index_document(_PLAIN))))
        while True:
            try:
                result = self.patience.answered("index documents", lambda: self.request([plain]))["items"][0]["index"]
                status, problem = result["status"], result.get("error", {})
            except ApiError as error:
                status, problem = error.status_code, {"type": error.error}
            if status == 404:
                raise StartOver("the index is gone")
            if not _is_busy(status, problem):
                self.patience.over()
                return bool(status == 409)
            self._wait(f"{status} {problem.get('type')}")

    def _pass_over(self, state: Mapping[str, Any], reason: str) -> None:
        self.counts.refused = count = self.counts.refused + 1
        if worth_saying(count):
            _log.error(
                "The document of %s is refused in every form (%s); it is skipped, number %d since the start.",
                state["urn"], reason, count,
            )  # fmt: skip


_PLAIN: Final[Mapping[str, Any]] = {
    "tenant": "default",
    "urn": "dataset:default/plain",
    "kind": "dataset",
    "namespace": "default",
    "name": "plain",
    "deleted": False,
    "logical_timestamp": 1,
    "user": {"properties": {"key": "value"}, "tags": ["tag"]},
    "system": {"properties": {"key": "value"}, "tags": ["tag"]},
}
"""A state whose document every index of ours takes."""


def _is_busy(status: int, problem: Mapping[str, Any]) -> bool:
    """Whether waiting helps: the server is overloaded, failed, or takes no writes for now."""
    return status == 429 or status >= 500 or problem.get("type") == "cluster_block_exception"


def _refusal(item: Item, reason: str) -> IndexerError:
    urn, form = item.state["urn"], ", reduced too" if item.reduced else ""
    return IndexerError(f"Elasticsearch refuses the document of {urn}{form}: {reason}", urn=urn)


def refusal_of(problem: Mapping[str, Any]) -> str:
    """What the server says of a refused document, from the outermost to the innermost cause, each shortened."""
    causes = []
    while problem:
        causes.append(f"{problem.get('type')}: {str(problem.get('reason'))[:300]}")
        problem = problem.get("caused_by") or {}
    return "; ".join(causes)


def item_of(state: Mapping[str, Any], refusal: str | None = None) -> Item:
    """The item of a state; in its reduced form where a refusal is given."""
    document = index_document(state) if refusal is None else reduced_document(state, refusal)
    name = document_id(state["tenant"], state["urn"])
    action = {"index": {"_id": name, "version": state["logical_timestamp"], "version_type": "external"}}
    return Item(state, name, b"%b\n%b\n" % (written(action), written(document)), refusal is not None)
