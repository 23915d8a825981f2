"""The mapping and what is written for it change only together with the mapping's version."""

from __future__ import annotations

import json
from hashlib import blake2b

from metajournal.indexer.documents import index_document
from metajournal.indexer.mapping import MAPPING_VERSION, index_body, mapping_digest
from tests.indexer.corpus import CORPUS

WRITTEN = {
    1: ("aaea2087076faea8", "4a1a1e7232762b6e"),
    2: ("f35bf275de0700a8", "177e1761ee63da78"),
    3: ("0012ad20e52629f2", "5c2d8e531188e7bf"),
    4: ("d8df9e9566ba936e", "2eae29e4c36087a3"),
    5: ("4bfb2f830ac233cd", "2eae29e4c36087a3"),
    6: ("88dbbffa87f1359c", "2eae29e4c36087a3"),
}
"""For each mapping version the digest of the mapping and of the corpus's documents."""


def test_another_mapping_or_other_documents_need_another_version() -> None:
    documents = [index_document(state) for state in CORPUS.values()]
    digest = blake2b(json.dumps(documents, sort_keys=True).encode(), digest_size=8).hexdigest()
    assert WRITTEN[MAPPING_VERSION] == (mapping_digest(), digest), "raise MAPPING_VERSION and note its digests here"


def test_the_mapping_is_strict_and_uses_what_every_elasticsearch_has() -> None:
    body = index_body()
    assert body["mappings"]["dynamic"] == "strict"
    assert body["settings"]["index"]["refresh_interval"] == "-1"
    assert "analysis" not in json.dumps(body)
    used = {part["analyzer"] for part in _leaves(body["mappings"]["properties"]) if "analyzer" in part}
    assert used == {"whitespace"}


def _leaves(properties: dict[str, dict[str, object]]) -> list[dict[str, object]]:
    leaves: list[dict[str, object]] = []
    for part in properties.values():
        inner = part.get("properties")
        leaves += _leaves(inner) if isinstance(inner, dict) else [part]
    return leaves
