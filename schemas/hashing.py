"""Digests and hashes: the record digest, Kafka's partitioner, and the one JSON spelling that digests are taken of."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final

DIGEST_HEADER: Final = "mj-digest"
DIGEST_BYTES: Final = 16
_MASK: Final = 0xFFFFFFFF
_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def digest(value: bytes) -> bytes:
    """16-byte blake2b of a record's value; travels in the Kafka header `mj-digest`. Source: RFC 7693."""
    return blake2b(value, digest_size=16).digest()


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 as a signed integer. Source: org.apache.kafka.common.utils.Utils.murmur2."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h & 0x80000000 else h


def partition_of(key: bytes, partitions: int) -> int:
    """Partition of a record key, as Java clients and librdkafka's `murmur2_random` choose it."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def record_key(tenant: str, aggregate: str) -> bytes:
    """Kafka key of a journal record: `<tenant>/<aggregate URN>`; of a state record with the entity's URN instead."""
    return f"{tenant}/{aggregate}".encode()


def canonical_json(value: Any) -> bytes:
    """The one JSON spelling: keys sorted, no blanks, UTF-8, no NaN.

    Raises:
        ValueError: the value holds NaN, an infinity or a lone surrogate.
        TypeError: the value holds something that JSON has no form for.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")
