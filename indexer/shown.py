"""The document that says how far the index shows the journal.

It stands in the index that it speaks of, so a swap of the alias swaps both. The indexer writes it after the refresh
that shows what it claims; readers get it in real time, before they search. It holds the position vector (the next
position of each journal partition), the indexer's own offsets, and the digest of the mapping it was written with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from elasticsearch import ApiError, Elasticsearch

from ..schemas.positions import Cut, cut_from_json, cut_to_json
from .errors import IndexMissingError
from .mapping import POSITIONS_ID, mapping_digest


@dataclass(frozen=True, slots=True)
class Shown:
    """What the index shows.

    Args:
        vector: next position of each journal partition.
        offsets: next offset of each state and outcomes partition, where the indexer goes on.
        mapping: digest of the mapping that the documents were written for.
        token: (seq_no, primary_term) of the stored document; None where there is none yet.
        handover: the index that is about to take this one's place; while it is named, nobody moves the vector.
    """

    vector: Cut = field(default_factory=dict)
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    mapping: str = ""
    token: tuple[int, int] | None = None
    handover: str = ""


def read_shown(client: Elasticsearch, alias: str) -> Shown:
    """What the index shows now, in real time.

    Raises:
        IndexMissingError: there is no index.
    """
    try:
        document = client.get(index=alias, id=POSITIONS_ID, realtime=True).body
    except ApiError as error:
        if error.status_code != 404:
            raise
        if error.error == "index_not_found_exception":
            raise IndexMissingError(alias) from error
        return Shown()
    positions = document["_source"]["positions"]
    return Shown(
        vector=cut_from_json(positions["vector"]),
        offsets=cut_from_json(positions["offsets"]),
        mapping=positions["mapping"],
        token=(document["_seq_no"], document["_primary_term"]),
        handover=positions.get("handover", ""),
    )


def write_shown(client: Elasticsearch, alias: str, vector: Cut, offsets: Cut, after: Shown) -> Shown:
    """Store what the index shows now; only over the document that was read or written last.

    Raises:
        ApiError: 409 when another writer, or another index behind the alias, came between.
    """
    return _write(client, alias, Shown(dict(vector), dict(offsets), mapping_digest(), after.token))


def hand_over(client: Elasticsearch, alias: str, shown: Shown, successor: str) -> Shown:
    """Write into an index's positions which index takes its place ("" for none), and leave the rest as it is.

    Raises:
        ApiError: as `write_shown`.
    """
    return _write(client, alias, replace(shown, handover=successor))


def _write(client: Elasticsearch, alias: str, shown: Shown) -> Shown:
    positions: dict[str, Any] = {"vector": cut_to_json(shown.vector), "offsets": cut_to_json(shown.offsets)}
    positions["mapping"] = shown.mapping
    if shown.handover:
        positions["handover"] = shown.handover
    body = {"positions": positions, "deleted": True}  # no search shows it
    only: dict[str, Any] = {"op_type": "create"}
    if shown.token is not None:
        only = {"if_seq_no": shown.token[0], "if_primary_term": shown.token[1]}
    done = client.index(index=alias, id=POSITIONS_ID, document=body, require_alias=True, **only).body
    return replace(shown, token=(done["_seq_no"], done["_primary_term"]))
